# `make test` needs no root, and skips what is not here with the probe's own reason; `make system`
# installs, as root, what of that the distribution has.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# pygpu is in no package index: it comes with Debian's own Python, which must see its packages.
DEBIAN_PYTHON := /usr/bin/python3
VENV_PYGPU := .venv-pygpu
VENV_QUICK := .venv-quick
VENV_FRAMEWORKS := .venv-frameworks
BIN_PYGPU := $(VENV_PYGPU)/bin
# Each is optional, and installed by itself: Debian 13 has neither python3-pygpu nor oclgrind.
# MPICH and Slurm are launchers, of which `gpumap exec` is a rank;
# gcc is for the stub drivers of tests/drivers, g++ for the kernels of tests/cuda_standin;
# oclgrind (185 MB) runs the kernels and sees each access; man pages are read by groff and mandoc.
SYSTEM := python3-venv pocl-opencl-icd python3-pygpu libclblast-dev libopenblas0-pthread \
	gcc g++ libc6-dev openmpi-bin \
	mpich slurm-wlm munge \
	man-db groff-base mandoc \
	oclgrind
# What `make long` looks through: chromium (about 600 MB) opens the pages.
LOOK := chromium chromium-driver

.PHONY: quick test ci lint types unit programs opencl cuda mpi waiting alone venv-pygpu unit-pygpu unit-intel expected budget long mutants system system-long axe speed frameworks frameworks-long gpu gpu-wheels docs package clean

# The core: statistics, parser, dot, the runner, verdicts, causes, the fit, two backends.
QUICK = $(patsubst %,tests/%.py,test_stats test_parse test_fit bench/test_dot bench/test_runner \
	bench/test_stopping judge/test_exit_status judge/test_claims doctor/test_causes) \
	tests/backends/conformance
quick: $(VENV_QUICK)/.installed
	PYTHONHASHSEED=0 $(VENV_QUICK)/bin/pytest --quiet -n 2 --dist worksteal $(QUICK)

# What a contributor runs: it needs what pip brings, and no root. `make ci` adds what needs more.
# What has one thread, or waits for a network, is done two at a time there.
test: lint types unit
ci:
	$(MAKE) --no-print-directory $(VENV)/.installed
	$(MAKE) --no-print-directory --jobs 3 $(VENV_FRAMEWORKS)/.installed venv-pygpu lint types docs
	$(MAKE) --no-print-directory unit programs opencl cuda mpi waiting alone frameworks unit-pygpu unit-intel

# OpenCL's driver is PoCL's wheel; in CI Intel's runtime (900 MB) is there too. CuPy is here without a GPU
# and without a toolkit: what it says of a driver is tested with stub drivers.
COMMA := ,
EXTRAS_HERE := test,docs,opencl-cpu,$(if $(CI),opencl-intel$(COMMA))mpi,report,test-cuda
$(VENV)/.installed: pyproject.toml gpumap/version.py
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[$(EXTRAS_HERE)]'
	touch $@

$(VENV_QUICK)/.installed: pyproject.toml gpumap/version.py
	$(PYTHON) -m venv $(VENV_QUICK)
	$(VENV_QUICK)/bin/pip install --quiet --disable-pip-version-check -e '.[test]'
	touch $@

# No CuPy here: it needs NumPy 2, and so "not installed" is tested for real.
$(VENV_PYGPU)/.installed: pyproject.toml gpumap/version.py
	$(DEBIAN_PYTHON) -m venv --system-site-packages $(VENV_PYGPU)
	echo 'numpy<2' > $(VENV_PYGPU)/constraints.txt
	$(BIN_PYGPU)/pip install --quiet --disable-pip-version-check \
		--constraint $(VENV_PYGPU)/constraints.txt -e '.[test,opencl]'
	touch $@

system:
	.ci/system $(SYSTEM)

system-long:
	.ci/system $(LOOK)

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed
	$(BIN)/mypy

# axe-core, which judges whether everyone can read the pages. npm is not in SYSTEM: Debian's brings
# hundreds of packages. Without it those tests are skipped.
AXE_VERSION := 4.14.1
axe:
	@test -e .axe/axe.min.js || if command -v npm > /dev/null; then \
		mkdir -p .axe && cd .axe && npm pack --silent axe-core@$(AXE_VERSION) > /dev/null && \
		tar -xzf axe-core-$(AXE_VERSION).tgz --strip-components 1 package/axe.min.js && \
		rm axe-core-$(AXE_VERSION).tgz || echo "skipped: axe-core: npm could not get it"; \
	else echo "skipped: axe-core: no npm"; fi

# Two at a time, each file of one tier. One seed of hashes for both: parameters that come from a set
# must have one order. Of many combinations of parameters few are run; `--full` runs all.
COMMANDS_OF = $(patsubst %,tests/commands/test_%.py,$(1))
BACKENDS_OF = $(patsubst %,tests/backends/test_%.py,$(1))
# each command as a process, programs of users, and pages with charts; `unit` has tests/expected and
# test_conditions.py, which see every command too
PROGRAMS = $(filter-out %/test_conditions.py $(MPI) $(ALONE) $(SILENCE) $(LONG),$(wildcard tests/commands/test_*.py)) \
	tests/test_action.py tests/test_running.py tests/test_package.py tests/test_readme.py \
	tests/report/test_html.py $(patsubst %,tests/doctor/test_%.py,causes setups time)
# OpenCL as drivers and compilers have it; what every backend promises is in `unit`, on PoCL too
OPENCL = $(call BACKENDS_OF,pyopencl pyopencl_gemm pyopencl_devices pyopencl_vendors probe) \
	tests/kernels/test_oclgrind.py
# a stand-in for CuPy and stub drivers, compiled
CUDA = $(call BACKENDS_OF,cuda_standin cuda_drivers) tests/kernels/test_cuda_dialect.py
# each kind of step of `make gpu`, over it; all steps, planted faults and kills are in `long`
GPU_RECORD = tests/benchmarks/test_gpu_standin.py::test_a_record_of_one_device
# two ranks and more, by mpirun; what launchers start
MPI = tests/launch/test_real_launchers.py tests/comm/test_comm_mpi.py tests/comm/test_two_hosts.py \
	tests/bench/test_process_ranks.py $(call COMMANDS_OF,job_check)
# one at a time: what looks at how busy the machine is, or counts on its devices' order
ALONE = $(call COMMANDS_OF,idle bench_allreduce) tests/benchmarks/test_gpu.py
# what only waits
SILENCE = $(call COMMANDS_OF,silence)
MORE = $(PROGRAMS) $(OPENCL) $(CUDA) $(MPI) $(ALONE) $(SILENCE)
TWO = PYTHONHASHSEED=0 $(1)/pytest --numprocesses 2 --dist loadfile
unit: $(VENV)/.installed
	$(call TWO,$(BIN)) $(patsubst %,--ignore=%,$(MORE) $(LONG))
programs: $(VENV)/.installed
	$(call TWO,$(BIN)) $(PROGRAMS)
opencl: $(VENV)/.installed
	$(call TWO,$(BIN)) $(OPENCL)
cuda: $(VENV)/.installed
	$(call TWO,$(BIN)) $(CUDA) $(GPU_RECORD)
mpi: $(VENV)/.installed
	$(BIN)/pytest $(MPI)
waiting: $(VENV)/.installed
	$(BIN)/pytest -n 4 $(SILENCE)
alone: $(VENV)/.installed
	$(BIN)/pytest $(ALONE)

# What users see, written anew: read the difference before it is kept.
expected: $(VENV)/.installed
	PYTHONHASHSEED=0 $(BIN)/pytest --quiet tests/test_surface.py tests/test_expected.py --renew
	git --no-pager diff --stat tests/expected
	git status --short tests/expected

# What takes long, or a browser: every line of README and docs, the tutorial, pages, the
# scripts of benchmarks/ and examples/, pairs of signals, kills, and ranks that train and fail.
LONG = tests/pages tests/test_tutorial.py tests/test_command_lines.py \
	tests/benchmarks \
	$(patsubst %,tests/commands/test_%.py,ranks_train signals)
long: $(VENV)/.installed axe
	$(call TWO,$(BIN)) --full $(patsubst %,--ignore=%,$(MORE))

# How large each part of the tree is, written down: a higher number needs its reason in the commit.
budget: $(VENV)/.installed
	$(BIN)/python tests/test_budget.py
	git --no-pager diff tests/budget.toml

# Each fault of tests/mutants, planted alone, must be found by the tests that it names: before tests
# are made fewer, and when code moves. `MUTANTS="--only stats --verbose"` takes some of them.
mutants: $(VENV)/.installed
	$(BIN)/python tests/mutants.py --jobs 2 $(MUTANTS)

# What pygpu and NumPy 1.24 can change, once more with them; scripted devices are the same there. CI,
# whose time is short, leaves PyOpenCL's contract to NumPy 2. It has pygpu, so there it must not skip.
PYGPU = tests/backends/conformance $(call BACKENDS_OF,numpy third_party registry) tests/kernels \
	tests/contexts tests/commands/test_real_devices.py \
	$(patsubst %,tests/bench/test_%.py,dot train transfer chain_work allreduce)
NOT_PYGPU = tests/kernels/test_oclgrind.py
venv-pygpu:
	@if $(DEBIAN_PYTHON) -c 'import pygpu, ensurepip' 2> /dev/null; then \
		$(MAKE) --no-print-directory $(VENV_PYGPU)/.installed; fi
unit-pygpu:
	@if reason=$$($(DEBIAN_PYTHON) -c 'import pygpu, ensurepip' 2>&1); then \
		$(MAKE) --no-print-directory $(VENV_PYGPU)/.installed && \
		$(call TWO,$(BIN_PYGPU)) $(PYGPU) $(patsubst %,--ignore=%,$(LONG) $(NOT_PYGPU)) \
		-k "not fake$(if $(CI), and not pyopencl)"; \
	else \
		echo "skipped: the suite with pygpu: $${reason##*: } (make system installs it on Debian 12)"; \
		test -z "$$CI"; \
	fi

# A second compiler for what stands on one: products over Intel's runtime; outside of CI, whose time is
# short, every backend's contract too.
INTEL = $(if $(CI),,tests/backends/conformance) tests/backends/test_pyopencl_gemm.py
unit-intel: $(VENV)/.installed
	@if test -e $(VENV)/lib/libintelocl.so; then \
		GPUMAP_TEST_OPENCL=intel $(call TWO,$(BIN)) $(INTEL) -k "not fake and not numpy"; \
	else \
		echo "skipped: OpenCL over Intel's runtime: $(BIN)/pip install -e '.[opencl-intel]' installs it"; \
		test -z "$$CI"; \
	fi

# PyTorch and JAX on processors: the contract of both backends, and PyTorch's accelerators over a
# stand-in. It takes the build without CUDA's libraries, which are gigabytes: from the index that pip
# knows, else from PyTorch's own.
TORCH ?= torch==2.13.0+cpu
TORCH_INDEX := https://download.pytorch.org/whl/cpu
PIP_FRAMEWORKS = $(VENV_FRAMEWORKS)/bin/pip install --quiet --disable-pip-version-check
$(VENV_FRAMEWORKS)/.installed: pyproject.toml gpumap/version.py
	$(PYTHON) -m venv $(VENV_FRAMEWORKS)
	$(PIP_FRAMEWORKS) '$(TORCH)' || $(PIP_FRAMEWORKS) torch --index-url $(TORCH_INDEX)
	$(PIP_FRAMEWORKS) -e '.[test,jax]'
	touch $@
FRAMEWORKS = tests/backends/conformance $(call BACKENDS_OF,torch jax) tests/launch/test_real_launchers.py \
	"tests/comm/test_comm_torch.py::test_every_rank_has_what_all_reduce_gives[3]" \
	$(patsubst %,tests/training/test_%.py,torch_module loop_libraries network optimizers rules) \
	tests/benchmarks/test_gpu_standin.py::test_torch_beside_cupy
# Each starts ranks that import PyTorch or JAX, for 5 s and more.
RANKS_OF_FRAMEWORKS = tests/comm/test_comm_torch.py tests/comm/test_two_hosts.py $(call COMMANDS_OF,scale)
frameworks: $(VENV_FRAMEWORKS)/.installed
	JAX_NUM_CPU_DEVICES=4 PYTHONHASHSEED=0 $(VENV_FRAMEWORKS)/bin/pytest --quiet -n 2 --dist worksteal \
		-k "torch or jax" $(FRAMEWORKS)
frameworks-long: $(VENV_FRAMEWORKS)/.installed
	$(VENV_FRAMEWORKS)/bin/pytest --quiet -k "torch or jax" $(RANKS_OF_FRAMEWORKS)

# gpumap beside its peers, on a quiet machine, in ten minutes.
SPEED_OUT ?= docs/measured/$(shell date -u +%F)-speed-cpu.md
speed: $(VENV)/.installed
	@if $(DEBIAN_PYTHON) -c 'import pygpu' 2> /dev/null; then \
		$(MAKE) --no-print-directory $(VENV_PYGPU)/.installed; fi
	$(BIN)/python -m benchmarks.speed --out $(SPEED_OUT) $(SPEED_OPTIONS)

# On a machine with a GPU, offline, within eight minutes: a record in docs/measured, or in $$OUT.
GPU_PYTHON ?= python3
gpu:
	$(GPU_PYTHON) -m benchmarks.gpu $(GPU_OPTIONS)

# What such a machine is likely to lack, for a Python that need not be this one; `make gpu` unpacks it.
GPU_PYTHON_VERSION ?= 3.12
GPU_WHEELS ?= attrs jsonschema jsonschema-specifications ml-dtypes msgspec platformdirs pyopencl pytools \
	referencing rpds-py siphash24 typing-extensions
gpu-wheels:
	$(PYTHON) -m pip download --quiet --disable-pip-version-check --dest .wheels --no-deps \
		--only-binary=:all: --implementation cp --python-version $(GPU_PYTHON_VERSION) \
		--platform manylinux_2_28_x86_64 --platform manylinux_2_27_x86_64 --platform manylinux_2_17_x86_64 \
		--platform manylinux2014_x86_64 $(GPU_WHEELS)

# The site, in site/: strict, so a link that leads nowhere is an error. Reference pages are made of the
# source (docs/generate.py, into build/pages/).
docs: $(VENV)/.installed
	$(BIN)/python docs/generate.py
	$(BIN)/zensical build --clean --strict

# Before a release, with a network: sdist and wheel, installed in empty environments with each extra, and
# by pipx. What is in them, the suite knows without one.
EXTRAS ?= opencl-cpu mpi cuda12 cuda13
package:
	PYTHON=$(PYTHON) EXTRAS='$(EXTRAS)' .ci/package $(OUT)

clean:
	rm -rf $(VENV) $(VENV_QUICK) $(VENV_FRAMEWORKS) $(VENV_PYGPU) .axe .cache site build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
