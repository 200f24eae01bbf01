#!/bin/bash
# One job of mpi_potts under Slurm.  Near its time limit it writes a checkpoint and goes back into the queue.
#
#   sbatch jobscripts/slurm/job.sh run inputs/satellite.toml --set image.path=/data/scene.tif
#   sbatch jobscripts/slurm/job.sh precompute inputs/simulation.toml
#   sbatch --array=0-19%4 jobscripts/slurm/job.sh fit inputs/simulation.toml \
#       --set image.path=../out/simulation/image_{}.h5 --output out/simulation/fit_{}
#   sbatch --array=0-3 --export=ALL,STEP=5 jobscripts/slurm/job.sh study inputs/study.toml
#
# What follows the name of this file goes to mpi-potts; in a job array {} becomes the task's number in three digits.
# With STEP, a task of a study takes so many images: task 1 of STEP=5 those from 5 to 9.
# To stop it early with a checkpoint: scancel --batch --signal=USR1 JOB.  To end it: scancel JOB.

#SBATCH --job-name=mpi-potts
#SBATCH --nodes=1
#SBATCH --ntasks=16
#SBATCH --cpus-per-task=1
#SBATCH --mem-per-cpu=1G            # `mpi-potts check INPUT.toml` prints the memory of a rank
#SBATCH --time=12:00:00
#SBATCH --signal=B:USR1@120         # to this shell, which passes it on; the clock below comes first
#SBATCH --requeue
#SBATCH --open-mode=append          # one log for all restarts
#SBATCH --output=%x-%j.log

# The environment: the modules of your site, and where mpi_potts is installed.
# module load python openmpi
# source "$HOME/venvs/mpi_potts/bin/activate"

# The launcher must belong to the MPI library of mpi4py; `mpirun -n 2 mpi-potts doctor` says whether it does.
launch=(mpirun -n "$SLURM_NTASKS")
# launch=(srun --mpi=pmix --kill-on-bad-exit=1)

# How often the job may put itself back into the queue.
restarts=50

# One thread a rank: the ranks are the parallelism.
export NUMBA_NUM_THREADS=1 OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1

# Compiled kernels on a disk of the node: numba's cache is not safe on every network file system.
if [[ -z ${NUMBA_CACHE_DIR:-} ]]; then
    export NUMBA_CACHE_DIR=${TMPDIR:-/tmp}/numba-$SLURM_JOB_ID
    trap 'rm -rf "$NUMBA_CACHE_DIR"' EXIT
fi

# Where HDF5 says that it cannot lock a file (some network file systems):
# export HDF5_USE_FILE_LOCKING=FALSE

# ---- nothing to edit below

arguments=("$@")
if [[ -n ${SLURM_ARRAY_TASK_ID:-} ]]; then
    arguments=("${arguments[@]//\{\}/$(printf %03d "$SLURM_ARRAY_TASK_ID")}")
    if [[ -n ${STEP:-} ]]; then
        first=$((SLURM_ARRAY_TASK_ID * STEP))
        arguments+=(--set "study.images_from=$first" --set "study.images_to=$((first + STEP))")
    fi
fi

# The program's own clock, from the time at which Slurm will end this job: "N/A" where there is no limit.
end=$(squeue --noheader --jobs="$SLURM_JOB_ID" --format=%e | head -n 1)
clock=()
if [[ $end == *T* && ${arguments[0]} != report ]]; then         # which has no checkpoint
    left=$(($(date -d "$end" +%s) - $(date +%s)))
    clock=(--max-hours "$(awk -v s="$left" 'BEGIN { printf "%.4f", s / 3600 }')")
fi

# The ranks leave a mark when they start: srun was seen to return 0 when it could not launch any.
mark=$PWD/.mpi-potts-$SLURM_JOB_ID
# A signal before the program listens is lost, and not the end of the rank: the clock is there.
# shellcheck disable=SC2016  # for the shell of the rank
start='trap "" USR1; touch "$0" && exec mpi-potts "$@"'

# The launcher runs in the background, because a shell looks at its signals only between foreground commands.
echo "$(date +%FT%T) start ${SLURM_RESTART_COUNT:-0}: mpi-potts ${arguments[*]} ${clock[*]}"
"${launch[@]}" bash -c "$start" "$mark" "${arguments[0]}" "${clock[@]}" "${arguments[@]:1}" &
launcher=$!
trap 'heard=1; kill -USR1 "$launcher"' USR1
while true; do
    heard=0
    wait "$launcher"
    code=$?
    # Above 128 and a signal was heard: `wait` was interrupted, the launcher is still there.
    ((heard && code > 128)) || break
done
if ((code == 0)) && [[ ! -e $mark ]]; then
    echo "${launch[0]} returned 0 and started no rank"
    code=1
fi
rm -f "$mark"
echo "$(date +%FT%T) exit code $code"

# 75: stopped early with a checkpoint, run again to go on.
if ((code == 75)); then
    if ((${SLURM_RESTART_COUNT:-0} >= restarts)); then
        echo "not put back: $restarts restarts were enough"
    else
        # Slurm ends this shell; if it went first, its exit code could be taken for that of the next start.
        scontrol requeue "$SLURM_JOB_ID" && sleep 60
        echo "cannot be put back: submit the same job again to go on"
    fi
fi
exit "$code"
