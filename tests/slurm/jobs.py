"""What the tests of the job scripts share: a small input, edits of a script, a comparison of results."""

from pathlib import Path

from mpi_potts.io import reading

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "jobscripts"
HELD = Path(__file__).resolve().parent / "held.py"
IMAGES = 2

INPUT = """
seed = 5
output = "out"
[image]
shape = [24, 24]
[model]
labels = 3
[prior]
beta = [0.0, 1.3]
mean = { mean = 0.0, sd = 10.0 }
variance = { shape = 1.0, scale = 0.1 }
[precompute]
grid = "critical"
points = 40
iterations = 2000
burn_in = 100
file = "binding.h5"
[fit]
final_sweeps = 200
final_burn_in = 50
[smc]
particles = 200
replicates = 20
min_acceptance = 0.0
min_epsilon = 0.001
noise_floor = 0.0
label_sweeps = 20
max_iterations = 60
[simulate]
images = 2
beta = 0.8
mean = [-2.0, 0.0, 2.0]
sd = [0.7, 0.7, 0.7]
sweeps = 100
[run]
checkpoint_minutes = 1e-9
"""


def image_options(number):
    return ["--set", f"image.path=images/image_{number}.h5", "--output", f"fit_{number}"]


def edited(script, target, /, **lines):
    """A copy of a script, edited as a user does: the one line that begins with `name=` becomes another."""
    found = script.read_text().splitlines()
    for name, line in lines.items():
        at = [number for number, text in enumerate(found) if text.startswith(f"{name}=")]
        assert len(at) == 1, f"{script}: {len(at)} lines begin with {name}="
        found[at[0]] = line
    target.write_text("\n".join(found) + "\n")
    return target


def assert_same_bits(one, other, name, kind):
    """All datasets of two files but the times are the same."""
    first, second = (reading.read(directory / name, kind, 1)[1] for directory in (one, other))
    assert set(first) == set(second)
    differ = [
        key for key in first if not key.endswith("seconds") and first[key].tobytes() != second[key].tobytes()
    ]
    assert not differ
