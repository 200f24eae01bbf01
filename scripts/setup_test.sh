#!/usr/bin/env bash
# Set up the virtual environment $1 for the tests: h5py is built against the system's parallel HDF5, once, and
# its wheel kept.  HDF5_DIR and CC name another parallel HDF5 and its MPI compiler (a cluster's modules).
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

venv=$1
h5py=${H5PY_VERSION:-3.16.0}
make_venv "$venv"
python="$PWD/$venv/bin/python"

find_hdf5() {
    if [[ -z ${HDF5_DIR:-} ]]; then
        need_packages openmpi-bin libopenmpi-dev libhdf5-openmpi-dev pkg-config gcc libc6-dev
        HDF5_DIR=$(compgen -G '/usr/lib/*/hdf5/openmpi' | head -n 1) || die "no parallel HDF5 in /usr/lib/*/hdf5/openmpi"
        CC=mpicc.openmpi
        # The launcher that goes with it, whatever MPI is the machine's default.
        ln -sf "$(command -v mpirun.openmpi)" "$venv/bin/mpirun"
    fi
    export HDF5_DIR CC=${CC:-mpicc}
    grep -q 'define H5_HAVE_PARALLEL 1' "$HDF5_DIR"/include/H5pubconf*.h || die "HDF5_DIR=$HDF5_DIR is not a parallel HDF5"
}

# Everything the binary depends on: Python, h5py, HDF5, MPI, mpi4py, and where HDF5 was.
wheel_key() {
    local hdf5 mpi
    hdf5=$(sed -n 's/.*H5_VERS_INFO *"HDF5 library version: \([0-9.]*\).*/\1/p' "$HDF5_DIR/include/H5public.h")
    mpi=$("$CC" --showme:version 2>/dev/null || "$CC" -v 2>&1 | head -n 1)
    "$python" - "$h5py" "$hdf5" "$mpi" "$HDF5_DIR" <<'PY'
import hashlib, importlib.metadata, sys, sysconfig
h5py, hdf5, *where = sys.argv[1:]
mpi4py = importlib.metadata.version("mpi4py")
digest = hashlib.sha256("\n".join(where).encode()).hexdigest()[:8]
print(f"{sysconfig.get_config_var('SOABI')}-h5py{h5py}-hdf5_{hdf5}-mpi4py{mpi4py}-{digest}")
PY
}

# --no-build-isolation: built with the numpy and mpi4py it will run with; isolation would fetch and build others.
build_h5py() {
    local cache=$1 build
    "$PYTHON" -c 'import os, sysconfig, sys; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' ||
        need_packages python3-dev
    say "building h5py $h5py against parallel HDF5 (a few minutes, once): $cache"
    mkdir -p "$cache"
    build=$(mktemp -d "$cache/build.XXXXXX")
    HDF5_MPI=ON "$python" -m pip wheel --quiet --disable-pip-version-check --no-deps --no-cache-dir \
        --no-build-isolation --no-binary=h5py --wheel-dir "$build" "h5py==$h5py"
    mv "$build"/h5py-*.whl "$cache/"
    rmdir "$build"
}

find_hdf5
say "installing the build tools of h5py into $venv"
pip_install "$venv" 'pip>=23.1' 'mpi4py>=4.0' 'numpy>=2.0' cython pkgconfig packaging 'setuptools>=80' wheel
cache=${XDG_CACHE_HOME:-$HOME/.cache}/mpi_potts/wheels/$(wheel_key)
compgen -G "$cache/h5py-*.whl" >/dev/null || build_h5py "$cache"
say "installing h5py from $cache"
pip_install "$venv" --no-deps --force-reinstall "$cache"/h5py-*.whl
say "installing mpi_potts with all its extras into $venv"
extras=$("$python" -c 'import tomllib as t; print(*t.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"], sep=",")')
pip_install "$venv" -e ".[$extras]"
"$python" -c 'import h5py, sys; sys.exit(not h5py.get_config().mpi)' || die "h5py in $venv is not parallel"
