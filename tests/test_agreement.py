"""Hidden images by the methods that should agree: path sampling, exchange, and the marginal draws of SMC-ABC.

Each method's mean has the Monte Carlo error sd / sqrt(ESS); two of them differ by less than four of their
joint errors.  The particles for the last S(z) leave out the uncertainty of the labels; the study shows it.
"""

import itertools

import numpy as np
import pytest
from fitting import options

from mpi_potts.cli import study as command
from mpi_potts.config import inputs
from mpi_potts.io import formats, reading
from mpi_potts.runtime import parallel
from mpi_potts.study import scores as study

INPUT = """
seed = 21
[image]
shape = [20, 20]
[model]
labels = {labels}
[prior]
beta = [0.0, 1.2]
mean = {{ mean = {means}, sd = 0.1 }}
variance = {{ shape = 50.0, scale = 32.0 }}
[precompute]
grid = "regular"
points = 121
iterations = 2000
burn_in = 300
[fit]
final_sweeps = 6000
final_burn_in = 500
[smc]
particles = 1000
replicates = 50
alpha = 0.9
label_sweeps = 200
max_iterations = 60
[exchange]
iterations = 4500
burn_in = 500
auxiliary_sampler = "swendsen-wang"
auxiliary_sweeps = 20
[simulate]
images = 3
beta = [0.3, 0.6, 0.9]
sweeps = 300
[study]
methods = ["path", "exchange", "smc-abc"]
draws = 19
"""
AGREE = ("path", "exchange", "smc-abc marginal")


@pytest.fixture(scope="module", params=[2, 3])
def found(request, tmp_path_factory):
    """{method: what it found on three images whose labels overlap}."""
    directory = tmp_path_factory.mktemp("agreement")
    path = directory / "input.toml"
    means = {2: [-1.0, 1.0], 3: [-2.0, 0.0, 2.0]}[request.param]
    path.write_text(INPUT.format(labels=request.param, means=means))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command.report, "drawable", lambda: False)
        command.execute(parallel.ALONE, inputs.load(path, (), directory), options())
    attributes, arrays = reading.read(directory / "study.h5", *formats.STUDY)
    return {fits.name: fits for fits in study.from_arrays(arrays, attributes["rows"])}


@pytest.mark.parametrize("one, other", list(itertools.combinations(AGREE, 2)))
def test_methods_agree_on_every_hidden_image(found, one, other):
    one, other = found[one], found[other]
    assert min(one.ess.min(), other.ess.min()) > 50.0, "the errors are those of enough draws"
    error = np.sqrt(one.sd**2 / one.ess + other.sd**2 / other.ess)
    assert (np.abs(one.mean - other.mean) < 4.0 * error).all()
    # The standard error of log(sd) of a normal sample is 1 / sqrt(2 n).
    spread = np.sqrt(0.5 / one.ess + 0.5 / other.ess)
    assert (np.abs(np.log(one.sd / other.sd)) < 4.0 * spread).all()


def test_particles_for_the_last_statistic_are_narrower_than_the_posterior(found):
    particles, marginal = found["smc-abc particles"], found["smc-abc marginal"]
    narrow = np.log(particles.sd / marginal.sd)
    error = np.sqrt(0.5 / particles.ess + 0.5 / marginal.ess)
    assert narrow.sum() < -4.0 * np.sqrt((error**2).sum())
