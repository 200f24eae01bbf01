"""Maps: the same place on earth or in space as the image, labels with colours, nothing lost on the way."""

import math
from pathlib import Path

import numpy as np
import pytest

from mpi_potts.config import inputs
from mpi_potts.errors import InputError
from mpi_potts.image import maps
from mpi_potts.image.maps import (
    SCALE,
    TIE_POINTS,
    TRANSFORMATION,
    Maps,
    colours,
    entropy,
    shifted,
    write_maps,
)
from mpi_potts.image.pixels import Image, load_image

SCENE = Path(__file__).resolve().parents[2] / "shared" / "data" / "L7_ETMs.tif"
GEOREFERENCE = {
    SCALE: (30.0, 20.0, 0.0),
    TIE_POINTS: (0.0, 0.0, 0.0, 500000.0, 4100000.0, 0.0),
    34735: (1, 1, 0, 1, 1024, 0, 1, 1),
}


def maps_of(shape=(6, 9), k=3):
    """Labels that cover 0 (masked) to k, and numbers that are nan where masked."""
    labels = (np.arange(math.prod(shape)) % (k + 1)).astype(np.uint8).reshape(shape)
    numbers = np.where(labels > 0, labels / (k + 1.0), np.nan).astype(np.float32)
    return Maps(labels, k, numbers, 1.0 - numbers / 2.0)


def image_of(source, shape=(6, 9), offset=(0, 0), tags=None):
    return Image(np.zeros(shape), None, None, Path(source), offset, tags or {})


def test_entropy_runs_from_certainty_to_log2_k():
    p = np.array([[1.0, 0.0, 0.0, 0.0], [0.25, 0.25, 0.25, 0.25], [0.5, 0.5, 0.0, 0.0]])
    assert entropy(p).tolist() == [0.0, 2.0, 1.0]
    assert not np.signbit(entropy(p)).any()


@pytest.mark.parametrize("k", [2, 3, 6, 20, 100])
def test_colours_are_apart_and_grow_lighter(k):
    table = colours(k)
    assert len({tuple(colour) for colour in table.tolist()}) == k
    assert (np.diff(table @ np.array([0.299, 0.587, 0.114])) > 0.0).all()


def test_a_crop_moves_the_tie_point_by_whole_pixels():
    moved = shifted(GEOREFERENCE, (4, 7))
    assert moved[TIE_POINTS] == (0.0, 0.0, 0.0, 500000.0 + 7 * 30.0, 4100000.0 - 4 * 20.0, 0.0)
    assert moved[SCALE] == GEOREFERENCE[SCALE]
    assert shifted(GEOREFERENCE, (0, 0)) == GEOREFERENCE


def test_a_crop_moves_a_transformation_and_many_tie_points():
    matrix = np.array([[3.0, 1.0, 0.0, 100.0], [2.0, -5.0, 0.0, 900.0], [0, 0, 0, 0], [0, 0, 0, 1.0]])
    points = (0.0, 0.0, 0.0, 1.0, 2.0, 0.0, 50.0, 60.0, 0.0, 3.0, 4.0, 0.0)
    moved = shifted({TRANSFORMATION: tuple(matrix.ravel()), TIE_POINTS: points}, (4, 7))
    # The pixel at (column 1, row 2) of the part is the one at (8, 6) of the whole.
    part = np.array(moved[TRANSFORMATION]).reshape(4, 4) @ (1.0, 2.0, 0.0, 1.0)
    assert part.tolist() == (matrix @ (8.0, 6.0, 0.0, 1.0)).tolist()
    assert moved[TIE_POINTS] == (-7.0, -4.0, 0.0, 1.0, 2.0, 0.0, 43.0, 56.0, 0.0, 3.0, 4.0, 0.0)


def test_a_geotiff_has_the_values_the_tags_and_the_colours(tmp_path):
    tifffile = pytest.importorskip("tifffile")
    made = maps_of()
    written = write_maps(made, image_of("scene.TIF", offset=(4, 7), tags=GEOREFERENCE), tmp_path)
    assert [path.name for path in written] == ["labels.tif", "entropy.tif", "probability.tif"]
    for path, (_, values) in zip(written, made.items()):
        with tifffile.TiffFile(path) as file:
            tags = file.pages[0].tags
            np.testing.assert_array_equal(file.asarray(), values)
            assert tags[TIE_POINTS].value == shifted(GEOREFERENCE, (4, 7))[TIE_POINTS]
            assert tags[34735].value == GEOREFERENCE[34735]
            assert tags[42113].value.strip("\0 ") == ("0" if path.stem == "labels" else "nan")
            if path.stem == "labels":
                assert (file.pages[0].colormap[:, 1:4] // 257).T.tolist() == colours(3).tolist()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(path.name for path in written)


def test_a_png_keeps_label_numbers_and_makes_masked_pixels_transparent(tmp_path):
    pictures = pytest.importorskip("PIL.Image")
    made = maps_of()
    written = write_maps(made, image_of("photo.png"), tmp_path)
    with pictures.open(written[0]) as picture:
        assert picture.mode == "P"
        np.testing.assert_array_equal(np.asarray(picture), made.labels)
        shown = np.asarray(picture.convert("RGBA"))
    assert (shown[made.labels == 0, 3] == 0).all()
    assert shown[made.labels == 2].tolist() == [[*colours(3)[1].tolist(), 255]] * int(
        (made.labels == 2).sum()
    )
    with pictures.open(written[1]) as picture:
        grey, there = np.moveaxis(np.asarray(picture), -1, 0)
    np.testing.assert_array_equal(there == 255, made.labels > 0)
    expected = (np.nan_to_num(made.entropy) / np.log2(3) * 255).round()
    np.testing.assert_array_equal(grey, expected)


@pytest.mark.parametrize("offset", [(0, 0, 0), (3, 5, 2)])
def test_a_volume_keeps_its_affine_and_a_crop_moves_it(tmp_path, offset):
    nibabel = pytest.importorskip("nibabel")
    affine = np.array(
        [[-2.0, 0.1, 0.0, 90.0], [0.0, 2.0, 0.3, -126.0], [0.0, 0.0, 2.5, -72.0], [0, 0, 0, 1.0]]
    )
    source = tmp_path / "scan.nii.gz"
    nibabel.save(nibabel.Nifti1Image(np.zeros((12, 14, 9), np.int16), affine), source)
    made = maps_of((5, 6, 4))
    written = write_maps(made, image_of(source, (5, 6, 4), offset), tmp_path)
    for path, (_, values) in zip(written, made.items()):
        found = nibabel.load(path)
        np.testing.assert_array_equal(np.asanyarray(found.dataobj), values)
        assert found.get_data_dtype() == values.dtype
        origin = affine @ (*offset, 1.0)
        np.testing.assert_allclose(found.affine[:, 3], origin, rtol=1e-6)
        np.testing.assert_allclose(found.affine[:, :3], affine[:, :3], rtol=1e-6)


def test_a_volume_of_plain_numbers_is_nifti_too(tmp_path):
    nibabel = pytest.importorskip("nibabel")
    written = write_maps(maps_of((4, 5, 3)), None, tmp_path)
    assert nibabel.load(written[0]).affine.tolist() == np.eye(4).tolist()


def test_equal_maps_are_equal_bytes(tmp_path):
    pytest.importorskip("nibabel")
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write_maps(maps_of((4, 5, 3)), None, tmp_path / name)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()


def test_a_missing_package_is_named_with_its_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(maps.optional.__globals__["importlib"].sys.modules, "tifffile", None)
    with pytest.raises(InputError, match=r"pip install 'mpi_potts\[geotiff\]'"):
        write_maps(maps_of(), image_of("scene.tif"), tmp_path)
    assert list(tmp_path.iterdir()) == []


def check_in_gdal(directory, source, crop):
    """Maps of two bands of a GeoTIFF: GDAL finds them at its place, with their values, masks and colours."""
    rasterio = pytest.importorskip("rasterio")
    keys = "" if crop is None else f"crop = {list(crop)}"
    path = directory / "input.toml"
    path.write_text(f'[image]\npath = "{source}"\nndvi = {{ red = 3, nir = 4 }}\n{keys}\n')
    image = load_image(inputs.load(path))
    made = maps_of(image.shape, 6)
    written = write_maps(made, image, directory)
    with rasterio.open(source) as scene:
        reference, (a, b, c, d, e, f, *_) = scene.crs, scene.transform
    assert reference.is_projected
    top, left = image.offset
    # The origin to a micrometre; a double has a few nanometres there.
    place = (a, b, pytest.approx(c + left * a, abs=1e-6), d, e, pytest.approx(f + top * e, abs=1e-6))
    for file, (_, values) in zip(written, made.items()):
        with rasterio.open(file) as found:
            assert found.crs == reference
            assert tuple(found.transform)[:6] == place
            np.testing.assert_array_equal(found.read(1), values)
            np.testing.assert_array_equal(found.read_masks(1) > 0, made.labels > 0)
    with rasterio.open(written[0]) as found:
        assert found.colormap(1)[6] == (*colours(6)[5].tolist(), 255)


@pytest.mark.parametrize("crop", [None, (10, 50, 20, 61)])
def test_gdal_sees_the_map_where_the_image_is(tmp_path, crop):
    rasterio = pytest.importorskip("rasterio")
    bands = np.random.default_rng(2).integers(1, 255, size=(4, 60, 70)).astype(np.uint8)
    place = rasterio.Affine(28.5, 0.0, 288776.25, 0.0, -30.0, 9120760.75)
    how = {"driver": "GTiff", "width": 70, "height": 60, "count": 4, "dtype": "uint8"}
    with rasterio.open(tmp_path / "made.tif", "w", crs="EPSG:31985", transform=place, **how) as file:
        file.write(bands)
    check_in_gdal(tmp_path, tmp_path / "made.tif", crop)


@pytest.mark.skipif(not SCENE.is_file(), reason="the scene is not here")
@pytest.mark.parametrize("crop", [None, (40, 90, 30, 101)])
def test_gdal_sees_the_map_where_the_scene_is(tmp_path, crop):
    check_in_gdal(tmp_path, SCENE, crop)
