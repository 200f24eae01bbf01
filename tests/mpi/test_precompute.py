"""The binding function on any number of ranks: the same bits, however the work was split or stopped."""

from dataclasses import replace

import numpy as np
import pytest
from method_cases import StopAt

from mpi_potts.binding import chains, work
from mpi_potts.binding import compute as precompute
from mpi_potts.cli.precompute import obtain
from mpi_potts.config import inputs
from mpi_potts.errors import InputError, Interrupted
from mpi_potts.image.pixels import lattice_of
from mpi_potts.io import formats, reading, store
from mpi_potts.runtime import parallel
from mpi_potts.runtime.control import Control

INPUT = """
seed = 7
[image]
shape = [9, 14]
[precompute]
grid = "critical"
points = {points}
iterations = {iterations}
burn_in = {burn_in}
starts = "{starts}"
[run]
checkpoint_minutes = 1e-9
"""


def settings(comm, directory, name="out", points=7, iterations=40, burn_in=10, starts="both", **tables):
    path = directory / "input.toml"
    text = INPUT.format(points=points, iterations=iterations, burn_in=burn_in, starts=starts)
    parallel.on_root(comm, lambda: path.write_text(text) and None)
    loaded = inputs.load(path, output=directory / name)
    return replace(
        loaded, **{table: replace(getattr(loaded, table), **keys) for table, keys in tables.items()}
    )


def run(comm, keys, control=None, fresh=False):
    return obtain(comm, keys, lattice_of(keys), control or Control(), quiet=True, fresh=fresh)


def content(path):
    attributes, arrays = reading.read(path, *formats.BINDING)
    return {name: attributes[name] for name in attributes if name not in ("writer", "created")}, arrays


def assert_same(path, other):
    (attributes, arrays), (others, other_arrays) = content(path), content(other)
    assert attributes == others
    assert set(arrays) == set(other_arrays)
    for name, values in arrays.items():
        assert values.tobytes() == other_arrays[name].tobytes(), name


@pytest.fixture
def alone(comm, directory):
    """Compute on one rank, in one go: what every other way must equal."""

    def compute(**asked):
        keys = settings(comm, directory, "alone", **asked)
        parallel.on_root(comm, lambda: run(parallel.ALONE, keys, fresh=True) and None)
        return keys.output / "binding.h5"

    return compute


@pytest.mark.parametrize("points", [2, 3, 11])
@pytest.mark.parametrize("writer", store.WRITERS)
def test_any_number_of_ranks_gives_the_same_bits(comm, directory, alone, points, writer):
    keys = settings(comm, directory, points=points, run={"writer": writer})
    binding = run(comm, keys)
    assert binding.beta.size == points
    assert_same(keys.output / "binding.h5", alone(points=points))
    names = {path.name for path in keys.output.iterdir()}
    assert names == {"binding.h5", "binding.states.h5", ".binding.lock"}


def test_moments_are_those_of_the_chains_after_the_burn_in(comm, directory):
    keys = settings(comm, directory, iterations=40, burn_in=25)
    binding = run(comm, keys)
    statistic = content(keys.output / "binding.h5")[1]["statistic"]
    assert statistic.shape == (7, 2, 40)
    assert np.allclose(binding.mean, statistic[:, :, 25:].mean(axis=(1, 2)), rtol=1e-12)
    assert 0 <= statistic.min() and statistic.max() <= lattice_of(keys).edges


@pytest.mark.parametrize("keep", [True, False])
def test_a_run_that_is_stopped_again_and_again_gives_the_same_bits(comm, directory, alone, keep, monkeypatch):
    monkeypatch.setattr(work, "SLICE", 0.0)
    keys = settings(comm, directory, precompute={"keep_states": keep})
    stops = 0
    for attempt in range(200):
        try:
            run(comm, keys, StopAt(35 + 10 * ((attempt + comm.rank) % 3)))
            break
        except Interrupted:
            stops += 1
            assert not (keys.output / "binding.h5").exists()
    assert stops >= 3
    assert_same(keys.output / "binding.h5", alone())
    assert (keys.output / "binding.states.h5").exists() == keep


def test_one_rank_asked_to_stop_stops_all(comm, directory, monkeypatch):
    monkeypatch.setattr(work, "SLICE", 0.0)
    keys = settings(comm, directory, points=40, iterations=2000)
    last = comm.rank == comm.size - 1
    with pytest.raises(Interrupted, match="run the same command again"):
        run(comm, keys, StopAt(5 if last else 10**9))


@pytest.mark.parametrize(
    "first, then",
    [
        ({"points": 4}, {"points": 9}),
        ({"iterations": 20}, {"iterations": 45}),
        ({"burn_in": 5}, {"burn_in": 30}),
        ({"starts": "random"}, {"starts": "both"}),
        ({"points": 9, "iterations": 45}, {"points": 4, "iterations": 20}),
        ({"points": 4, "iterations": 20}, {"points": 9, "iterations": 45}),
    ],
)
def test_an_extended_file_equals_one_computed_in_one_go(comm, directory, alone, first, then):
    keys = settings(comm, directory, **first)
    run(comm, keys)
    run(comm, settings(comm, directory, **then))
    assert_same(keys.output / "binding.h5", alone(**then))


def sweeps_done(monkeypatch):
    """Count the sweeps of this rank."""
    done = []
    stage = precompute.simulate

    def counted(*arguments):
        for row, count in stage(*arguments):
            done.append(count)
            yield row, count

    monkeypatch.setattr(precompute, "simulate", counted)
    return done


def test_an_extension_repeats_nothing(comm, directory, monkeypatch):
    run(comm, settings(comm, directory, points=4, iterations=20))
    done = sweeps_done(monkeypatch)
    keys = settings(comm, directory, points=9, iterations=45)
    run(comm, keys)
    assert comm.allreduce(sum(done)) == 2 * (4 * 25 + 5 * 45)
    # Nor does asking for less, and then for the same again.
    run(comm, settings(comm, directory, points=4, iterations=20))
    run(comm, keys)
    assert comm.allreduce(sum(done)) == 2 * (4 * 25 + 5 * 45)


def test_chains_without_their_labels_are_done_again(comm, directory, alone, monkeypatch):
    run(comm, settings(comm, directory, iterations=20))
    parallel.on_root(comm, (directory / "out" / "binding.states.h5").unlink)
    done = sweeps_done(monkeypatch)
    keys = settings(comm, directory, iterations=45)
    run(comm, keys)
    assert comm.allreduce(sum(done)) == 2 * 7 * 45
    # More points only need none of them.
    run(comm, settings(comm, directory, iterations=45, points=8))
    assert comm.allreduce(sum(done)) == 2 * 8 * 45
    assert_same(keys.output / "binding.h5", alone(iterations=45, points=8))


def test_a_damaged_part_only_costs_its_chains(comm, directory, alone, monkeypatch):
    monkeypatch.setattr(work, "SLICE", 0.0)
    keys = settings(comm, directory)
    with pytest.raises(Interrupted):
        run(comm, keys, StopAt(60))
    parts = sorted((keys.output / "binding.parts").glob("*.h5"))
    comm.Barrier()
    if comm.rank == 0:
        data = bytearray(parts[0].read_bytes())
        data[len(data) // 2] ^= 1
        parts[0].write_bytes(data)
    comm.Barrier()
    run(comm, keys)
    assert_same(keys.output / "binding.h5", alone())


def test_many_parts_become_one(comm, directory, alone, monkeypatch):
    monkeypatch.setattr(work, "SLICE", 0.0)
    monkeypatch.setattr(precompute, "MANY_PARTS", 2)
    keys, most = settings(comm, directory), 0
    for _ in range(200):
        try:
            run(comm, keys, StopAt(35))
            break
        except Interrupted:
            parts = parallel.on_root(comm, lambda: len(list((keys.output / "binding.parts").glob("*.h5"))))
            most = max(most, parts)
    # At the start at most two for each rank or one of all; then one more for each rank.
    assert comm.size < most <= 3 * comm.size + 1
    assert_same(keys.output / "binding.h5", alone())


@pytest.mark.parametrize(
    "change, word",
    [({"model": {"labels": 5}}, "labels"), ({"seed": 8}, "seed"), ({"shape": (9, 15)}, "shape")],
)
def test_a_file_of_another_problem_is_refused_and_kept(comm, directory, change, word):
    keys = settings(comm, directory)
    run(comm, keys)
    before = (keys.output / "binding.h5").read_bytes()
    other = replace(keys, seed=change.get("seed", keys.seed))
    other = replace(other, model=replace(keys.model, **change.get("model", {})))
    other = replace(other, image=replace(keys.image, shape=change.get("shape", keys.image.shape)))
    with pytest.raises(InputError, match=rf"binding\.h5: computed for {word} = .*--fresh"):
        run(comm, other)
    assert (keys.output / "binding.h5").read_bytes() == before
    comm.Barrier()
    run(comm, other, fresh=True)
    assert (keys.output / "binding.h5").read_bytes() != before


def test_a_finished_file_is_not_touched_again(comm, directory):
    keys = settings(comm, directory)
    first = run(comm, keys)
    before = (keys.output / "binding.h5").stat()
    again = run(comm, keys)
    assert (keys.output / "binding.h5").stat().st_mtime_ns == before.st_mtime_ns
    assert first.digest == again.digest


def test_a_file_elsewhere_is_written_and_used_there(comm, directory):
    shared = directory / "shared" / "k3.h5"
    keys = settings(comm, directory, precompute={"file": shared})
    run(comm, keys)
    assert shared.exists() and (directory / "shared" / "k3.states.h5").exists()
    assert not keys.output.exists()


def test_chains_of_different_starts_share_no_draws(comm, directory):
    """At beta = 0 a sweep forgets its start: equal streams would give equal chains after one sweep."""
    keys = settings(comm, directory)
    run(comm, keys)
    statistic = content(keys.output / "binding.h5")[1]["statistic"][0]
    assert chains.start_kinds("both") == ("random", "ordered")
    assert not np.array_equal(statistic[0, 1:], statistic[1, 1:])
