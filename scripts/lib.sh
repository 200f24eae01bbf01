# Sourced by the set-up scripts: messages, Debian packages, Python, virtual environments.

PYTHON=${PYTHON:-python3}

say() { printf '== %s\n' "$*"; }

die() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

# Install the Debian packages that are missing, or name them and stop where that is not ours to do.
need_packages() {
    local package missing=()
    for package in "$@"; do
        dpkg-query -W -f='${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
    done
    [[ ${#missing[@]} -eq 0 ]] && return
    command -v apt-get >/dev/null || die "needed here, by their Debian names: ${missing[*]}"
    [[ $(id -u) -eq 0 ]] || die "missing packages; as root: apt-get install --no-install-recommends ${missing[*]}"
    say "installing ${missing[*]}"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

need_python() {
    command -v "$PYTHON" >/dev/null || need_packages python3 python3-venv
    command -v "$PYTHON" >/dev/null || die "$PYTHON: no such command"
    "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
        die "$PYTHON is $("$PYTHON" --version 2>&1); 3.11 or newer is needed: make PYTHON=python3.11 ..."
    "$PYTHON" -c 'import ensurepip' 2>/dev/null || need_packages python3-venv
    "$PYTHON" -c 'import ensurepip' 2>/dev/null || die "$PYTHON cannot make virtual environments (no ensurepip)"
}

# A virtual environment of this very Python; one of another Python, or half made, is made anew.
make_venv() {
    local venv=$1 identity='import sys; print(sys.version, sys.base_prefix)'
    need_python
    if [[ "$("$venv/bin/python" -c "$identity" 2>/dev/null)" != "$("$PYTHON" -c "$identity")" ]]; then
        say "making $venv with $("$PYTHON" --version)"
        "$PYTHON" -m venv --clear "$venv"
    fi
}

# Install into a virtual environment, from wheels alone; -qq shows errors only.
pip_install() {
    local venv=$1 copy
    shift
    # Where mpi_potts was once installed as a copy, pip leaves numba's cache behind, which hides the package.
    for copy in "$venv"/lib/python*/site-packages/mpi_potts; do
        if [ -d "$copy" ] && [ ! -e "$copy/__init__.py" ]; then rm -rf "$copy"; fi
    done
    "$venv/bin/python" -m pip install -qq --disable-pip-version-check --only-binary=:all: "$@"
}
