#!/bin/bash
# One job of mpi_potts under PBS.  Near its time limit it writes a checkpoint and submits itself again.
#
#   qsub jobscripts/pbs/job.sh
#   qsub -v COMMAND=precompute,INPUT=inputs/simulation.toml jobscripts/pbs/job.sh
#   what=COMMAND=fit,INPUT=inputs/simulation.toml,IMAGE=../out/simulation/image_{}.h5,OUTPUT=out/simulation/fit_{}
#   qsub -J 0-19 -v "$what" jobscripts/pbs/job.sh
#   qsub -J 0-3 -v COMMAND=study,INPUT=inputs/study.toml,STEP=5 jobscripts/pbs/job.sh
#
# In a job array {} becomes the subjob's number in three digits; with STEP, a subjob of a study takes so many images:
# subjob 1 of STEP=5 those from 5 to 9.  Edit the resources here, not on qsub's command line:
# the next job of the chain must have the same.  To end the chain: qdel JOB.

#PBS -N mpi-potts
#PBS -l select=1:ncpus=16:mpiprocs=16:ompthreads=1
#PBS -l walltime=12:00:00
#PBS -j oe

# A little less than the walltime: signals are not to be relied on, so the program keeps its own clock.
hours=11.9

# What to do, where qsub -v does not say.
command=${COMMAND:-run}
input=${INPUT:-inputs/satellite.toml}
options=()                              # more for mpi-potts, such as (--set image.path=/data/scene.tif)
script=jobscripts/pbs/job.sh            # this file, as seen from where it is submitted

# The environment: the modules of your site, and where mpi_potts is installed.
# module load python openmpi
# source "$HOME/venvs/mpi_potts/bin/activate"

# The launcher must belong to the MPI library of mpi4py.  An Open MPI that knows PBS finds its nodes and ranks itself.
launch=(mpirun)
# launch=(mpirun -n "$(wc -l <"$PBS_NODEFILE")" -machinefile "$PBS_NODEFILE")

# How many jobs the chain may have.
tries=50

# One thread a rank: the ranks are the parallelism.
export NUMBA_NUM_THREADS=1 OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1

# Compiled kernels on a disk of the node: numba's cache is not safe on every network file system.
if [[ -z ${NUMBA_CACHE_DIR:-} ]]; then
    export NUMBA_CACHE_DIR=${TMPDIR:-/tmp}/numba-${PBS_JOBID//[^0-9]/-}
    trap 'rm -rf "$NUMBA_CACHE_DIR"' EXIT
fi

# Where HDF5 says that it cannot lock a file (some network file systems):
# export HDF5_USE_FILE_LOCKING=FALSE

# ---- nothing to edit below

cd "$PBS_O_WORKDIR" || exit 1

# The variables that the next job of the chain is given: the same again, and which subjob it goes on with.
index=${INDEX:-${PBS_ARRAY_INDEX:-}}
try=${TRY:-1}
variables=COMMAND=$command,INPUT=$input,TRY=$((try + 1))
[[ -n ${IMAGE:-} ]] && variables+=,IMAGE=$IMAGE && options+=(--set "image.path=$IMAGE")
[[ -n ${OUTPUT:-} ]] && variables+=,OUTPUT=$OUTPUT && options+=(--output "$OUTPUT")
[[ -n ${AFTER:-} ]] && variables+=,AFTER=$AFTER
[[ -n ${STEP:-} ]] && variables+=,STEP=$STEP
clock=(--max-hours "$hours")
[[ $command == report ]] && clock=()    # which has no checkpoint
if [[ -n $index ]]; then
    variables+=,INDEX=$index
    options=("${options[@]//\{\}/$(printf %03d "$index")}")
    if [[ -n ${STEP:-} ]]; then
        first=$((index * STEP))
        options+=(--set "study.images_from=$first" --set "study.images_to=$((first + STEP))")
    fi
fi

# `qsig -s SIGUSR1` goes to every process of the job: the ranks stop with a checkpoint, this shell must not die of it.
trap : USR1
echo "$(date +%FT%T) job $try: mpi-potts $command $input ${clock[*]} ${options[*]}"
"${launch[@]}" mpi-potts "$command" "$input" "${clock[@]}" "${options[@]}"
code=$?
echo "$(date +%FT%T) exit code $code"

# 75: stopped early with a checkpoint, run again to go on.
if ((code == 75)); then
    if ((try >= tries)); then
        echo "not submitted again: $tries jobs were enough"
    else
        qsub -v "$variables" "$script"
    fi
elif ((code == 0)) && [[ -n ${AFTER:-} ]]; then
    bash "$AFTER" "$command" "$index"
fi
exit "$code"
