# mpi_potts on one machine: `make demo` and `make test` need make, bash and Python 3.11 or newer, and fetch the rest.
# On a cluster see README.md.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo setup setup-test lint test test-long test-slurm faults bench clean distclean

PYTHON ?= python3
VENV := .venv
TEST_VENV := .venv-test
export PYTHON

# One thread a rank: the ranks are the parallelism.
export NUMBA_NUM_THREADS ?= 1
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1

# More ranks than cores are allowed (Open MPI 4 and 5 name it differently): this matters only where cores are few.
export OMPI_MCA_rmaps_base_oversubscribe ?= 1
export PRTE_MCA_rmaps_default_mapping_policy ?= :oversubscribe

# Open MPI refuses root unless told twice; in a container there is often no one else.
ifeq ($(shell id -u),0)
export OMPI_ALLOW_RUN_AS_ROOT := 1
export OMPI_ALLOW_RUN_AS_ROOT_CONFIRM := 1
endif

IN_VENV := PATH="$(CURDIR)/$(VENV)/bin:$$PATH"
IN_TEST_VENV := PATH="$(CURDIR)/$(TEST_VENV)/bin:$$PATH"
KERNELS := $(wildcard mpi_potts/kernels/*.py)

help:
	@echo 'make demo       set up .venv from wheels and run the demonstration on two ranks'
	@echo 'make test       set up .venv-test with parallel HDF5; lint; tests serially and on 1, 2, 3 and 4 ranks'
	@echo 'make test-long  the statistical checks that take minutes'
	@echo 'make test-slurm the job scripts on a real Slurm of one node, started for it (root on Debian)'
	@echo 'make faults     attack running jobs and print what came of it (ARGS="--attacks 100 --seed 1")'
	@echo 'make bench      time per site and sweep of every kernel, and strong scaling (ARGS="--quick" is shorter)'
	@echo 'make clean      remove caches and build products; make distclean also the virtual environments'
	@echo 'PYTHON=...      another Python, 3.11 or newer'

setup: $(VENV)/.ready
setup-test: $(TEST_VENV)/.ready

$(VENV)/.ready: pyproject.toml scripts/setup_demo.sh scripts/lib.sh
	@bash scripts/setup_demo.sh $(VENV)
	@touch $@

$(TEST_VENV)/.ready: pyproject.toml scripts/setup_test.sh scripts/lib.sh
	@bash scripts/setup_test.sh $(TEST_VENV)
	@touch $@

# numba's cache, beside the sources, does not notice a change in a function that a kernel inlines from another file.
$(VENV)/.kernels $(TEST_VENV)/.kernels: %/.kernels: %/.ready $(KERNELS)
	@find mpi_potts -name '*.nb[ic]' -delete
	@touch $@

demo: $(VENV)/.kernels
	$(IN_VENV) mpirun -n 2 mpi-potts run inputs/demo.toml

lint: $(TEST_VENV)/.ready
	$(TEST_VENV)/bin/ruff check .
	$(TEST_VENV)/bin/ruff format --check .
	$(TEST_VENV)/bin/mypy

test: lint $(TEST_VENV)/.kernels
	@$(IN_TEST_VENV) python scripts/run_tests.py

test-long: $(TEST_VENV)/.kernels
	@$(IN_TEST_VENV) python scripts/run_tests.py --long

test-slurm: $(TEST_VENV)/.kernels
	@. scripts/lib.sh && need_packages slurm-wlm munge slurm-wlm-torque shellcheck
	@$(IN_TEST_VENV) python -m pytest tests/slurm -v -p no:cacheprovider $(ARGS)

faults: $(TEST_VENV)/.kernels
	@$(IN_TEST_VENV) python tests/faults $(ARGS)

bench: $(VENV)/.kernels
	@$(IN_VENV) python -m benchmarks $(ARGS)

clean:
	rm -rf build dist *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis out
	find . -name __pycache__ -not -path './.venv*' -prune -exec rm -rf {} +

distclean: clean
	rm -rf $(VENV) $(TEST_VENV)
