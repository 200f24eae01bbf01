"""The input file: what is accepted, what is refused and in which words."""

from pathlib import Path

import pytest

from mpi_potts.config import inputs, paper
from mpi_potts.errors import InputError

SMALLEST = "[image]\nshape = [8, 8]\n"

# (text after the smallest input, the key that is named, a part of the value, a part of what is accepted)
REFUSED = [
    ("[model]\nlables = 3", "model.lables", "3", "labels"),
    ("[modle]\nlabels = 3", "modle", "labels", "model"),
    ("[model]\nparticles = 3", "model.particles", "3", "smc.particles"),
    ("[model]\nzzz = 3", "model.zzz", "3", "labels, neighbourhood"),
    ("[model]\nlabels = 1", "model.labels", "1", "2 to 255"),
    ("[model]\nlabels = 256", "model.labels", "256", "2 to 255"),
    ("[model]\nlabels = 3.0", "model.labels", "3.0", "integer"),
    ("[model]\nlabels = true", "model.labels", "true", "integer"),
    ('[model]\nlabels = "3"', "model.labels", '"3"', "integer"),
    ("[model]\nlabels = [3]", "model.labels", "[3]", "integer"),
    ("[model]\nlabels = 1979-05-27", "model.labels", "1979-05-27", "integer"),
    ('[model]\nneighbourhood = "third"', "model.neighbourhood", "third", '"hexagonal", or 4, 6, 8, 18 or 26'),
    (
        '[precompute]\ngrid = "regular"\nburn_in = 1000',
        "precompute.burn_in",
        "1000",
        "precompute.iterations = 1000",
    ),
    (
        '[precompute]\ngrid = "regular"\niterations = 10',
        "precompute.burn_in",
        "500",
        "precompute.iterations = 10",
    ),
    ("[precompute]\nburn_in = -1", "precompute.burn_in", "-1", ">= 0"),
    ("[precompute]\npoints = 1", "precompute.points", "1", ">= 2"),
    ('[precompute]\ngrid = "log"', "precompute.grid", "log", '"critical" or "regular"'),
    ("[precompute]\ngrid = [0.1, -0.2]", "precompute.grid", "-0.2", ">= 0"),
    ("[precompute]\ngrid = []", "precompute.grid", "[]", "list"),
    ("[precompute]\ngrid = [0.1, nan]", "precompute.grid", "nan", "finite"),
    (
        '[precompute]\nsampler = "wolff"',
        "precompute.sampler",
        "wolff",
        '"swendsen-wang", "gibbs" or "alternating"',
    ),
    ('[precompute]\nstarts = "cold"', "precompute.starts", "cold", '"both"'),
    ('[precompute]\ninterpolation = "cubic"', "precompute.interpolation", "cubic", '"smooth" or "linear"'),
    ("[precompute]\nkeep_states = 1", "precompute.keep_states", "1", "true or false"),
    ('[precompute]\nfile = ""', "precompute.file", '""', "text"),
    ("[prior]\nbeta = [1.0, 0.5]", "prior.beta", "[1.0, 0.5]", "smaller"),
    ("[prior]\nbeta = [0.5, 0.5]", "prior.beta", "[0.5, 0.5]", "smaller"),
    ("[prior]\nbeta = [-0.5, 0.5]", "prior.beta", "-0.5", ">= 0"),
    ("[prior]\nbeta = [0, 26]", "prior.beta", "26", "<= 25"),
    ("[prior]\nbeta = [0, inf]", "prior.beta", "inf", "finite"),
    ("[prior]\nbeta = 1", "prior.beta", "1", "list of 2"),
    ("[prior]\nmean = 3", "prior.mean", "3", "mean, sd"),
    ("[prior]\nmean = { mean = [0, 1], sd = 1 }", "prior.mean.mean", "[0.0, 1.0]", "3"),
    ("[prior]\nmean = { sd = 0 }", "prior.mean.sd", "0", "> 0"),
    ("[prior]\nmean = { st = 1 }", "prior.mean.st", "1", "mean, sd"),
    ("[prior]\nvariance = { shape = 1, scale = [1, nan, 1] }", "prior.variance.scale", "nan", "finite"),
    ('[fit]\nmethod = "abc-smc"', "fit.method", "abc-smc", '"smc-abc"'),
    ("[fit]\nchains = 0", "fit.chains", "0", ">= 1"),
    ('[fit]\npseudo_data = "no"', "fit.pseudo_data", "no", "true or false"),
    ("[smc]\nparticles = 0", "smc.particles", "0", ">= 2"),
    ("[smc]\nparticles = -5", "smc.particles", "-5", ">= 2"),
    ("[smc]\nreplicates = 0", "smc.replicates", "0", ">= 1"),
    ("[smc]\nalpha = 0.0", "smc.alpha", "0.0", "> 0 and < 1"),
    ("[smc]\nalpha = 1.0", "smc.alpha", "1.0", "> 0 and < 1"),
    ("[smc]\nalpha = nan", "smc.alpha", "nan", "> 0 and < 1"),
    ("[smc]\nresample_below = 1.5", "smc.resample_below", "1.5", "<= 1"),
    ("[smc]\nmin_acceptance = -0.1", "smc.min_acceptance", "-0.1", ">= 0"),
    ('[smc]\nresampling = "stratified"', "smc.resampling", "stratified", '"residual"'),
    ("[smc]\nmax_iterations = 10000000000", "smc.max_iterations", "10000000000", "integer"),
    ("[simulate]\nimages = 0", "simulate.images", "0", "1 to"),
    ("[simulate]\nbeta = -1", "simulate.beta", "-1", ">= 0"),
    ("[simulate]\nimages = 3\nbeta = [0.1, 0.2]", "simulate.beta", "[0.1, 0.2]", "simulate.images = 3"),
    ("[simulate]\nmean = [1, 2]", "simulate.mean", "[1.0, 2.0]", "model.labels = 3"),
    ("[simulate]\nsd = [1, 2, 0]", "simulate.sd", "0", "> 0"),
    ("[run]\ncheckpoint_minutes = 0", "run.checkpoint_minutes", "0", "> 0"),
    ('[run]\nwriter = "netcdf"', "run.writer", "netcdf", '"gather"'),
]

REFUSED_IMAGES = [
    ("", "image.shape", "missing", "2 or 3"),
    ("[image]\nshape = [8]", "image.shape", "[8]", "2 or 3"),
    ("[image]\nshape = [8, 0]", "image.shape", "0", ">= 1"),
    ("[image]\nshape = [8, 8]\nband = 0", "image.band", "0", ">= 1"),
    ("[image]\nshape = [8, 8]\nkind = 'label'", "image.kind", "label", '"observations" or "labels"'),
    ("[image]\npath = 'a.npy'\nband = 1\nndvi = { red = 1, nir = 2 }", "image.band", "1", "image.ndvi"),
    ("[image]\npath = 'a.npy'\nndvi = { red = 1 }", "image.ndvi", "red", "nir"),
    ("[image]\npath = 'a.npy'\ncrop = [4, 2, 0, 3]", "image.crop", "[4, 2, 0, 3]", "from < to"),
    ("[image]\npath = 'a.npy'\ncrop = [0, 2, 0]", "image.crop", "[0, 2, 0]", "4 or 6"),
    ("[image]\npath = 'a.npy'\ncrop = [-1, 2, 0, 3]", "image.crop", "-1", ">= 0"),
    ("[image]\nshape = [8, 8]\ncrop = [0, 2, 0, 3]", "image.crop", "[0, 2, 0, 3]", "image.path"),
    ("[image]\npath = 3", "image.path", "3", "text"),
    ("image = 3", "image", "3", "table"),
    ("seed = -1\n[image]\nshape = [8, 8]", "seed", "-1", "0 to"),
    ("sead = 1\n[image]\nshape = [8, 8]", "sead", "1", "seed"),
    ("output = 3\n[image]\nshape = [8, 8]", "output", "3", "text"),
]


@pytest.fixture
def write(tmp_path):
    def write(text):
        path = tmp_path / "input.toml"
        path.write_text(text)
        return path

    return write


def message(path, overrides=(), output=None):
    with pytest.raises(InputError) as caught:
        inputs.load(path, overrides, output)
    text = str(caught.value)
    assert len(text.splitlines()) == 1
    return text


@pytest.mark.parametrize(
    ("text", "key", "value", "accepted"), [(SMALLEST + t, *rest) for t, *rest in REFUSED] + REFUSED_IMAGES
)
def test_what_cannot_be_right_is_refused_by_file_key_value_and_what_is_accepted(
    write, text, key, value, accepted
):
    path = write(text)
    said = message(path)
    assert said.startswith(f"{path}: {key}")
    assert value in said and accepted in said


def test_the_defaults_are_those_of_the_paper_but_for_what_the_image_tells(write):
    c = inputs.load(write(SMALLEST))
    assert (c.seed, c.model.labels, c.model.neighbourhood) == (1, 3, "first")
    assert c.prior.left_to_lattice
    assert (c.prior.mean.mean, c.prior.mean.sd) == (c.prior.variance.shape, c.prior.variance.scale)
    assert {c.prior.mean.mean, c.prior.mean.sd} == {"image"}
    p = c.precompute
    assert (p.grid, p.accuracy, p.sampler) == ("adaptive", 0.1, "auto")
    p = inputs.load(write(SMALLEST + '[precompute]\ngrid = "critical"\n')).precompute
    assert (p.points, p.iterations, p.burn_in) == (1000, 1000, 500)
    assert (c.fit.method, c.fit.pseudo_data) == ("smc-abc", False)
    s = c.smc
    assert (s.particles, s.replicates, s.alpha, s.resampling, s.resample_below) == (
        10000,
        200,
        0.97,
        "residual",
        0.5,
    )
    assert (s.min_acceptance, s.max_iterations, s.label_sweeps) == (0.015, 500, 100)


def test_as_in_paper_turns_every_departure_off_and_takes_the_paper_s_sizes(write):
    c = inputs.load(write(f"{SMALLEST}\n[fit]\nas_in_paper = true\n[smc]\nparticles = 500"))
    for departures in (paper.DEPARTURES, paper.SIZES):
        for table, keys in departures.items():
            found = {name: getattr(c.table(table), name) for name in keys}
            assert found == keys | ({"particles": 500} if "particles" in keys else {})
    assert c.fit.as_in_paper
    plain = inputs.load(write(SMALLEST))
    for table, keys in paper.DEPARTURES.items():
        for name in keys.keys() - {"method", "grid", "chains", "sort_labels"}:
            assert getattr(plain.table(table), name) != getattr(c.table(table), name), name


@pytest.mark.parametrize(
    ("table", "name", "value"),
    [
        ("precompute", "interpolation", "smooth"),
        ("precompute", "grid", "regular"),
        ("fit", "method", "path"),
        ("fit", "start", "best"),
        ("fit", "chains", 2),
        ("fit", "sort_labels", "true"),
        ("smc", "weights", "moving"),
        ("smc", "bandwidth", "current"),
        ("smc", "guide", "true"),
        ("smc", "last_mutations", 10),
        ("smc", "rise_below", 0.1),
        ("smc", "noise_floor", 0.5),
        ("smc", "min_epsilon", 0.5),
        ("smc", "replicates", "infinite"),
    ],
)
def test_what_contradicts_as_in_paper_is_refused_by_name(write, table, name, value):
    path = write(SMALLEST)
    with pytest.raises(InputError, match=rf"{table}\.{name} = .*as_in_paper = true"):
        inputs.load(path, ("fit.as_in_paper=true", f"{table}.{name}={value}"))
    # Each is accepted alone.
    inputs.load(path, (f"{table}.{name}={value}",))


def test_overrides_are_toml_values_or_bare_words(write):
    path = write(SMALLEST)
    settings = [
        "model.labels=4",
        "precompute.sampler=gibbs",
        "precompute.grid = [0.1, 0.2]",
        "prior.mean.sd=2.5",
        "image.ndvi={red = 3, nir = 4}",
        "smc.particles=1_000",
        "precompute.file=../shared/binding file.h5",
        "seed=7",
    ]
    c = inputs.load(path, settings, "elsewhere")
    assert c.model.labels == 4 and c.precompute.sampler == "gibbs" and c.precompute.grid == (0.1, 0.2)
    assert c.prior.mean.sd == (2.5,) * 4 and c.prior.mean.mean == "image"
    assert (c.image.ndvi.red, c.image.ndvi.nir) == (3, 4)
    assert c.smc.particles == 1000 and c.seed == 7
    assert c.precompute.file == path.parent / "../shared/binding file.h5"
    assert c.output == Path("elsewhere")
    assert c.overrides == tuple(settings) and c.text == SMALLEST


@pytest.mark.parametrize(
    "setting",
    [
        "model.labels",
        "=3",
        "model.=3",
        ".labels=3",
        "model..labels=3",
        "seed.x=3",
        "prior.beta=[0, 1",
        "seed=1\nx=2",
    ],
)
def test_overrides_that_are_not_table_key_value_are_refused(write, setting):
    with pytest.raises(InputError):
        inputs.load(write("seed = 1\n" + SMALLEST), [setting])


def test_a_refused_override_is_named_as_one(write):
    assert "model.labels = 1 (from --set)" in message(write(SMALLEST), ["model.labels=1"])


def test_paths_are_relative_to_the_input_file_and_output_to_the_current_directory(write):
    path = write("output = 'out/here'\n[image]\npath = 'data/a.npy'\nmask = '/abs/m.npy'\n")
    c = inputs.load(path)
    assert c.image.path == path.parent / "data/a.npy"
    assert c.image.mask == Path("/abs/m.npy")
    assert c.output == Path("out/here")
    assert inputs.load(write(SMALLEST)).output == Path("out/input")


@pytest.mark.parametrize(
    "text", ["seed = ", "[image", "seed = 1\nseed = 2", "x = " + "[" * 3000, "seed = 1" + "0" * 5000]
)
def test_text_that_is_not_toml_is_one_line(write, text):
    path = write(text)
    assert message(path).startswith(f"{path}: ")


def test_files_that_cannot_be_read_are_one_line(tmp_path):
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    for name in ("missing.toml", "binary.toml", "."):
        assert message(tmp_path / name).startswith(str(tmp_path))
    (tmp_path / "a.toml").write_text(SMALLEST)
    assert "--output" in message(tmp_path / "a.toml", output="")


def test_nan_marks_pixels_that_do_not_exist(write):
    nodata = inputs.load(write("[image]\nshape = [8, 8]\nnodata = nan\n")).image.nodata
    assert nodata != nodata


def test_every_key_is_described_and_its_default_is_accepted(write):
    rows = inputs.describe_keys()
    names = [name for name, *_ in rows]
    assert len(names) == len(set(names)) and "prior.mean.sd" in names and "smc.alpha" in names
    assert all(accepts and meaning for _, _, accepts, meaning in rows)
    for name, default, _, _ in rows:
        if default:
            inputs.load(write(SMALLEST), [f"{name}={default}"])
