"""jobscripts/pbs through Slurm's own qsub, which reads the #PBS lines and -v, -J; not a real PBS."""

import re

from jobs import IMAGES, SCRIPTS, assert_same_bits, edited

JOB, CHAIN = SCRIPTS / "pbs" / "job.sh", SCRIPTS / "pbs" / "chain.sh"


def scripts_for(work, environment):
    """Both scripts, edited: two ranks, the environment (qsub passes on none), a first job without time."""
    first = "[[ -z ${TRY:-} ]] && hours=1e-6 || hours=0.4"
    exports = "\n".join(f"export {name}='{value}'" for name, value in environment.items())
    job = edited(JOB, work / "job.sh", hours=f"{first}\n{exports}", script=f"script={work}/job.sh")
    text, lines = re.subn(r"ncpus=16:mpiprocs=16", "ncpus=2:mpiprocs=2", job.read_text())
    assert lines == 1
    job.write_text(text.replace("walltime=12:00:00", "walltime=00:30:00"))
    return edited(
        CHAIN,
        work / "chain.sh",
        input="input=input.toml",
        images=f"images=0-{IMAGES - 1}",
        image="image=images/image_{}.h5",
        output="output=fit_{}",
        job=f"job={work}/job.sh",
        chain=f"chain={work}/chain.sh",
    )


def test_a_chain_continues_itself_through_an_array_and_gives_the_same_bits(cluster, reference, work):
    cluster.run("bash", scripts_for(work, cluster.environment), cwd=work)
    cluster.wait_until_empty()
    logs = "".join(path.read_text() for path in sorted(work.glob("*.[oe]*[0-9]")))
    assert logs.count("exit code 75") == 1 + IMAGES and logs.count("exit code 0") == 1 + 2 * IMAGES, logs
    assert_same_bits(work, reference, "binding.h5", "mpi_potts binding")
    for number in range(IMAGES):
        assert_same_bits(work, reference, f"fit_{number:03d}/result.h5", "mpi_potts result")
        assert (work / f"fit_{number:03d}" / "report.html").exists(), logs
