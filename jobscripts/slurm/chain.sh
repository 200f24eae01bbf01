#!/bin/bash
# Submit a chain to Slurm: the binding function, the fits that share it, their reports.  Run it, do not submit it:
#
#   bash jobscripts/slurm/chain.sh
#
# A job waits until the one before has succeeded, through all its restarts; if that fails, it is removed.
set -euo pipefail

input=inputs/simulation.toml                        # its precompute.file is shared by all fits
images=0-19%4                                       # the job array: image_000.h5 ..., at most 4 at a time
image=../out/simulation/image_{}.h5                 # relative to the input; {} is the task's number
output=out/simulation/fit_{}
job=jobscripts/slurm/job.sh
precompute_options=(--ntasks=16 --time=04:00:00)
fit_options=(--ntasks=4 --time=02:00:00)
report_options=(--ntasks=1 --time=00:30:00)

precompute=$(sbatch --parsable --job-name=precompute "${precompute_options[@]}" "$job" precompute "$input")
echo "precompute: job $precompute"

# For one image, named in the input: leave out --array, --set and --output.
fit=$(sbatch --parsable --job-name=fit --dependency="afterok:$precompute" --kill-on-invalid-dep=yes \
    --array="$images" --output=%x-%A_%a.log "${fit_options[@]}" \
    "$job" fit "$input" --set "image.path=$image" --output "$output")
echo "fits: job array $fit"

# Each report waits for its own fit (aftercorr); what needs all of them would wait with afterok.  For one image: leave
# out --array, and give report the directory of the output.
report=$(sbatch --parsable --job-name=report --dependency="aftercorr:$fit" --kill-on-invalid-dep=yes \
    --array="$images" --output=%x-%A_%a.log "${report_options[@]}" "$job" report "$output/result.h5")
echo "reports: job array $report"
