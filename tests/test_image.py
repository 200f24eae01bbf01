"""Images: every format gives the same values; what cannot be segmented is refused by name and position."""

import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

from mpi_potts.config import inputs
from mpi_potts.errors import InputError
from mpi_potts.image.pixels import lattice_of, load_image

SCENE = Path(__file__).resolve().parents[2] / "shared" / "data" / "L7_ETMs.tif"
PIXELS = np.arange(20, dtype=np.uint8).reshape(4, 5) * 3


def write_npy(path, array):
    np.save(path, array)


def write_csv(path, array):
    np.savetxt(path, array, delimiter=",", fmt="%.17g")


def write_h5(path, array):
    with h5py.File(path, "w") as file:
        file["values"] = array


def write_png(path, array):
    from PIL import Image

    Image.fromarray(array).save(path)


def write_tif(path, array):
    import tifffile

    tifffile.imwrite(path, array)


def write_nii(path, array):
    import nibabel

    nibabel.save(nibabel.Nifti1Image(array, np.eye(4)), path)


WRITERS = {
    "a.npy": write_npy,
    "a.csv": write_csv,
    "a.h5": write_h5,
    "a.png": write_png,
    "a.tif": write_tif,
    "a.nii": write_nii,
    "a.nii.gz": write_nii,
}


@pytest.fixture
def settings(tmp_path):
    """Write an input file beside an image; returns the Config."""

    def settings(name="a.npy", *overrides):
        path = tmp_path / "input.toml"
        path.write_text(f"[image]\npath = '{name}'\n")
        return inputs.load(path, overrides)

    return settings


def refused(settings, *parts):
    with pytest.raises(InputError) as caught:
        load_image(settings)
    said = str(caught.value)
    assert len(said.splitlines()) == 1 and "input.toml" in said
    for part in parts:
        assert part in said, said


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_gives_the_same_values(tmp_path, settings, name):
    WRITERS[name](tmp_path / name, PIXELS)
    image = load_image(settings(name))
    assert image.values.dtype == np.float64
    np.testing.assert_array_equal(image.values, PIXELS)
    assert image.mask is None and image.labels is None and image.offset == (0, 0)


@pytest.mark.parametrize("name", ["a.npy", "a.h5", "a.tif", "a.nii.gz"])
def test_volumes_keep_their_axes(tmp_path, settings, name):
    volume = np.random.default_rng(1).normal(size=(4, 5, 6)).astype(np.float32)
    if name == "a.tif":
        import tifffile

        # TIFF files hold planes first.
        tifffile.imwrite(tmp_path / name, volume.transpose(2, 0, 1), metadata={"axes": "ZYX"}, imagej=True)
    else:
        WRITERS[name](tmp_path / name, volume)
    image = load_image(settings(name))
    np.testing.assert_array_equal(image.values, volume)
    assert lattice_of(settings(name), image).dimensions == 3


def test_bands_are_counted_from_one_and_must_exist(tmp_path, settings):
    bands = np.random.default_rng(2).integers(1, 200, size=(4, 5, 3)).astype(np.uint8)
    for name, writer in (("a.npy", write_npy), ("a.png", write_png)):
        writer(tmp_path / name, bands)
        np.testing.assert_array_equal(load_image(settings(name, "image.band=2")).values, bands[:, :, 1])
        refused(settings(name, "image.band=4"), "image.band = 4", "1 to 3")
    refused(settings("a.png"), "image.band is missing", "1 to 3")
    write_npy(tmp_path / "flat.npy", PIXELS)
    np.testing.assert_array_equal(load_image(settings("flat.npy", "image.band=1")).values, PIXELS)
    refused(settings("flat.npy", "image.band=2"), "image.band = 2", "one band")


NDVI = "image.ndvi={red = 3, nir = 4}"


def test_the_vegetation_index_masks_what_has_none(tmp_path, settings):
    bands = np.random.default_rng(3).integers(1, 255, size=(4, 5, 4)).astype(np.uint8)
    red, nir = bands[..., 2].astype(float), bands[..., 3].astype(float)
    write_npy(tmp_path / "a.npy", bands)
    # Sums beyond the range of a byte, and differences below 0.
    assert (red + nir).max() > 255 and (nir - red).min() < 0
    np.testing.assert_allclose(
        load_image(settings("a.npy", NDVI)).values, (nir - red) / (nir + red), rtol=1e-15
    )
    bands[1, 2] = 0
    write_npy(tmp_path / "a.npy", bands)
    for nodata in ((), ("image.nodata=nan",), ("image.nodata=0",)):
        image = load_image(settings("a.npy", NDVI, *nodata))
        assert not image.mask[1, 2] and image.mask.sum() == 19 and np.isfinite(image.values).all()
    write_npy(tmp_path / "a.npy", np.zeros_like(bands))
    refused(settings("a.npy", NDVI), "input.toml", "a.npy", "no pixel exists")


def test_scale_and_offset_come_before_the_index_and_after_nodata(tmp_path, settings):
    """Landsat Collection 2: reflectance = 2.75e-5 DN - 0.2 in uint16, 0 where there is nothing."""
    numbers = np.random.default_rng(3).integers(7500, 65000, size=(4, 5, 4)).astype(np.uint16)
    numbers[0, 1], numbers[2, 3, 3] = 0, 0
    write_npy(tmp_path / "a.npy", numbers)
    landsat = "image.scale=2.75e-5", "image.offset=-0.2", "image.nodata=0"
    image = load_image(settings("a.npy", NDVI, *landsat))
    red, nir = (numbers[..., band] * 2.75e-5 - 0.2 for band in (2, 3))
    exists = np.ones((4, 5), dtype=bool)
    exists[0, 1] = exists[2, 3] = False
    np.testing.assert_array_equal(image.mask, exists)
    np.testing.assert_allclose(image.pixels, ((nir - red) / (nir + red))[exists], rtol=1e-12)
    image = load_image(settings("a.npy", "image.band=4", *landsat))
    np.testing.assert_array_equal(image.mask, exists)
    np.testing.assert_allclose(image.pixels, nir[exists], rtol=1e-12)
    # Two reflectances that cancel have no index either.
    flat = np.array([[[1, 2], [3, 1], [1, 1], [2, 1]]], dtype=np.int16)
    write_npy(tmp_path / "b.npy", flat)
    image = load_image(settings("b.npy", "image.ndvi={red = 1, nir = 2}", "image.offset=-2"))
    np.testing.assert_array_equal(image.mask, [[True, False, True, True]])


def test_labels_have_no_scale(tmp_path, settings):
    for key in ("image.scale=2", "image.offset=1"):
        with pytest.raises(InputError, match=key.split("=")[0]):
            settings("a.npy", 'image.kind="labels"', key)


def test_crop_keeps_the_region_and_remembers_where_it_was(tmp_path, settings):
    write_npy(tmp_path / "a.npy", PIXELS)
    image = load_image(settings("a.npy", "image.crop=[1, 4, 2, 5]"))
    np.testing.assert_array_equal(image.values, PIXELS[1:4, 2:5])
    assert image.offset == (1, 2)
    for crop in ("[0, 5, 0, 5]", "[0, 4, 0, 6]", "[0, 4, 0, 5, 0, 1]"):
        refused(settings("a.npy", f"image.crop={crop}"), "image.crop", "[4, 5]")


def test_nodata_and_mask_leave_pixels_out(tmp_path, settings):
    values = PIXELS.astype(float)
    values[0, 0], values[2, 3] = -9999, np.nan
    write_npy(tmp_path / "a.npy", values)
    refused(settings("a.npy"), "pixel [2, 3] is nan")
    refused(settings("a.npy", "image.nodata=-9999"), "pixel [2, 3] is nan")
    image = load_image(settings("a.npy", "image.nodata=nan"))
    assert not image.mask[2, 3] and image.values[2, 3] == 0.0 and image.pixels.size == 19
    mask = np.ones((4, 5))
    mask[2, 3] = mask[0, 0] = 0
    write_csv(tmp_path / "mask.csv", mask)
    image = load_image(settings("a.npy", "image.mask=mask.csv"))
    np.testing.assert_array_equal(image.mask, mask != 0)
    assert lattice_of(settings("a.npy", "image.mask=mask.csv"), image).sites == 18
    cropped = load_image(settings("a.npy", "image.mask=mask.csv", "image.crop=[0, 3, 0, 5]"))
    np.testing.assert_array_equal(cropped.mask, mask[:3] != 0)


def test_nodata_is_compared_in_the_precision_of_the_file(tmp_path, settings):
    values = PIXELS.astype(np.float32)
    values[1, 1] = -3.4028235e38
    write_npy(tmp_path / "a.npy", values)
    assert not load_image(settings("a.npy", "image.nodata=-3.4028235e38")).mask[1, 1]
    values[1, 1] = 0.1
    write_npy(tmp_path / "a.npy", values)
    assert not load_image(settings("a.npy", "image.nodata=0.1")).mask[1, 1]


def test_a_mask_of_another_shape_is_refused(tmp_path, settings):
    write_npy(tmp_path / "a.npy", PIXELS)
    write_npy(tmp_path / "mask.npy", np.ones((4, 4)))
    refused(settings("a.npy", "image.mask=mask.npy"), "mask.npy", "[4, 4]", "[4, 5]")
    with pytest.raises(InputError, match=r"\[4, 4\]"):
        lattice_of(settings("a.npy", "image.mask=mask.npy", "image.shape=[4, 5]"))


def test_without_an_image_the_lattice_is_the_shape_and_the_mask(tmp_path):
    path = tmp_path / "input.toml"
    mask = np.ones((4, 5))
    mask[1, 1] = 0
    write_npy(tmp_path / "mask.npy", mask)
    path.write_text("[image]\nshape = [4, 5]\nmask = 'mask.npy'\n")
    lattice = lattice_of(inputs.load(path))
    assert lattice.shape == (4, 5) and lattice.sites == 19
    np.save(tmp_path / "mask.npy", np.zeros((4, 5)))
    with pytest.raises(InputError, match=r"input.toml"):
        lattice_of(inputs.load(path))
    with pytest.raises(InputError, match=r"image.path is missing"):
        load_image(inputs.load(path))


@pytest.mark.parametrize(
    ("values", "parts"),
    [
        (np.full((4, 5), 2.5), ("all pixels are 2.5",)),
        (np.arange(20).reshape(4, 5) % 2, ("2 different values", "3")),
        (np.where(PIXELS == 6, np.inf, PIXELS), ("pixel [0, 2] is inf",)),
        (np.where(PIXELS >= 30, -np.inf, PIXELS), ("pixel [2, 0] is -inf", "9 more")),
        (np.where(PIXELS == 6, 1e200, PIXELS), ("pixel [0, 2] is 1e+200",)),
        (PIXELS * 1j, ("complex128",)),
        (np.array([["a", "b"], ["c", "d"]]), ("<U1",)),
        (np.arange(5.0), ("shape [5]",)),
        (np.zeros((0, 5)), ("shape [0, 5]",)),
        (np.zeros((2, 2, 2, 2)), ("shape [2, 2, 2, 2]",)),
    ],
)
def test_arrays_that_cannot_be_segmented_are_refused(tmp_path, settings, values, parts):
    write_npy(tmp_path / "a.npy", values)
    refused(settings("a.npy"), str(tmp_path / "a.npy"), *parts)


def test_an_image_without_pixels_is_refused(tmp_path, settings):
    write_npy(tmp_path / "a.npy", np.full((4, 5), -1.0))
    refused(settings("a.npy", "image.nodata=-1"), "a.npy", "no pixel exists")


def test_an_image_of_another_shape_than_the_input_says_is_refused(tmp_path, settings):
    write_npy(tmp_path / "a.npy", PIXELS)
    assert load_image(settings("a.npy", "image.shape=[4, 5]")).shape == (4, 5)
    refused(settings("a.npy", "image.shape=[5, 4]"), "image.shape = [5, 4]", "[4, 5]")


def test_labels_are_integers_in_their_order_and_at_most_k(tmp_path, settings):
    labels = np.array([[1, 1, 2], [3, 2, 1], [3, 3, -1]])
    write_npy(tmp_path / "a.npy", labels)
    kind = "image.kind=labels"
    image = load_image(settings("a.npy", kind, "image.nodata=-1"))
    np.testing.assert_array_equal(image.labels, [[0, 0, 1], [2, 1, 0], [2, 2, 255]])
    assert image.labels.dtype == np.uint8
    refused(settings("a.npy", kind), "4 different labels", "model.labels = 3")
    write_npy(tmp_path / "a.npy", labels + 0.5)
    refused(settings("a.npy", kind), "-0.5 is not a label")
    # Strong smoothing may leave one label only: that is an observation, not a mistake.
    write_npy(tmp_path / "a.npy", np.ones((3, 3)))
    assert not load_image(settings("a.npy", kind)).labels.any()


@pytest.mark.parametrize("name", WRITERS)
def test_damaged_files_are_one_line(tmp_path, settings, name):
    path = tmp_path / name
    WRITERS[name](path, PIXELS)
    whole = path.read_bytes()
    for content in (
        b"",
        b"\xff\x00 no image \n" * 5,
        whole[: len(whole) // 3] if name != "a.csv" else b"1,2\n3\n",
    ):
        path.write_bytes(content)
        refused(settings(name), str(path))


def test_missing_and_unknown_files_are_one_line(tmp_path, settings):
    refused(settings("none.npy"), "none.npy: does not exist")
    (tmp_path / "folder.npy").mkdir()
    refused(settings("folder.npy"), "folder.npy: is not a file")
    (tmp_path / "a.jpeg2000").write_bytes(b"")
    refused(settings("a.jpeg2000"), "a.jpeg2000", ".npy", ".tif")


def test_pickled_objects_are_never_loaded(tmp_path, settings):
    np.save(tmp_path / "a.npy", np.array([[1, None]], dtype=object), allow_pickle=True)
    refused(settings("a.npy"), "a.npy", "never loaded")


def test_a_dataset_that_is_not_there_is_named_with_those_that_are(tmp_path, settings):
    write_h5(tmp_path / "a.h5", PIXELS)
    refused(settings("a.h5", "image.dataset=labels"), "'labels'", "values")


def test_csv_with_empty_cells_and_words(tmp_path, settings):
    (tmp_path / "a.csv").write_text("1,2,3\n4,,6\n")
    assert load_image(settings("a.csv", "image.nodata=nan")).pixels.tolist() == [1, 2, 3, 4, 6]
    (tmp_path / "a.csv").write_text("1,2,3\n4,x5,6\n")
    refused(settings("a.csv"), "a.csv", "'x5' is not a number")


@pytest.mark.parametrize(
    ("name", "package", "extra"),
    [("a.png", "PIL", "images"), ("a.tif", "tifffile", "geotiff"), ("a.nii", "nibabel", "nifti")],
)
def test_a_missing_package_names_its_extra(tmp_path, settings, monkeypatch, name, package, extra):
    (tmp_path / name).write_bytes(b"")
    for module in [m for m in sys.modules if m == package or m.startswith(f"{package}.")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, package, None)
    refused(settings(name), name, package, f"mpi_potts[{extra}]")


@pytest.mark.skipif(not SCENE.exists(), reason="the sample scene is not part of the project")
def test_a_real_scene_keeps_its_georeference(settings):
    image = load_image(settings(str(SCENE), "image.ndvi={red = 3, nir = 4}", "image.crop=[10, 110, 20, 140]"))
    assert image.shape == (100, 120) and image.offset == (10, 20)
    assert {33550, 33922, 34735} <= set(image.tags)
    assert -1 <= image.values.min() < image.values.max() <= 1
