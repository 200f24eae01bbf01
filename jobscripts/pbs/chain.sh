#!/bin/bash
# Submit a chain to PBS: the binding function, then the fits that share it.  Run it, do not submit it:
#
#   bash jobscripts/pbs/chain.sh
#
# A job that went on in another job has not succeeded for `depend=afterok`, which would remove what waits for it.  So
# the job that does succeed calls this file with the name of its command, and the next ones are submitted then.
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
        qsub -J "$images" -v "COMMAND=fit,INPUT=$input,IMAGE=$image,OUTPUT=$output" "$job"
        ;;
        # What follows a fit goes here, under fit), when AFTER=$chain is added to its variables above; with a job array
        # it is called once for each image.
esac
