"""Files are whole, verified, refused by name; on one rank (both writers on many: tests/mpi/test_store.py)."""

import os
import subprocess
import sys
import threading

import h5py
import launch
import numpy as np
import pytest

from mpi_potts.errors import InputError
from mpi_potts.io import checksum, files, fit_file, formats, pieces, reading, store
from mpi_potts.runtime import parallel
from mpi_potts.runtime.parallel import ALONE

ARRAYS = {"beta": np.linspace(0, 1, 500), "statistic": np.arange(4000).reshape(500, 8)}


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "a.h5"
    store.write(ALONE, path, "test", 2, {"labels": 3, "note": "x" * 100_000}, ARRAYS)
    return path


def test_what_was_written_is_read(path):
    attributes, arrays = reading.read(path, "test", 2)
    assert attributes["labels"] == 3 and len(attributes["note"]) == 100_000
    assert all(np.array_equal(arrays[name], values) for name, values in ARRAYS.items())
    assert list(reading.read(path, "test", 2, ("beta",))[1]) == ["beta"]


def test_a_piece_of_a_dataset_fits_into_a_message():
    assert pieces.LARGEST <= parallel.MESSAGE
    cut = [*pieces.runs(np.array([0, 1, 2, 5, 6]), (9, pieces.LARGEST // 16), np.dtype(np.float64))]
    assert cut == [(0, 2), (2, 3), (3, 5)]


def test_a_content_is_read_without_being_verified_again(path, monkeypatch):
    content = reading.contents(path)
    monkeypatch.setattr(reading, "check_seal", None)
    assert content.format == "test" and list(content.shapes) == ["beta", "statistic"]
    assert content.shapes["statistic"] == ((500, 8), "i8")
    assert np.array_equal(content.arrays()["beta"], ARRAYS["beta"])
    rows = np.array([3, 4, 499])
    assert np.array_equal(content.rows("statistic", rows), ARRAYS["statistic"][rows])
    with pytest.raises(InputError, match=r"format is 'test'; 'other' is accepted"):
        content.require(formats.Format("other", 2))
    with pytest.raises(InputError, match="version 2 of a newer mpi_potts; up to 1 is accepted"):
        content.require(formats.Format("test", 1))


def test_some_rows_can_be_read_alone(path):
    rows = np.array([0, 3, 4, 5, 499])
    assert np.array_equal(
        reading.read_rows(path, "test", 2, {"statistic": rows})["statistic"], ARRAYS["statistic"][rows]
    )


@pytest.mark.parametrize("part", [0.0, 0.01, 0.3, 0.7, 0.999])
def test_a_truncated_file_is_refused_by_name(path, part):
    data = path.read_bytes()
    path.write_bytes(data[: int(part * len(data))])
    with pytest.raises(InputError, match=r"a\.h5: ") as refused:
        reading.read(path, "test", 2)
    assert "\n" not in str(refused.value)


def test_no_changed_byte_of_the_data_goes_unnoticed(path):
    data = path.read_bytes()
    wanted = ARRAYS["statistic"].tobytes()
    first = data.index(wanted)
    for offset in (0, 7, len(wanted) // 2, len(wanted) - 1):
        damaged = bytearray(data)
        damaged[first + offset] ^= 4
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=r"a\.h5: damaged"):
            reading.read(path, "test", 2)


def test_damage_anywhere_is_refused_before_hdf5_sees_it(path):
    """HDF5 itself may hang or crash on damaged metadata."""
    data = path.read_bytes()
    for offset in range(0, len(data), 97):
        damaged = bytearray(data)
        damaged[offset] ^= 0xFF
        path.write_bytes(damaged)
        if 200 < offset < checksum.SEAL_BYTES:
            continue  # blanks after the seal
        with pytest.raises(InputError, match=r"a\.h5: "):
            reading.read(path, "test", 2)


def test_a_changed_attribute_is_noticed(path):
    with h5py.File(path, "r+") as file:
        file.attrs["labels"] = 4
    with pytest.raises(InputError, match=r"a\.h5: "):
        reading.read(path, "test", 2)
    # Even if the bytes are sealed again.
    checksum.seal(path)
    with pytest.raises(InputError, match="content does not match its checksum"):
        reading.read(path, "test", 2)


@pytest.mark.parametrize("kind, version, words", [("other", 2, "format is 'test'"), ("test", 1, "newer")])
def test_another_format_and_a_newer_version_are_refused(path, kind, version, words):
    with pytest.raises(InputError, match=words):
        reading.read(path, kind, version)


def test_foreign_files_are_refused(tmp_path):
    with h5py.File(tmp_path / "foreign.h5", "w") as file:
        file["x"] = 1
    (tmp_path / "text.h5").write_text("no HDF5")
    for name, words in (
        ("foreign", "not a file of mpi_potts"),
        ("text", "not a file of mpi_potts"),
        ("none", "no such"),
    ):
        with pytest.raises(InputError, match=rf"{name}\.h5: {words}"):
            reading.read(tmp_path / f"{name}.h5", "test", 1)


def test_a_writer_that_is_not_there_is_refused(monkeypatch, path):
    with pytest.raises(InputError, match=r"run\.writer = 'fast'"):
        store.choose_writer("fast")
    monkeypatch.setattr(store, "parallel_hdf5", lambda: False)
    assert store.choose_writer("auto") == "gather"
    with pytest.raises(InputError, match="no parallel HDF5"):
        store.choose_writer("mpio")


def test_what_a_kill_left_behind_does_not_matter(path):
    files.temporary_name(path).write_bytes(b"half a file")
    assert np.array_equal(reading.read(path, "test", 2)[1]["beta"], ARRAYS["beta"])
    store.write(ALONE, path, "test", 2, {}, {"beta": np.arange(3)})
    assert np.array_equal(reading.read(path, "test", 2)[1]["beta"], np.arange(3))
    assert os.listdir(path.parent) == ["a.h5"]


FULL = """
import os, resource, sys, numpy as np
from mpi_potts.io import reading, store
from mpi_potts.errors import InputError
from mpi_potts.runtime.parallel import ALONE
from mpi4py import MPI
comm = MPI.COMM_WORLD
# The size that a file may have stands for the space that is left.
resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, 500_000))
rows = store.Rows.of_block(comm, np.ones((2, 100_000)), 2 * comm.size)
try:
    store.write(comm, sys.argv[1], "test", 2, {}, {"x": rows}, sys.argv[2])
except InputError as error:
    os.write(1, f"{error}\\n".encode())  # one write: lines of two ranks do not mix
"""


@pytest.mark.parametrize("writer", store.WRITERS)
def test_a_disk_that_fills_up_leaves_the_old_file_and_says_so(path, writer):
    before = path.read_bytes()
    done = subprocess.run(
        [*launch.mpirun(2), sys.executable, "-c", FULL, path, writer],
        env=launch.environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.count("a.h5: cannot be written") == 2, done.stderr
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == ["a.h5"]


FAILING = """
import os, sys, numpy as np
from mpi4py import MPI
from mpi_potts.io import files, store; from mpi_potts.runtime import parallel
from mpi_potts.errors import InputError, WriteFailed
comm = MPI.COMM_WORLD
if sys.argv[3] == "unnoticed":  # the space check passes, and the disk is full a moment later
    files.check_space = lambda path, temporary, needed: open(temporary, "wb").close()
    files.reserve = lambda path, needed: None
rows = store.Rows.of_block(comm, np.ones((2, 60_000)), 2 * comm.size)
try:
    with parallel.abort_on_error(comm):
        store.write(comm, sys.argv[1], "test", 2, {"note": "x" * 9999}, {"x": rows, "y": rows}, sys.argv[2])
except InputError as error:
    os.write(1, f"{error}\\n".encode())
    comm.Barrier()
    if isinstance(error, WriteFailed):
        comm.Abort(2)
    sys.exit(2)
"""


@pytest.fixture
def small_disk(tmp_path):
    """A directory with room for one MB."""
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place]
    if os.geteuid() or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("a small disk can only be made by root")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


@pytest.mark.parametrize("when", ["noticed", "unnoticed"])
@pytest.mark.parametrize("writer", store.WRITERS)
def test_a_disk_that_fails_in_the_middle_of_a_write_is_no_crash(small_disk, writer, when):
    """HDF5 itself crashes at the end of a process that could not write a file."""
    path = small_disk / "a.h5"
    path.write_bytes(b"as it was")
    done = subprocess.run(
        [*launch.mpirun(2), sys.executable, "-c", FAILING, path, writer, when],
        env=launch.environment(),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 2, done.stderr
    words = "but" if when == "noticed" else "cannot be written"
    assert done.stdout.count("a.h5: ") == 2 and words in done.stdout, done.stdout
    assert path.read_bytes() == b"as it was"
    assert os.listdir(small_disk) == ["a.h5"]


def test_reserved_space_cannot_be_taken_by_others(small_disk):
    mine, others = small_disk / "mine", small_disk / "others"
    with open(mine, "wb", buffering=0) as file:
        files.reserve(mine, 600_000)
        assert mine.stat().st_size == 0
        with pytest.raises(OSError, match="No space"):
            others.write_bytes(bytes(600_000))
        assert file.write(bytes(600_000)) == 600_000
    with pytest.raises(OSError, match="No space"):
        files.reserve(mine, 2_000_000)


def test_a_sink_drops_what_comes_after_an_error(tmp_path):
    sink = files.Sink(tmp_path / "nowhere" / "a")
    assert sink.write(b"abc") == 3 and sink.tell() == 3
    sink.seek(0)
    buffer = bytearray(b"xx")
    assert sink.readinto(buffer) == 2 and buffer == bytes(2)
    assert sink.truncate(9) == 9 and sink.seek(0, os.SEEK_END) == 9
    assert isinstance(sink.finish(), FileNotFoundError)


def test_the_file_before_is_kept_where_that_is_asked(path):
    before, previous = path.read_bytes(), path.with_name("previous.h5")
    store.write(ALONE, path, "test", 2, {}, {"beta": np.arange(3)}, previous=previous)
    assert previous.read_bytes() == before
    assert np.array_equal(reading.read(path, "test", 2)[1]["beta"], np.arange(3))


def test_a_damaged_checkpoint_never_replaces_a_whole_one(tmp_path):
    paths = fit_file.FitPaths(tmp_path)
    for number in range(2):
        fit_file.write_checkpoint(ALONE, paths, {"seed": 1}, {"x": np.arange(number)}, "gather")
    paths.checkpoint.write_bytes(b"")
    found, notes = fit_file.find_checkpoint(paths, {"seed": 1})
    assert found == paths.previous and len(notes) == 1
    assert "checkpoint.h5: not a file" in notes[0] and "checkpoint.previous.h5" in notes[0]
    # The next one is written: both are whole.
    fit_file.write_checkpoint(ALONE, paths, {"seed": 1}, {"x": np.arange(5)}, "gather")
    assert fit_file.find_checkpoint(paths, {"seed": 1}) == (paths.checkpoint, [])
    paths.checkpoint.unlink()
    assert fit_file.find_checkpoint(paths, {"seed": 1}) == (paths.previous, [])
    with pytest.raises(InputError, match="was made with seed = 1, the input has 2"):
        fit_file.find_checkpoint(paths, {"seed": 2})


def test_a_second_job_in_the_same_place_is_refused_until_the_first_ends(tmp_path):
    lock = tmp_path / ".lock"
    with files.locked(ALONE, lock):
        with pytest.raises(InputError, match=rf"another job is at work here \(host .*process {os.getpid()}"):
            with files.locked(ALONE, lock):
                pass
    with files.locked(ALONE, lock):
        pass


def test_a_job_may_wait_for_its_turn(tmp_path):
    lock, had = tmp_path / ".lock", []

    def second():
        with files.locked(ALONE, lock, wait=True):
            had.append("its turn")

    thread = threading.Thread(target=second)
    with files.locked(ALONE, lock):
        thread.start()
        thread.join(0.3)
        assert thread.is_alive() and not had
    thread.join(60)
    assert had == ["its turn"]


def test_a_place_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="file/out: cannot be written"):
        files.make_directory(tmp_path / "file" / "out")
    with pytest.raises(InputError, match="file: is a file; a directory is needed"):
        files.make_directory(tmp_path / "file")
    files.make_directory(tmp_path / "a" / "b")
    assert os.listdir(tmp_path / "a" / "b") == []
