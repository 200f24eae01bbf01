"""jobscripts/slurm on a real Slurm: signals, requeues, dependencies, arrays; the same bits in the end."""

import re

import pytest
from cluster import wait_for
from jobs import IMAGES, SCRIPTS, assert_same_bits, edited, image_options

JOB, CHAIN, STUDY = (SCRIPTS / "slurm" / f"{name}.sh" for name in ("job", "chain", "study"))
LAUNCHERS = {
    "mpirun": ('launch=(mpirun -n "$SLURM_NTASKS")', "--batch"),
    "srun": ("launch=(srun --mpi=pmix --kill-on-bad-exit=1)", "--batch"),
    "srun, to its ranks": ("launch=(srun --mpi=pmix --kill-on-bad-exit=1)", "--verbose"),
}


def submit(cluster, work, job, *arguments, options=()):
    size = ("--ntasks=2", "--time=30", "--output=log")
    return cluster.run("sbatch", "--parsable", *size, *options, job, *arguments, cwd=work)


def log(work, name="log"):
    return (work / name).read_text() if (work / name).exists() else ""


def iterations(work):
    """How many iterations of the SMC the log shows."""
    return len(re.findall(r"^ *\d+ +[\d.e+]+ +\d+r? ", log(work), re.M))


def hold(work, where):
    """Let the job that begins in this directory wait there, in the midst of its work, until it is stopped."""
    (work / "hold").write_text(where)


def stop(cluster, work, job, how="--batch"):
    """Send USR1 when both ranks are held; then the job must come back as one that waits."""
    wait_for(lambda: len(list(work.glob("held.*"))) == 2, 240, lambda: log(work))
    cluster.run("scancel", how, "--signal=USR1", job)
    assert cluster.wait(job, "PENDING", "COMPLETED", "FAILED")["JobState"] == "PENDING", log(work)
    assert "SIGUSR1 received" in log(work)


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_stopped_by_a_signal_a_job_comes_back_and_gives_the_same_bits(cluster, reference, work, launcher):
    launch, how = LAUNCHERS[launcher]
    script = edited(JOB, work / "job.sh", launch=launch)
    hold(work, "agreed 4")
    job = submit(cluster, work, script, "run", "input.toml", *image_options("000"))
    stop(cluster, work, job, how)
    assert iterations(work) >= 3
    assert not (work / "fit_000" / "result.h5").exists()
    cluster.release(job)
    done = cluster.wait(job, "COMPLETED", "FAILED", "CANCELLED")
    assert (done["JobState"], done["Restarts"]) == ("COMPLETED", "1"), log(work)
    assert "start 0: " in log(work) and "start 1: " in log(work)
    assert_same_bits(work, reference, "binding.h5", "mpi_potts binding")
    assert_same_bits(work, reference, "fit_000/result.h5", "mpi_potts result")


def test_a_chain_waits_through_a_restart_and_fits_an_array_of_images(cluster, reference, work):
    chain = edited(
        CHAIN,
        work / "chain.sh",
        input="input=input.toml",
        images=f"images=0-{IMAGES - 1}%2",
        image="image=images/image_{}.h5",
        output="output=fit_{}",
        job=f"job={JOB}",
        precompute_options="precompute_options=(--ntasks=2 --time=30 --output=log)",
        fit_options="fit_options=(--ntasks=1 --time=30)",
        report_options="report_options=(--ntasks=1 --time=30)",
    )
    hold(work, "stop 1")
    precompute, fits, _ = [line.split()[-1] for line in cluster.run("bash", chain, cwd=work).splitlines()]
    stop(cluster, work, precompute)
    (work / "hold").unlink()  # the fits begin in the same directory
    assert cluster.job(fits)["Reason"] == "Dependency"
    cluster.wait_until_empty()
    assert cluster.job(precompute)["Restarts"] == "1"
    assert_same_bits(work, reference, "binding.h5", "mpi_potts binding")
    for number in range(IMAGES):
        assert "exit code 0" in log(work, f"fit-{fits}_{number}.log")
        assert_same_bits(work, reference, f"fit_{number:03d}/result.h5", "mpi_potts result")
        assert (work / f"fit_{number:03d}" / "report.html").exists()


def test_a_study_is_shared_by_the_tasks_of_an_array(cluster, work):
    text = (work / "input.toml").read_text()
    (work / "study.toml").write_text(f'{text}[study]\nmethods = ["path"]\n')
    script = edited(
        STUDY,
        work / "study.sh",
        input="input=study.toml",
        images=f"images={IMAGES}",
        step="step=1",
        job=f"job={JOB}",
        precompute_options="precompute_options=(--ntasks=2 --time=30)",
        study_options="study_options=(--ntasks=1 --time=30)",
    )
    _, study = [line.split()[-1] for line in cluster.run("bash", script, cwd=work).splitlines()]
    cluster.wait_until_empty()
    logs = [log(work, f"study-{study}_{number}.log") for number in range(IMAGES)]
    assert all("exit code 0" in text for text in logs), logs
    assert (work / "out" / "study.txt").read_text().count("path") == 1 and (
        work / "out" / "study.html"
    ).exists()
    assert sum("study.h5: written" in text for text in logs) == 1, logs


def test_a_failure_is_not_put_back_and_removes_what_waits_for_it(cluster, work):
    first = submit(cluster, work, JOB, "precompute", "absent.toml")
    waits = (f"--dependency=afterok:{first}", "--kill-on-invalid-dep=yes")
    second = submit(cluster, work, JOB, "fit", "absent.toml", options=waits)
    assert cluster.wait(first, "COMPLETED", "FAILED")["ExitCode"] == "2:0"
    assert cluster.wait(second, "CANCELLED", "COMPLETED", "FAILED")["JobState"] == "CANCELLED"
    assert "absent.toml: cannot be read" in log(work)


def test_a_launcher_that_starts_no_rank_is_a_failure_whatever_it_returns(cluster, work):
    job = submit(cluster, work, edited(JOB, work / "job.sh", launch="launch=(true)"), "run", "input.toml")
    assert cluster.wait(job, "COMPLETED", "FAILED")["ExitCode"] == "1:0"
    assert "true returned 0 and started no rank" in log(work)


def test_at_the_time_limit_a_job_comes_back_as_often_as_it_may(cluster, work):
    script = edited(JOB, work / "job.sh", restarts="restarts=1")
    job = submit(cluster, work, script, "precompute", "input.toml", "--max-hours", "1e-6")
    cluster.wait_until_empty()
    ended = cluster.job(job)
    assert (ended["ExitCode"], ended["Restarts"]) == ("75:0", "1"), log(work)
    assert log(work).count("the time limit (--max-hours) is near") == 2
    assert "not put back: 1 restarts were enough" in log(work)


def test_the_program_gets_a_clock_one_thread_and_a_cache_of_the_node(cluster, work):
    program = work / "mpi-potts"
    program.write_text(
        '#!/bin/bash\nmkdir -p "$NUMBA_CACHE_DIR"\n'
        'echo "$*; $NUMBA_CACHE_DIR; $NUMBA_NUM_THREADS $OMP_NUM_THREADS $OPENBLAS_NUM_THREADS"\n'
    )
    program.chmod(0o755)
    (work / "tmp").mkdir()
    changes = f"--export=ALL,NUMBA_CACHE_DIR=,TMPDIR={work}/tmp,PATH={work}:{cluster.environment['PATH']}"
    job = submit(cluster, work, JOB, "run", "a b", "{}", options=(changes, "--array=7"))
    cluster.wait_until_empty()
    said = [line for line in log(work).splitlines() if "; " in line]
    arguments, cache, threads = said[0].split("; ")
    hours = float(arguments.split()[2])
    assert arguments == f"run --max-hours {hours:.4f} a b 007"
    assert 0.45 < hours <= 0.5
    assert threads == "1 1 1"
    assert cache.startswith(f"{work}/tmp/numba-")
    assert not list((work / "tmp").glob("numba-*")), job
