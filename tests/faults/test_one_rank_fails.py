"""An exception on one rank, at any stage, ends the whole job: that rank's traceback, a non-zero code."""

import shutil

import jobs
import launch
import pytest

# job, stage, rank, how many times the stage was reached before
SERIAL = (
    ("precompute", "loading the libraries", 1, 1),
    ("precompute", "reading the input", 1, 1),
    ("fit", "reading the image", 0, 1),
    ("fit", "reading the binding function", 0, 1),
    ("precompute", "a sweep of the prior", 1, 4),
    ("precompute", "writing a part", 1, 2),
    ("fit", "finding a checkpoint", 0, 1),
    ("fit", "a sweep of the labels", 1, 3),
    ("fit", "an iteration", 1, 3),
    ("fit", "resampling", 0, 1),
    ("fit", "mutation", 1, 2),
    ("fit", "a final sweep", 1, 3),
    ("fit", "writing the draws", 0, 1),
    ("run", "reporting", 0, 1),
    ("study", "fitting an image of a study", 1, 1),
    ("study", "the table of a study", 0, 1),
)
# These meet the other ranks in the middle of a file, which both writers do in their own way.
WRITING = (
    ("precompute", "writing the binding function", 1, 1),
    ("fit", "writing a checkpoint", 1, 2),
    ("fit", "writing the result", 1, 1),
)
# In the middle of the file, among HDF5's own collective calls; where rows are gathered only rank 0 has it.
INSIDE = (("fit", "mpio", "dataset created", 1, 30), ("fit", "gather", "dataset created", 0, 30))
CASES = [(job, "gather", *rest) for job, *rest in SERIAL] + [
    *((job, writer, *rest) for job, *rest in WRITING for writer in ("mpio", "gather")),
    *INSIDE,
]
CODE = 1


@pytest.mark.parametrize("job, writer, stage, rank, count", CASES, ids=lambda value: str(value))
def test_the_whole_job_ends_with_the_traceback(bench, tmp_path, job, writer, stage, rank, count):
    fails(bench, tmp_path, job, writer, stage, rank, count)


@pytest.mark.long
@pytest.mark.parametrize("writer", ["mpio", "gather"])
@pytest.mark.parametrize("job, stage, rank, count", [*SERIAL, *WRITING], ids=lambda value: str(value))
def test_for_both_writers_on_three_ranks(bench, tmp_path, job, stage, rank, count, writer):
    fails(bench, tmp_path, job, writer, stage, rank, count, 3)


def fails(bench, tmp_path, job, writer, stage, rank, count, ranks=2):
    output = tmp_path / "out"
    if jobs.JOBS[job].needs:
        bench.begin(job, writer, output)
    figures = {"FAULT_FIGURES": "1"} if stage == "reporting" else {}
    fault = {"moment": stage, "count": count, "rank": rank, "action": "raise", "room": str(tmp_path)}
    process = bench.start(job, writer, output, ranks, fault, **figures)
    done = launch.finish(process, jobs.PATIENCE)  # a job that hangs is killed, and fails here
    assert done.code == CODE, f"code {done.code}\n{done.stderr[-3000:]}"
    assert "Traceback (most recent call last)" in done.stderr, done.stderr[-3000:]
    if stage == "loading the libraries":
        assert "import of tomllib halted" in done.stderr, done.stderr[-3000:]
    else:
        assert f"rank {rank} of {ranks}:" in done.stderr, done.stderr[-3000:]
        assert f"Injected: injected at {stage!r}" in done.stderr, done.stderr[-3000:]
    shutil.rmtree(output, ignore_errors=True)
