"""Both writers, any split of the rows, the same content."""

import os
import stat

import numpy as np
import pytest

from mpi_potts.errors import InputError
from mpi_potts.io import reading, store

ATTRIBUTES = {
    "labels": 3,
    "shape": (125, 125),
    "sampler": "gibbs",
    "tau": 1.5,
    "starts": ["random", "ordered"],
}
SIZES = [0, 2, 11]


def split(comm, how, n):
    """Row numbers of this rank."""
    if how == "block":
        return store.Rows.of_block(comm, np.empty(0), n).index
    if how == "cyclic":
        return np.arange(n)[comm.rank :: comm.size]
    return np.arange(n if comm.rank == comm.size - 1 else 0)


def table(n):
    return {
        "beta": np.linspace(0, 1, n),
        "group/statistic": np.arange(n * 6, dtype=np.int64).reshape(n, 2, 3),
        "group/state": (np.arange(n * 5) % 251).astype(np.uint8).reshape(n, 5),
        "flag": np.arange(n) % 2 == 0,
        "scalar": np.float64(2.5),
    }


@pytest.mark.parametrize("writer", store.WRITERS)
@pytest.mark.parametrize("how", ["block", "cyclic", "last rank has all"])
@pytest.mark.parametrize("n", SIZES)
def test_rows_split_in_any_way_come_back_in_order(comm, directory, writer, how, n):
    whole = table(n)
    mine = split(comm, how, n)
    datasets = {name: store.Rows(mine, values[mine], n) for name, values in whole.items() if values.ndim}
    path = directory / "table.h5"
    store.write(comm, path, "test", 1, ATTRIBUTES, datasets | {"scalar": whole["scalar"]}, writer)
    attributes, back = reading.read(path, "test", 1)
    assert attributes["writer"] == writer
    assert attributes["shape"] == [125, 125] and attributes["starts"] == ["random", "ordered"]
    assert set(back) == set(whole)
    for name, values in whole.items():
        assert back[name].dtype == values.dtype and np.array_equal(back[name], values)
    assert os.listdir(directory) == ["table.h5"]


def test_the_checksum_does_not_depend_on_writer_split_or_times(comm, directory):
    whole = table(11)
    sums = []
    for number, (writer, how) in enumerate([("mpio", "block"), ("gather", "cyclic"), ("mpio", "cyclic")]):
        mine = split(comm, how, 11)
        datasets = {"beta": whole["beta"], "seconds": np.array([float(number)])}
        datasets["group/state"] = store.Rows(mine, whole["group/state"][mine], 11)
        store.write(comm, directory / f"{number}.h5", "test", 1, ATTRIBUTES, datasets, writer)
        sums.append(reading.read(directory / f"{number}.h5", "test", 1)[0]["checksum"])
    assert len(set(sums)) == 1
    store.write(comm, directory / "other.h5", "test", 1, ATTRIBUTES | {"labels": 4}, {"beta": whole["beta"]})
    assert reading.read(directory / "other.h5", "test", 1)[0]["checksum"] not in sums


@pytest.mark.parametrize("writer", store.WRITERS)
def test_files_have_the_mode_of_the_umask(comm, directory, writer):
    previous = os.umask(0o027)
    try:
        store.write(comm, directory / "a.h5", "test", 1, {}, {"x": np.arange(3)}, writer)
    finally:
        os.umask(previous)
    assert stat.S_IMODE(os.stat(directory / "a.h5").st_mode) == 0o640


@pytest.mark.parametrize("writer", store.WRITERS)
def test_a_directory_that_is_not_there_is_refused_on_every_rank(comm, directory, writer):
    with pytest.raises(InputError, match=r"nowhere/a\.h5: cannot be written"):
        store.write(comm, directory / "nowhere" / "a.h5", "test", 1, {}, {"x": np.arange(3)}, writer)


@pytest.mark.parametrize("writer", store.WRITERS)
def test_no_space_is_refused_on_every_rank_and_leaves_the_old_file(comm, directory, writer, monkeypatch):
    path = directory / "a.h5"
    store.write(comm, path, "test", 1, {}, {"x": np.arange(3)}, writer)
    nothing = os.statvfs_result((4096, 4096, 100, 0, 0, 10, 10, 10, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda _: nothing)
    with pytest.raises(InputError, match=r"0\.0 MB free"):
        store.write(comm, path, "test", 1, {}, {"x": np.arange(4)}, writer)
    assert np.array_equal(reading.read(path, "test", 1)[1]["x"], np.arange(3))
    assert os.listdir(directory) == ["a.h5"]
