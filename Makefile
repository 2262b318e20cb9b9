# `make demo` and `make test` are all that a new clone needs; `make help` lists the rest.

SHELL := /bin/sh
VENV := .venv
PYTHON := $(VENV)/bin/python
MANIFEST := --manifest-path engine/Cargo.toml
DEMO_STUDY := unp-ch30

# Files that the installed command is built from. Python files are not among them: the installation is editable.
ENGINE_SOURCES := $(shell find engine/src engine/Cargo.toml engine/Cargo.lock packaging -type f)
RUST_FILES = $(shell find engine -name target -prune -o -name "*.rs" -print)

# Where HOME is not the one that rustup was installed under, it would not find its toolchains.
ifeq ($(origin RUSTUP_HOME),undefined)
RUSTUP_BESIDE := $(shell tools/prerequisites rustup-home)
ifneq ($(RUSTUP_BESIDE),)
export RUSTUP_HOME := $(RUSTUP_BESIDE)
endif
endif

.PHONY: help demo test bench bench-peers build prerequisites test-tools compiled-tests compiled-ahead rewritten-tests test-engine test-thorough test-lab check check-rust check-python check-documents fmt docs site records lock clean
.DELETE_ON_ERROR:
.NOTPARALLEL:

help:
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1|\2/p' Makefile | awk -F '|' '{ printf "%-18s %s\n", $$1, $$2 }'

demo: build ## sets everything up, runs the study unp-ch30 in its quick form, prints its table
	@$(PYTHON) -m thunderherd run $(DEMO_STUDY) --quick

test: test-engine test-lab ## sets everything up, runs all the tests that CI runs

bench: build ## designs, memory, reach, nginx, what counting costs, layers of a load, proofs of it (31 minutes; PART=NAME alone)
	@$(PYTHON) bench $(PART)

bench-peers: build ## streams, round trips, many connections, load generators: ours beside other tools (34 minutes; PART=streams, round_trips, transactions or clients alone)
	@$(PYTHON) bench $(or $(PART),peers)

build: $(VENV)/.installed ## the set-up alone: .venv with the commands thunderherd and thunderherd-engine

prerequisites:
	@tools/prerequisites >/dev/null

# Every Python package comes from a lock with hashes. The stamps keep a second `make` short. While these come over the
# network, the CPUs have nothing else to do: cargo begins with what maturin builds, and if it fails, maturin says so.
$(VENV)/.build-tools: requirements/build.lock | prerequisites
	@echo "==> Python packages into $(VENV) (some 155 MB, once)"
	@python=$$(tools/prerequisites) && { $(PYTHON) -c '' 2>/dev/null || "$$python" -m venv --clear $(VENV); }
	@cargo build --release --locked --quiet $(MANIFEST) 2>/dev/null & compiling=$$!; \
		$(PYTHON) -m pip install --disable-pip-version-check --require-hashes --requirement requirements/build.lock; \
		installed=$$?; wait $$compiling; exit $$installed
	@touch $@

$(VENV)/.test-tools: requirements/test.lock $(VENV)/.build-tools
	@echo "==> Python packages for the tests"
	@$(PYTHON) -m pip install --disable-pip-version-check --require-hashes --requirement requirements/test.lock
	@touch $@

$(VENV)/.installed: $(VENV)/.build-tools pyproject.toml README.md $(ENGINE_SOURCES) | prerequisites
	@echo "==> the engine, and the commands thunderherd and thunderherd-engine in $(VENV)/bin"
	@PIP_QUIET=1 VIRTUAL_ENV="$$PWD/$(VENV)" $(VENV)/bin/maturin develop --release --locked
	@tools/launcher $(VENV)
	@touch $@

test-tools: build $(VENV)/.test-tools

# Tests send signals, which whoever started this may have had ignored, as nohup does; that is inherited.
NOTHING_IGNORED := $(shell env --default-signal true 2>/dev/null && echo env --default-signal=HUP,INT,QUIT)

compiled-tests: build
	@cargo test --locked --no-run $(MANIFEST)

# Beside a build, which has a folder of its own in engine/target.
compiled-ahead: prerequisites
	@cargo test --locked --no-run $(MANIFEST)

test-engine: compiled-tests
	@echo "==> cargo test"
	@$(NOTHING_IGNORED) $(PYTHON) tools/engine_tests.py

test-thorough: build ## all that can happen to a server's processes, with every workload (`make test` takes two)
	@$(NOTHING_IGNORED) cargo test --locked $(MANIFEST) --test conformance -- --include-ignored

# pytest rewrites what tests assert, and keeps that. CI does it beside other checks, before its workers begin; else each of them does.
rewritten-tests: test-tools
	@told=$$($(PYTHON) -m pytest --collect-only -qq 2>&1) || { echo "$$told" >&2; exit 1; }

# Twice as many workers as a small machine has CPUs: a third of the tests' time is waiting. Then the few that measure
# time against a formula, one after another.
test-lab: test-tools
	@echo "==> pytest"
	@$(NOTHING_IGNORED) $(PYTHON) -m pytest --numprocesses 4 --dist loadfile --no-loadscope-reorder -m "not alone"; status=$$?; \
		echo "==> pytest, alone"; \
		$(NOTHING_IGNORED) $(PYTHON) -m pytest -m alone || status=$$?; exit $$status

check: check-rust check-python check-documents ## formatting, lints, types, and that generated documents are current

# Files by name: `cargo fmt` skips the modules that a macro declares.
check-rust: build
	@rustfmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1 || { \
		echo "thunderherd: missing: rustfmt and clippy; install with: rustup component add rustfmt clippy" >&2; exit 1; }
	@echo "==> rustfmt"
	@rustfmt --check --edition 2024 $(if $(MAKE_TERMOUT),,--color never) $(RUST_FILES)
	@echo "==> clippy"
	@cargo clippy --locked $(MANIFEST) --all-targets -- -D warnings

check-python: test-tools
	@echo "==> ruff"
	@$(VENV)/bin/ruff check lab tools bench
	@$(VENV)/bin/ruff format --check lab tools bench
	@echo "==> models of the engine's lines"
	@$(PYTHON) tools/line_models.py --check
	@echo "==> mypy"
	@$(PYTHON) -m mypy
	@$(PYTHON) -m mypy bench
	@$(PYTHON) -m mypy tools

check-documents: build
	@echo "==> generated documents"
	@$(PYTHON) tools/documents.py --check

docs: test-tools ## writes anew what in docs/ and README.md follows from code, registries, schemas and records; checks links
	@$(PYTHON) tools/line_models.py
	@$(PYTHON) tools/documents.py

site: docs ## the same as HTML in site/, for a browser, without a network
	@$(PYTHON) tools/build_site.py

records: build ## runs the five sources' studies, and two of every entry, and keeps what docs/ shows of them (an hour or so; PARTS="unp-ch30 calls" alone)
	@$(PYTHON) tools/make_records.py $(PARTS)
	@$(PYTHON) tools/documents.py

fmt: test-tools ## formats Rust and Python
	@rustfmt --edition 2024 $(RUST_FILES)
	@$(VENV)/bin/ruff check --fix --exit-zero --quiet lab tools bench
	@$(VENV)/bin/ruff format lab tools bench

lock: ## writes requirements/*.lock anew from pyproject.toml (needs uv)
	@command -v uv >/dev/null || { echo "thunderherd: missing: uv; install with: pip install uv" >&2; exit 1; }
	@for set in build test; do \
		uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
			--custom-compile-command "make lock" pyproject.toml --group build $$( [ $$set = test ] && echo --group test ) \
			--output-file requirements/$$set.lock || exit 1; done

clean: ## removes what was built: .venv and engine/target
	@rm -rf $(VENV) engine/target
