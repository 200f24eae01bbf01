#!/bin/bash
# Submit a study to Slurm: the binding function, then its images in a job array.  Run it, do not submit it:
#
#   bash jobscripts/slurm/study.sh
#
# All tasks share one output directory; the last one to end writes the table and the report.
set -euo pipefail

input=inputs/study.toml
images=20                                           # simulate.images of the input
step=5                                              # images of one task; images must be a multiple of it
job=jobscripts/slurm/job.sh
precompute_options=(--ntasks=16 --time=04:00:00)
study_options=(--ntasks=4 --time=12:00:00)

((images % step == 0)) || { echo "$images images are not a multiple of $step" >&2; exit 2; }

precompute=$(sbatch --parsable --job-name=precompute "${precompute_options[@]}" "$job" precompute "$input")
echo "precompute: job $precompute"

study=$(sbatch --parsable --job-name=study --dependency="afterok:$precompute" --kill-on-invalid-dep=yes \
    --array="0-$((images / step - 1))" --export="ALL,STEP=$step" --output=%x-%A_%a.log "${study_options[@]}" \
    "$job" study "$input")
echo "study: job array $study"
