#!/bin/bash
# Submit a chain to PBS: the binding function, the fits that share it, their reports.  Run it, do not submit it:
#
#   bash jobscripts/pbs/chain.sh
#
# A job that went on in another job has not succeeded for `depend=afterok`, which would remove what waits for it.  So
# the job that does succeed calls this file with its command and its subjob, and the next ones are submitted then.
set -euo pipefail

input=inputs/simulation.toml                        # its precompute.file is shared by all fits
images=0-19                                         # the job array: image_000.h5 ...
image=../out/simulation/image_{}.h5                 # relative to the input; {} is the subjob's number
output=out/simulation/fit_{}
job=jobscripts/pbs/job.sh
chain=jobscripts/pbs/chain.sh                       # this file, as seen from where it is run

case ${1:-start} in
    start)
        qsub -v "COMMAND=precompute,INPUT=$input,AFTER=$chain" "$job"
        ;;
    precompute)
        # For one image, named in the input: leave out -J, IMAGE and OUTPUT.
        qsub -J "$images" -v "COMMAND=fit,INPUT=$input,IMAGE=$image,OUTPUT=$output,AFTER=$chain" "$job"
        ;;
    fit)
        # Called by each image's job when it is done.
        qsub -v "COMMAND=report,INPUT=${output//\{\}/$(printf %03d "${2:-0}")}/result.h5" "$job"
        ;;
esac
