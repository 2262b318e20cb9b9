# A new clone needs only `make demo` and `make test`; `make help` lists all targets.

SHELL := /bin/sh
VENV := .venv
PYTHON := $(VENV)/bin/python
MANIFEST := --manifest-path engine/Cargo.toml
DEMO_STUDY := unp-ch30

# Files that the installed command is built from. The installation is editable, so Python files are not among them.
ENGINE_SOURCES := $(shell find engine/src engine/Cargo.toml engine/Cargo.lock packaging -type f)
# How the engine is linked; maturin reads the same line.
RUSTC_ARGS := $(shell sed -n 's/^rustc-args = \[\(.*\)\]/\1/p' pyproject.toml | tr -d '",')
RUST_FILES = $(shell find engine -name target -prune -o -name "*.rs" -print)

# If HOME is not the one that rustup was installed under, rustup does not find its toolchains.
ifeq ($(origin RUSTUP_HOME),undefined)
RUSTUP_BESIDE := $(shell tools/prerequisites rustup-home)
ifneq ($(RUSTUP_BESIDE),)
export RUSTUP_HOME := $(RUSTUP_BESIDE)
endif
endif

.PHONY: help demo test bench bench-peers soak fuzz sanitize audit build prerequisites test-tools compiled-tests compiled-ahead clippy-ahead rewritten-tests test-engine test-thorough test-lab check check-rust check-python check-documents fmt docs site records lock clean
.DELETE_ON_ERROR:
.NOTPARALLEL:

help:
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1|\2/p' Makefile | awk -F '|' '{ printf "%-18s %s\n", $$1, $$2 }'

demo: build ## set up, run the quick size of the study unp-ch30, print its table
	@$(PYTHON) -m thunderherd run $(DEMO_STUDY) --quick

# The engine's tests are compiled while packages are downloaded and one CPU links the engine. A failure of that occurs again.
# They need no Python packages, which are installed meanwhile. The lab's tests run even if the engine's fail.
test: ## set up, run all tests that CI runs
	@$(MAKE) --no-print-directory compiled-ahead >/dev/null 2>&1 & compiling=$$!; \
		$(MAKE) --no-print-directory build; built=$$?; wait $$compiling; exit $$built
	@$(MAKE) --no-print-directory test-tools & installing=$$!; \
		$(MAKE) --no-print-directory test-engine; engine=$$?; \
		wait $$installing && $(MAKE) --no-print-directory test-lab && exit $$engine

bench: build ## what measuring costs, and proofs of the load: reach, counting, layers, proofs, textbook, linking, scale, gate (an hour; PART=NAME runs one)
	@$(PYTHON) bench $(PART)

soak: build ## hostile clients against every design, commands killed at random moments, twins beside a hostile neighbour, and a run for two hours (3 hours in all; SECONDS=5 TIMES=20 PAIRS=5 MINUTES=5 takes less)
	@$(PYTHON) bench soak --seconds $(or $(SECONDS),60)
	@$(PYTHON) bench kills --times $(or $(TIMES),100)
	@$(PYTHON) bench twins --pairs $(or $(PAIRS),40)
	@$(PYTHON) bench endurance --minutes $(or $(MINUTES),120)

# Each target has a folder of inputs.
FUZZ_TARGETS := $(notdir $(wildcard engine/fuzz/corpus/*))

fuzz: test-tools ## search for input that breaks a parser, 10 minutes for each target (2.5 hours; needs cargo-fuzz; SECONDS=10 takes less)
	@$(PYTEST) lab/tests -m fuzz --fuzz-seconds $(or $(SECONDS),600) --numprocesses 2 -o faulthandler_timeout=0 -rP
	@cargo fuzz --version >/dev/null 2>&1 || { \
		echo "thunderherd: missing: cargo-fuzz; install with: cargo install cargo-fuzz" >&2; exit 1; }
	@cd engine && for target in $(FUZZ_TARGETS); do \
		mkdir -p target/found/$$target && RUSTC_BOOTSTRAP=1 cargo fuzz run $$target target/found/$$target fuzz/corpus/$$target -- \
			-max_total_time=$(or $(SECONDS),600) || exit; done

# Freed memory is not kept, since the tests measure what a server holds. Rust needs --target to leave build scripts as they are.
sanitize: build ## the tests of the engine with the address sanitizer
	@$(NOTHING_IGNORED) env RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address ASAN_OPTIONS=detect_leaks=0:quarantine_size_mb=0:thread_local_quarantine_size_kb=0 \
		cargo test --locked $(MANIFEST) --target "$$(rustc -vV | sed -n 's/^host: //p')" --target-dir engine/target/sanitized \
		--no-fail-fast --lib --test conformance --test engine

audit: prerequisites ## licences and origins of the libraries, and their known flaws (needs cargo-deny and pip-audit, and the network)
	@cargo deny --version >/dev/null 2>&1 || { \
		echo "thunderherd: missing: cargo-deny; install with: cargo install cargo-deny" >&2; exit 1; }
	@command -v pip-audit >/dev/null || { \
		echo "thunderherd: missing: pip-audit; install with: pipx install pip-audit" >&2; exit 1; }
	@cargo deny $(MANIFEST) --locked check licenses bans sources
	@cargo deny $(MANIFEST) --locked check advisories
	@for lock in requirements/*.lock; do pip-audit --strict --requirement $$lock --require-hashes --disable-pip || exit; done

bench-peers: build ## comparisons with other tools: the studies runtimes, nginx, generators and peers (more than an hour; SIZE=quick takes less)
	@for study in runtimes nginx generators peers; do $(PYTHON) -m thunderherd run $$study --size $(or $(SIZE),full) || exit; done

build: $(VENV)/.installed ## set up only: .venv with the commands thunderherd and thunderherd-engine

prerequisites:
	@tools/prerequisites >/dev/null

# Every Python package comes from a lock file with hashes. The stamp files keep a second `make` short. During the
# download cargo already compiles what maturin will build. If that fails, maturin will report it.
$(VENV)/.build-tools: requirements/build.lock | prerequisites
	@echo "==> Python packages into $(VENV) (some 155 MB, once)"
	@python=$$(tools/prerequisites) && { $(PYTHON) -c '' 2>/dev/null || "$$python" -m venv --clear $(VENV); }
	@cargo rustc --release --locked --quiet $(MANIFEST) --bin thunderherd-engine -- $(RUSTC_ARGS) 2>/dev/null & compiling=$$!; \
		$(PYTHON) -m pip install --no-compile --disable-pip-version-check --require-hashes --requirement requirements/build.lock; \
		installed=$$?; wait $$compiling; exit $$installed
	@touch $@

$(VENV)/.test-tools: requirements/test.lock $(VENV)/.build-tools
	@echo "==> Python packages for the tests"
	@$(PYTHON) -m pip install --no-compile --disable-pip-version-check --require-hashes --requirement requirements/test.lock
	@touch $@

$(VENV)/.installed: $(VENV)/.build-tools pyproject.toml README.md $(ENGINE_SOURCES) | prerequisites
	@echo "==> the engine, and the commands thunderherd and thunderherd-engine in $(VENV)/bin"
	@PIP_QUIET=1 VIRTUAL_ENV="$$PWD/$(VENV)" $(VENV)/bin/maturin develop --release --locked
	@tools/launcher $(VENV)
	@touch $@

test-tools: build $(VENV)/.test-tools

# Tests send signals. A caller such as nohup may ignore some, and child processes inherit that.
NOTHING_IGNORED := $(shell env --default-signal true 2>/dev/null && echo env --default-signal=HUP,INT,QUIT)
# Python and pytest cache what they compile. Otherwise each worker, and each program that a test starts, compiles again.
PYTEST := env -u PYTHONDONTWRITEBYTECODE $(PYTHON) -m pytest

compiled-tests: build
	@cargo test --locked --no-run $(MANIFEST)

# May run during a build, which uses another folder of engine/target.
compiled-ahead: prerequisites
	@cargo test --locked --no-run $(MANIFEST)

test-engine: compiled-tests
	@echo "==> cargo test"
	@$(NOTHING_IGNORED) $(PYTHON) tools/engine_tests.py

test-thorough: test-tools ## tests that `make test` leaves out: every workload and the system's buffers in the conformance suite, ignored tests of the engine, and tests marked thorough or alone
	@$(NOTHING_IGNORED) cargo test --locked $(MANIFEST) --lib --test conformance --test engine -- --include-ignored
	@$(NOTHING_IGNORED) $(PYTEST) -m "thorough or alone"

# pytest rewrites assertions and caches the result. CI does this once, during other checks, instead of once a worker.
rewritten-tests: test-tools
	@output=$$($(PYTEST) --collect-only -qq 2>&1) || { echo "$$output" >&2; exit 1; }

# Seven workers on the two CPUs of a small machine, since tests wait for half of their time. Tests that need the CPUs
# for themselves are marked alone, with the reason. `make test-thorough` runs them one after another.
test-lab: test-tools
	@echo "==> pytest"
	@$(NOTHING_IGNORED) $(PYTEST) --numprocesses 7 --dist loadfile --no-loadscope-reorder

check: check-rust check-python check-documents ## check formatting, lints, types, and that generated documents are current

CLIPPY := cargo clippy --locked $(MANIFEST) --all-targets -- -D warnings

# May run during a build, as compiled-ahead.
clippy-ahead: prerequisites
	@$(CLIPPY)

# Files are given by name, since `cargo fmt` skips modules that a macro declares.
check-rust: build
	@rustfmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1 || { \
		echo "thunderherd: missing: rustfmt and clippy; install with: rustup component add rustfmt clippy" >&2; exit 1; }
	@echo "==> rustfmt"
	@rustfmt --check --edition 2024 $(if $(MAKE_TERMOUT),,--color never) $(RUST_FILES)
	@echo "==> clippy"
	@$(CLIPPY)

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

docs: test-tools ## write docs/generated and the generated parts of other pages; check all links
	@$(PYTHON) tools/line_models.py
	@$(PYTHON) tools/documents.py

site: docs ## build HTML of all pages in site/, for a browser without a network
	@$(PYTHON) tools/build_site.py

records: build ## run the studies whose records docs/ shows, and keep the records (about an hour; PARTS="unp-ch30 calls" runs some)
	@$(PYTHON) tools/make_records.py $(PARTS)
	@$(PYTHON) tools/documents.py

fmt: test-tools ## format Rust and Python
	@rustfmt --edition 2024 $(RUST_FILES)
	@$(VENV)/bin/ruff check --fix --exit-zero --quiet lab tools bench
	@$(VENV)/bin/ruff format lab tools bench

lock: ## write requirements/*.lock from pyproject.toml (needs uv)
	@command -v uv >/dev/null || { echo "thunderherd: missing: uv; install with: pip install uv" >&2; exit 1; }
	@for set in build test; do \
		uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
			--custom-compile-command "make lock" pyproject.toml --group build $$( [ $$set = test ] && echo --group test --extra cluster ) \
			--output-file requirements/$$set.lock || exit 1; done

clean: ## remove .venv and engine/target
	@rm -rf $(VENV) engine/target
