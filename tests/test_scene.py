"""A real scene from the command line: a Landsat 7 image of a town by the sea, where it is at hand."""

from pathlib import Path

import pytest
from launch import finish, start

SCENE = Path(__file__).resolve().parents[2] / "shared" / "data" / "L7_ETMs.tif"
# Rows and columns that are plainly one thing in the picture of its visible bands.
SEA, TOWN, FOREST = (
    (slice(280, 350), slice(290, 345)),
    (slice(300, 345), slice(20, 120)),
    (slice(100, 150),) * 2,
)

INPUT = """
[image]
path = "{scene}"
ndvi = {{ red = 3, nir = 4 }}
[model]
labels = {labels}
[prior]
beta = [0.0, 3.0]
mean = {{ mean = "image", sd = 2.236 }}
[precompute]
grid = "critical"
points = 60
iterations = 300
burn_in = 100
[fit]
final_sweeps = 400
final_burn_in = 4000
[smc]
particles = 1000
replicates = 50
alpha = 0.9
label_sweeps = 40
"""


@pytest.mark.long
@pytest.mark.skipif(not SCENE.is_file(), reason="the scene is not here")
@pytest.mark.parametrize("k", [3, 6])
def test_water_town_and_vegetation_have_labels_of_their_own(tmp_path, k):
    rasterio = pytest.importorskip("rasterio")
    path = tmp_path / "scene.toml"
    path.write_text(INPUT.format(scene=SCENE, labels=k))
    done = finish(start(["run", path, "--output", tmp_path / "out"], ranks=2), 1800)
    assert done.code == 0, done.stderr
    with rasterio.open(SCENE) as scene, rasterio.open(tmp_path / "out" / "labels.tif") as found:
        assert found.crs == scene.crs and found.transform == scene.transform and found.shape == scene.shape
        labels = found.read(1)
    # Labels ascend with the index: water lowest, then what is built, then what grows.
    assert (labels[SEA] == 1).mean() > 0.98 and (labels[SEA] > 3).mean() < 0.001
    assert (labels == 1).mean() == pytest.approx(0.15, abs=0.01)
    lower, upper = (2, 2) if k == 3 else (2, 4)
    assert ((labels[TOWN] >= lower) & (labels[TOWN] <= upper)).mean() > 0.9
    assert (labels[FOREST] > upper).mean() > 0.9
    assert (tmp_path / "out" / "report.html").stat().st_size > 100_000
