#!/bin/bash
# Submit a study to PBS: the binding function, then its images in a job array.  Run it, do not submit it:
#
#   bash jobscripts/pbs/study.sh
#
# All subjobs share one output directory; the last one to end writes the table and the report.  As in chain.sh, the job
# that has succeeded calls this file for what follows.
set -euo pipefail

input=inputs/study.toml
images=20                                           # simulate.images of the input
step=5                                              # images of one subjob; images must be a multiple of it
job=jobscripts/pbs/job.sh
study=jobscripts/pbs/study.sh                       # this file, as seen from where it is run

((images % step == 0)) || { echo "$images images are not a multiple of $step" >&2; exit 2; }

case ${1:-start} in
    start)
        qsub -v "COMMAND=precompute,INPUT=$input,AFTER=$study" "$job"
        ;;
    precompute)
        qsub -J "0-$((images / step - 1))" -v "COMMAND=study,INPUT=$input,STEP=$step" "$job"
        ;;
esac
