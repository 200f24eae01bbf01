"""The same bits whatever the CPU: compiler targets, cold and warm caches, numpy's and OpenBLAS's kernels, the
C library's, ranks that differ in all of these, and threads.

On one machine the others are had by compiling for them (`NUMBA_CPU_NAME`), by forbidding numpy and the C
library what they have not, and by naming OpenBLAS's kernels.  Each is a process of its own, which runs the
same small jobs and writes down the digest of every dataset: SMC-ABC with two chains, path sampling on a
volume, exchange, a masked plane, the prior's Gibbs sampler with second-order neighbours, a hexagonal plane,
and a graph.
"""

import json
import subprocess
import sys
from pathlib import Path

import launch
import numpy as np
import pytest
from numpy._core._multiarray_umath import __cpu_dispatch__

JOB = Path(__file__).with_name("same_bits_job.py")

COMMON = """
seed = 3
[image]
path = "{image}.npy"
{mask}
[model]
labels = 3
{model}
[prior]
beta = [0.0, {high}]
mean = {{ mean = "image", sd = 10.0 }}
variance = {{ shape = 1.0, scale = 0.1 }}
[precompute]
grid = "critical"
points = 24
iterations = 120
burn_in = 20
{precompute}
[fit]
method = "{method}"
chains = {chains}
final_sweeps = 150
final_burn_in = 30
[smc]
particles = 120
replicates = 20
alpha = 0.8
label_sweeps = 20
max_iterations = 25
[exchange]
iterations = 150
burn_in = 50
auxiliary_sweeps = 5
"""
EMPTY = {"image": "plane", "mask": "", "model": "", "precompute": "", "high": 1.3, "chains": 1}
JOBS = {
    "smc": {"method": "smc-abc", "chains": 2},
    "path": {"method": "path", "image": "volume", "high": 0.8, "chains": 2},
    "exchange": {"method": "exchange"},
    "masked": {"method": "synthetic", "mask": 'mask = "mask.npy"'},
    "gibbs": {
        "method": "pseudolikelihood",
        "model": 'neighbourhood = "second"',
        "precompute": 'sampler = "gibbs"',
    },
    "hexagonal": {"method": "path", "model": 'neighbourhood = "hexagonal"', "high": 1.0},
    "graph": {
        "method": "smc-abc",
        "image": "samples",
        "mask": 'graph = "graph.npy"',
        "high": 1.0,
        "chains": 2,
    },
}

# numpy's kernels for other CPUs; those of OpenBLAS; the C library's without FMA and AVX2.
NUMPY = {"NPY_DISABLE_CPU_FEATURES": " ".join(__cpu_dispatch__)}
LIBC = {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4,-AVX512F,-AVX512VL"}
TARGETS = {
    "host": {},
    "v3": {"NUMBA_CPU_NAME": "x86-64-v3", "NUMBA_CPU_FEATURES": "+avx2,+fma,+bmi2"},
    "generic": {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""},
}


def picture(shape, seed):
    """Blobs of three labels with noise."""
    data = np.random.default_rng(seed)
    place = np.indices(shape)
    z = sum(axis // 5 for axis in place) % 3
    return 1.5 * z + 0.6 * data.normal(size=shape)


def some_graph(samples):
    """A chain, and pairs of samples far from each other."""
    i = np.arange(2, samples)
    return np.concatenate([np.stack([i - 1, i], axis=1), np.stack([i, i * i % 997 % samples], axis=1)])


@pytest.fixture(scope="module")
def jobs(tmp_path_factory):
    """A directory with the input files and images."""
    directory = tmp_path_factory.mktemp("jobs")
    np.save(directory / "plane.npy", picture((37, 41), 1))
    np.save(directory / "volume.npy", picture((9, 11, 13), 2))
    np.save(directory / "samples.npy", picture((900,), 4))
    np.save(directory / "graph.npy", some_graph(900))
    np.save(directory / "mask.npy", np.random.default_rng(3).random((37, 41)) < 0.8)
    for name, changes in JOBS.items():
        (directory / f"{name}.toml").write_text(COMMON.format(**EMPTY | changes))
    return directory


def begin(jobs, name, cache, threads=None, **changes):
    """Start the jobs in a process of their own."""
    command = [sys.executable, JOB, jobs, jobs / name, *([threads] if threads else [])]
    environment = launch.environment(NUMBA_CACHE_DIR=str(jobs / cache), **changes)
    return subprocess.Popen(
        list(map(str, command)), env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def end(jobs, name, process, seconds=900):
    """Wait; the digests that were written."""
    said, _ = process.communicate(timeout=seconds)
    assert process.returncode == 0, said[-3000:]
    return json.loads((jobs / name / "bits.json").read_text())


def differing(one, other):
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


@pytest.fixture(scope="module")
def cold(jobs):
    """{target: digests} of the first run, which compiles for it; two at a time."""
    # numpy's and the C library's other kernels go with the targets of which they are.
    changes = {"host": {}, "v3": NUMPY, "generic": NUMPY | LIBC}
    started = {name: begin(jobs, name, name, **TARGETS[name], **changes[name]) for name in TARGETS}
    return {name: end(jobs, name, process) for name, process in started.items()}


def test_every_kind_of_file_was_compared(cold):
    names = cold["host"]
    for part in ("smc/binding.h5/mean", "smc/result.h5/noise/mean", "path/result.h5/marginal/beta",
                 "exchange/result.h5/exchange/step", "masked/result.h5/labels/probability",
                 "gibbs/result.h5/marginal/beta", "hexagonal/result.h5/labels/probability",
                 "graph/binding.h5/mean", "graph/result.h5/labels/probability",
                 "smc/result.h5/@beta_mean"):  # fmt: skip
        assert part in names
    assert len(set(names.values())) > len(names) // 2, "many different contents, not the same empty ones"


@pytest.mark.parametrize("target", ["v3", "generic"])
def test_kernels_compiled_for_another_cpu_give_the_same_bits(cold, target):
    assert differing(cold["host"], cold[target]) == []


def test_a_warm_cache_gives_the_same_bits(jobs, cold):
    assert differing(cold["host"], end(jobs, "warm", begin(jobs, "warm", "host"))) == []


@pytest.mark.parametrize("core", ["Nehalem", "Haswell"])
def test_kernels_of_numpy_openblas_and_the_c_library_change_no_bit(jobs, cold, core):
    changes = NUMPY | LIBC if core == "Nehalem" else {}
    process = begin(jobs, core, "host", OPENBLAS_CORETYPE=core, **changes)
    assert differing(cold["host"], end(jobs, core, process)) == []


@pytest.mark.parametrize("threads", [2, 3, 7])
def test_any_number_of_threads_gives_the_same_bits(jobs, cold, threads):
    name = f"threads{threads}"
    assert differing(cold["host"], end(jobs, name, begin(jobs, name, "host", threads))) == []


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_any_number_of_ranks_gives_the_same_bits(jobs, cold, ranks):
    cache = {"NUMBA_CACHE_DIR": str(jobs / "host")}
    process = launch.start([jobs, jobs / f"ranks{ranks}"], ranks, program=(JOB,), **cache)
    finished = launch.finish(process, 300)
    assert finished.code == 0, finished.stderr
    bits = json.loads((jobs / f"ranks{ranks}" / "bits.json").read_text())
    assert differing(cold["host"], bits) == []


def test_ranks_on_different_cpus_agree_and_give_the_same_bits(jobs, cold):
    """Every rank with kernels for another CPU, and other kernels of numpy, OpenBLAS and the C library."""
    kinds = {
        "generic": TARGETS["generic"] | NUMPY | LIBC | {"OPENBLAS_CORETYPE": "Nehalem"},
        "host": TARGETS["host"],
        "v3": TARGETS["v3"] | NUMPY | {"OPENBLAS_CORETYPE": "Haswell"},
    }
    launcher, *options = launch.mpirun(1)
    command = [launcher]
    for number, (name, changes) in enumerate(kinds.items()):
        changes = changes | {"NUMBA_CACHE_DIR": str(jobs / name)}
        settings = [word for item in changes.items() for word in ("-x", "=".join(item))]
        command += [*([":"] if number else []), *options, *settings]
        command += [sys.executable, str(JOB), str(jobs), str(jobs / "mixed")]
    process = subprocess.Popen(
        command, env=launch.environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    )  # fmt: skip
    assert launch.finish(process, 300).code == 0
    bits = json.loads((jobs / "mixed" / "bits.json").read_text())
    assert differing(cold["host"], bits) == []
