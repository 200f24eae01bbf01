"""Whatever a user feeds is read rightly or refused in one line: never a traceback, a hang or a crash.

Inputs, images and files are drawn by hypothesis: always the same ones here, others (and many more) in the
long tests, which print how to repeat a failure (`--hypothesis-seed`).
"""

import gzip
import io
import json
import math
import struct
import zlib
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mpi_potts.binding import chains
from mpi_potts.binding import file as binding_file
from mpi_potts.binding.compute import Task
from mpi_potts.cli import fit, precompute, simulate, study
from mpi_potts.config import inputs, registry, schema
from mpi_potts.config.inputs import Config
from mpi_potts.errors import InputError
from mpi_potts.image import pixels as image
from mpi_potts.image import readers
from mpi_potts.io import fit_file, formats, reading, store
from mpi_potts.methods import needs
from mpi_potts.runtime import memory
from mpi_potts.runtime.parallel import ALONE

CALM = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]
SHORT = settings(max_examples=150, deadline=None, derandomize=True, database=None, suppress_health_check=CALM)
LONG = settings(max_examples=3000, deadline=None, database=None, print_blob=True, suppress_health_check=CALM)


def one_line(error):
    text = str(error)
    assert text and "\n" not in text and "Traceback" not in text, text


def right_or_refused(function, *arguments):
    """The value, or None where it was refused in one line; any other exception is a defect."""
    try:
        return function(*arguments)
    except InputError as error:
        one_line(error)
        return None


# Inputs

ODD = st.one_of(
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=12),
    st.lists(st.one_of(st.integers(-3, 3), st.floats(), st.text(max_size=3)), max_size=4),
    st.dictionaries(st.text(max_size=5), st.integers(), max_size=2),
)
SMALL = st.integers(0, 40)


def values_of(kind):
    """Mostly what a kind accepts, or nearly; sizes that are quick to go through."""
    if isinstance(kind, schema.Integer):
        return st.one_of(SMALL, st.sampled_from([kind.low - 1, kind.low, kind.high, 10**12]))
    if isinstance(kind, schema.Number):
        return st.one_of(st.floats(0.0, 2.0), st.floats(), SMALL)
    if isinstance(kind, schema.Flag):
        return st.booleans()
    if isinstance(kind, schema.Choice):
        return st.sampled_from([*kind.words, kind.words[0] + "s", ""])
    if isinstance(kind, schema.Items):
        return st.lists(values_of(kind.kind), max_size=5)
    if isinstance(kind, schema.Either):
        return st.one_of(*(values_of(each) for each in kind.kinds))
    if isinstance(kind, schema.Table):
        return tables(kind.form)
    return st.text(max_size=8)


def tables(form):
    """A table with some of its keys, perhaps with one that it has not."""
    known = {f.name: f.metadata["kind"] for f in schema.keys_of(form)}
    if form is Config:
        known |= {name: schema.Table(own.form) for name, own in registry.own_tables().items()}
    right = {name: values_of(kind) for name, kind in known.items()}
    return st.fixed_dictionaries({}, optional=right).flatmap(
        lambda table: st.one_of(
            st.just(table),
            st.just(table),
            st.builds(lambda n, v: table | {n: v}, st.sampled_from([*known, "colour"]), ODD),
        )
    )


def toml(value):
    """A value in TOML's spelling."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)} = {toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return {math.inf: "inf", -math.inf: "-inf"}.get(value, "nan")
    return json.dumps(value, ensure_ascii=True) if not isinstance(value, bool) else str(value).lower()


def document(table):
    return "\n".join(f"{json.dumps(key)} = {toml(value)}" for key, value in table.items())


def prepare(text, path):
    """Everything that the commands do with an input before they begin to work."""
    loaded = inputs.parse(text, path, output=path.parent / "out")
    lattice = right_or_refused(image.lattice_of, loaded)
    right_or_refused(fit.read_image, loaded)
    right_or_refused(study.prepare, loaded)
    right_or_refused(precompute.lattice_to_cover, loaded)
    if lattice is None:
        return
    for number in range(min(3, loaded.simulate.images)):
        right_or_refused(simulate.plan, loaded, lattice, number)
    right_or_refused(needs.check_fit, ALONE, loaded, lattice)
    if right_or_refused(needs.check_precompute, ALONE, loaded, lattice, 2) is None:
        right_or_refused(_small_task, loaded, lattice)


def _small_task(loaded, lattice):
    if loaded.precompute.points <= 10_000:
        Task.of(loaded, lattice)


def any_input(table, directory):
    right_or_refused(prepare, document(table), directory / "input.toml")


def any_bytes(data, directory):
    (directory / "input.toml").write_bytes(data)
    right_or_refused(inputs.load, directory / "input.toml")


INPUTS = tables(Config)
BYTES = st.one_of(
    st.binary(max_size=200),
    st.text(alphabet='[]{}="#.,\\\n a1e-_', max_size=60).map(str.encode),
    st.integers(1, 4000).map(lambda n: b"a = " + b"[" * n),
    st.integers(1, 4000).map(lambda n: b"a = " + b"1" * n),
)


@SHORT
@given(INPUTS)
def test_any_input_is_right_or_refused(tmp_path, table):
    any_input(table, tmp_path)


@SHORT
@given(BYTES)
def test_any_bytes_as_an_input_are_refused(tmp_path, data):
    any_bytes(data, tmp_path)


@pytest.mark.long
@LONG
@given(INPUTS)
def test_many_inputs(tmp_path, table):
    any_input(table, tmp_path)


@pytest.mark.long
@LONG
@given(BYTES)
def test_many_bytes(tmp_path, data):
    any_bytes(data, tmp_path)


# Images


def _npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def _csv(array):
    return "\n".join(",".join(map(str, row)) for row in array.tolist()).encode()


def _hdf5(array):
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        file["values"] = array
    return buffer.getvalue()


def _png(array):
    picture = pytest.importorskip("PIL.Image")
    buffer = io.BytesIO()
    picture.fromarray((array * 40).astype(np.uint8)).save(buffer, format="png")
    return buffer.getvalue()


def _tif(array):
    buffer = io.BytesIO()
    pytest.importorskip("tifffile").imwrite(buffer, array.astype(np.float32))
    return buffer.getvalue()


def _nii(array):
    nibabel = pytest.importorskip("nibabel")
    return nibabel.Nifti1Image(array.astype(np.float32)[:, :, None], np.eye(4)).to_bytes()


WRITERS = {
    ".npy": _npy,
    ".csv": _csv,
    ".png": _png,
    ".tif": _tif,
    ".nii": _nii,
    ".nii.gz": lambda array: gzip.compress(_nii(array), mtime=0),
}
ARRAY = np.arange(42.0).reshape(6, 7) % 5


@st.composite
def damaged(draw, data):
    """Bytes of a file with a few of them changed, cut off, or doubled."""
    data = bytearray(data)
    for _ in range(draw(st.integers(0, 4))):
        place = draw(st.integers(0, len(data) - 1) | st.integers(0, min(160, len(data) - 1)))
        size = draw(st.sampled_from([1, 2, 4, 8]))
        data[place : place + size] = draw(
            st.binary(min_size=size, max_size=size) | st.just(b"\xff" * size) | st.just(bytes(size))
        )
    end = draw(st.just(len(data)) | st.integers(0, len(data)))
    return bytes(data[:end])


def any_image(directory, ending, data):
    path = directory / f"image{ending}"
    path.write_bytes(data)
    for kind in ("observations", "labels"):
        text = f"[image]\npath = {json.dumps(path.name)}\nkind = {kind!r}\n"
        loaded = inputs.parse(text, directory / "input.toml")
        found = right_or_refused(fit.read_image, loaded)
        if found is not None:
            assert np.isfinite(found[1].values).all() and found[1].values.size >= 2


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("ending", WRITERS)
def test_a_damaged_image_is_read_or_refused(tmp_path, ending):
    whole = WRITERS[ending](ARRAY)

    @settings(SHORT, max_examples=80)
    @given(damaged(whole))
    def search(data):
        any_image(tmp_path, ending, data)

    any_image(tmp_path, ending, whole)
    search()


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("ending", WRITERS)
def test_many_damaged_images(tmp_path, ending):
    @settings(LONG, max_examples=3000)
    @given(damaged(WRITERS[ending](ARRAY)))
    def search(data):
        any_image(tmp_path, ending, data)

    search()


def _foreign(directory, array):
    path = directory / "image.h5"
    path.write_bytes(_hdf5(array))
    return path


@pytest.mark.parametrize("part", [0.0, 0.2, 0.6, 0.99])
def test_a_truncated_foreign_hdf5_image_is_refused(tmp_path, part):
    path = _foreign(tmp_path, ARRAY)
    assert np.array_equal(readers.read(path).array, ARRAY)
    path.write_bytes(path.read_bytes()[: int(part * path.stat().st_size)])
    with pytest.raises(InputError, match=r"image\.h5: ") as refused:
        readers.read(path)
    one_line(refused.value)


@pytest.mark.long
@settings(LONG, max_examples=100)
@given(damaged(_hdf5(ARRAY)))
def test_many_damaged_foreign_hdf5_images(tmp_path, data):
    any_image(tmp_path, ".h5", data)


ODD_ARRAYS = {
    "no rows": np.zeros((0, 7)),
    "no pixels": np.zeros((0, 0)),
    "a number": np.array(1.0),
    "a row": np.arange(5.0),
    "four dimensions": np.zeros((2, 2, 2, 2)),
    "one pixel": np.ones((1, 1)),
    "nan": np.where(ARRAY == 3, np.nan, ARRAY),
    "all nan": np.full((6, 7), np.nan),
    "inf": np.where(ARRAY == 3, np.inf, ARRAY),
    "complex": ARRAY.astype(complex),
    "text": ARRAY.astype("U3"),
    "dates": ARRAY.astype("M8[s]"),
    "records": np.zeros((6, 7), dtype=[("a", "f4"), ("b", "i2")]),
    "constant": np.ones((6, 7)),
    "huge values": 1e200 * ARRAY,
}


UNKNOWN_TO_HDF5 = ("text", "dates")


@pytest.mark.parametrize(
    "name, ending",
    [(name, ".npy") for name in ODD_ARRAYS]
    + [(name, ".h5") for name in ODD_ARRAYS if name not in UNKNOWN_TO_HDF5],
)
def test_an_odd_array_is_refused(tmp_path, name, ending):
    array, path = ODD_ARRAYS[name], tmp_path / f"image{ending}"
    path.write_bytes(_npy(array) if ending == ".npy" else _hdf5(array))
    loaded = inputs.parse(f"[image]\npath = {path.name!r}\n", tmp_path / "input.toml")
    with pytest.raises(InputError, match=rf"image{ending}") as refused:
        fit.read_image(loaded)
    one_line(refused.value)


# Memory is asked about before it is taken

ENORMOUS = 2_000_000_000


def _npy_header(shape):
    text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}"
    text = text.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


def _png_header(width, height):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 16, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"\0" * 9)) + chunk(b"IEND", b"")


def _nii_header(*shape):
    nibabel = pytest.importorskip("nibabel")
    header = nibabel.Nifti1Header()
    header.set_data_dtype(np.float64)
    header.set_data_shape((1, 1, 1))
    data = bytearray(header.binaryblock) + bytes(8)
    data[40:48] = struct.pack("<4h", 3, *shape)
    return bytes(data)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "ending, data",
    [
        (".npy", _npy_header((ENORMOUS, ENORMOUS))),
        (".png", _png_header(2**31 - 1, 2**31 - 1)),
        (".nii", _nii_header(32767, 32767, 32767)),
    ],
)
def test_an_enormous_image_is_refused_with_its_bytes(tmp_path, ending, data):
    path = tmp_path / f"image{ending}"
    path.write_bytes(data)
    with pytest.raises(InputError, match="image") as refused:
        readers.read(path)
    one_line(refused.value)
    if ending != ".png":  # Pillow itself refuses so many pixels
        assert "of memory" in str(refused.value) and "are available" in str(refused.value)


def test_an_enormous_hdf5_image_is_refused_with_its_bytes(tmp_path):
    path = tmp_path / "image.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("values", shape=(10**7, 10**7), dtype="f8", chunks=(100, 100))
    with pytest.raises(InputError, match=r"needs 800\.0 TB of memory, .* are available"):
        readers.read(path)


@pytest.mark.parametrize(
    "keys, words",
    [
        (
            "[image]\nshape = [1000000, 1000000]",
            r"image\.shape = \[1000000, 1000000\]: needs 2\.0 TB of memory",
        ),
        (
            '[image]\nshape = [9, 9]\n[precompute]\ngrid = "critical"\npoints = 2000000000',
            r"points = 2000000000",
        ),
        (
            '[image]\nshape = [9, 9]\n[precompute]\ngrid = "critical"\niterations = 2000000000\nburn_in = 1',
            r"precompute\.iterations = 2000000000: needs 32\.0 TB of memory, .* are available",
        ),
    ],
)
def test_an_enormous_precomputation_is_refused_with_its_bytes(tmp_path, keys, words):
    loaded = inputs.parse(keys, tmp_path / "input.toml")
    with pytest.raises(InputError, match=words) as refused:
        lattice = precompute.lattice_to_cover(loaded)
        needs.check_precompute(ALONE, loaded, lattice, 1)
    one_line(refused.value)


@pytest.mark.parametrize(
    "method, key, value",
    [
        ("smc-abc", "smc.particles", ENORMOUS),
        ("smc-abc", "fit.final_sweeps", ENORMOUS),
        ("smc-abc", "smc.label_sweeps", ENORMOUS),
        ("path", "fit.chains", ENORMOUS),
        ("exchange", "exchange.iterations", ENORMOUS),
        ("rejection", "rejection.draws", ENORMOUS),
    ],
)
def test_an_enormous_fit_is_refused_with_its_bytes(tmp_path, monkeypatch, method, key, value):
    monkeypatch.setattr(memory, "available", lambda: 1e9)
    kind = "labels" if method == "rejection" else "observations"
    changes = (f"fit.method={method}", f"{key}={value}", f"image.kind={kind}")
    loaded = inputs.parse("[image]\nshape = [9, 9]", tmp_path / "input.toml", changes)
    lattice = image.lattice_of(loaded)
    with pytest.raises(InputError, match=rf"{key} = .*needs .* of memory, 1\.0 GB are available"):
        needs.check_fit(ALONE, loaded, lattice)


def test_more_than_can_be_counted_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"smc\.particles = 1000000000000.*from 2 to 2147483647"):
        inputs.parse("[image]\nshape = [9, 9]\n[smc]\nparticles = 1000000000000", tmp_path / "input.toml")


# Files of this program

NUMBERS = np.linspace(0.0, 1.0, 8)


def _files(directory) -> dict[str, Path]:
    """A small file of each kind, and how it is read."""
    paths = {}
    columns = {
        name: NUMBERS if name != "flag" else np.zeros(8, dtype=np.int64) for name in binding_file.ARRAYS
    }
    keys = dict.fromkeys(binding_file.SETTINGS, 3) | {"starts": "random", "shape": [9, 9]}
    statistic = store.Rows(np.arange(8), np.zeros((8, 1, 4), dtype=np.int64), 8)
    paths["binding"] = directory / "binding.h5"
    binding_file.write_binding(ALONE, paths["binding"], keys, columns, statistic, "gather")
    paths["chains"] = directory / "chains.h5"
    rows = [chains.Row(0.5, {"random": chains.Chain.of_length(3, [1, 2, 3])})]
    chains.write_chains(ALONE, paths["chains"], {"labels": 3}, rows, 4, "gather")
    fitted = fit_file.FitPaths(directory)
    fit_file.write_checkpoint(ALONE, fitted, {"seed": 1}, {"x": NUMBERS}, "gather")
    paths["checkpoint"] = fitted.checkpoint
    paths["result"] = fitted.result
    store.write(ALONE, fitted.result, *formats.RESULT, {"settings": '{"seed": 1}'}, {"x": NUMBERS}, "gather")
    return paths


READ = {
    "binding": binding_file.read_settings,
    "chains": chains.open_chains,
    "checkpoint": lambda path: reading.read(path, *formats.CHECKPOINT),
    "result": lambda path: fit_file.finished(fit_file.FitPaths(path.parent), {"seed": 1}),
}


@pytest.mark.parametrize("kind", READ)
def test_a_damaged_file_of_ours_is_refused(tmp_path, kind):
    path = _files(tmp_path)[kind]
    search_files(path, READ[kind], SHORT)


@pytest.mark.long
@pytest.mark.parametrize("kind", READ)
def test_many_damaged_files_of_ours(tmp_path, kind):
    path = _files(tmp_path)[kind]
    search_files(path, READ[kind], LONG)


def search_files(path, read, how):
    whole = path.read_bytes()
    read(path)

    @how
    @given(damaged(whole))
    def search(data):
        path.write_bytes(data)
        if data[:512].rstrip() + data[512:] == whole[:512].rstrip() + whole[512:]:
            read(path)  # undamaged but for white space after the seal
            return
        with pytest.raises(InputError, match=path.name) as refused:
            read(path)
        one_line(refused.value)

    search()


@pytest.mark.parametrize("kind", READ)
def test_a_newer_format_is_refused(tmp_path, kind):
    path = _files(tmp_path)[kind]
    attributes = reading.contents(path).attributes
    _, arrays = reading.read(path, attributes["format"], attributes["version"])
    kept = {
        n: v for n, v in attributes.items() if n not in ("format", "version", "checksum", "writer", "created")
    }
    store.write(ALONE, path, attributes["format"], attributes["version"] + 1, kept, arrays, "gather")
    with pytest.raises(InputError, match=f"of a newer mpi_potts; up to {attributes['version']} is accepted"):
        READ[kind](path)


def test_a_newer_checkpoint_is_not_passed_over(tmp_path):
    """As a damaged one would be: the work in it is not lost."""
    paths = fit_file.FitPaths(tmp_path)
    name, newest = formats.CHECKPOINT
    for version in (newest, newest + 1):
        store.write(ALONE, paths.checkpoint, name, version, {}, {}, "gather", paths.previous)
    with pytest.raises(InputError, match=rf"checkpoint\.h5: version {newest + 1} of a newer mpi_potts"):
        fit_file.find_checkpoint(paths, {})
    assert paths.checkpoint.exists() and paths.previous.exists()
