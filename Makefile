# Everything that is done with this repository; each recipe is plain commands. Needs Python 3.11 or
# newer, Rust and a C linker; keeps its own environment in .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO_QUEUES := fifo,codel,fq_codel
PIP := $(BIN)/python -m pip --disable-pip-version-check -q
export PIP_CONSTRAINT := constraints.txt

RUST := $(shell find crates Cargo.toml Cargo.lock -name '*.rs' -o -name 'Cargo.*')
PACKAGE := $(shell find python -name '*.py' -o -name '*.pyi' -o -name '*.toml' -o -name '*.html' \
	-o -name '*.j2' -o -name '*.css' -o -name '*.js' -o -name '*.md') pyproject.toml README.md

FUZZ_TIME ?= 5m

.PHONY: demo test test-rust test-python bench validate fuzz lint docs figures build constraints clean

# The wheel that users get, installed with what it can show.
build: $(VENV)/.built

$(VENV)/.python: constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) install -U pip
	$(PIP) install maturin
	touch $@

$(VENV)/.built: $(VENV)/.python $(RUST) $(PACKAGE)
	rm -rf dist
	MAKEFLAGS= $(BIN)/maturin build --release --locked --interpreter $(BIN)/python --out dist
	$(PIP) install "$$(ls dist/*.whl)[frames,networks,plots,report,study]"
	$(PIP) install --force-reinstall --no-deps dist/*.whl
	touch $@

$(VENV)/.tools: $(VENV)/.python pyproject.toml
	$(PIP) install --group dev
	touch $@

# CUBIC against BBR behind three queues, on a home link and on a cellular link, with a report.
demo: build
	mkdir -p demo
	cp examples/home.toml examples/cellular.toml demo
	$(BIN)/dumbbell new trace cellular-4g --seed 1 --force --out demo/cellular.down
	$(BIN)/dumbbell compare demo/home.toml --queue $(DEMO_QUEUES) --out demo/home
	$(BIN)/dumbbell compare demo/cellular.toml --queue $(DEMO_QUEUES) --out demo/cellular
	$(BIN)/dumbbell report demo/home demo/cellular --out demo/report.html
	@echo "The report is in $(CURDIR)/demo/report.html"

# Both at once: most of the wheel's build, which tests of Python begin with, keeps one core busy. Without
# MAKEFLAGS, cargo takes as many cores as there are, and not make's two.
test:
	$(MAKE) -j2 test-rust test-python

test-rust:
	MAKEFLAGS= cargo test --locked -q --workspace --exclude dumbbell-py

test-python: build $(VENV)/.tools
	$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile tests
	$(BIN)/python -m pytest --doctest-modules --pyargs dumbbell

# How fast it is, on this machine. Other simulators are run beside it where DUMBBELL_PEERS_DIR names
# their drivers and they are installed.
bench: build
	mkdir -p target/bench
	$(BIN)/python benches/peers.py --out target/bench/peers.json
	$(BIN)/python benches/speed.py --out target/bench/speed.json
	cargo run --release --locked -q -p dumbbell-cc --example ack_cost > target/bench/ack_cost.json
	cargo bench --locked -q -p dumbbell-queue --bench queues > target/bench/queues.json
	$(BIN)/python benches/mesonet.py --out target/bench/mesonet.json
	$(BIN)/python benches/transports.py --out target/bench/transports.json
	$(BIN)/python benches/report.py target/bench/speed.json target/bench/peers.json \
		target/bench/ack_cost.json target/bench/queues.json target/bench/mesonet.json \
		target/bench/transports.json --out docs/performance.md

# How right it is: against a real Linux kernel, and the field's own bug reports as scenarios with checks.
validate: build
	$(BIN)/python -m dumbbell._validation_report tests/reference docs
	$(BIN)/dumbbell cases run

# Coverage-guided fuzzing of what controllers are told, of what queues are given and of what both ends
# of each transport meet, for as long as FUZZ_TIME each. The instrumentation is the compiler's own; the
# flag lets a stable one accept it.
FUZZ_TARGETS := dumbbell-cc:any_events_leave_a_controller_usable dumbbell-queue:any_calls_keep_the_laws \
	$(foreach end,plt rap rtp tcp tfrc,dumbbell-transport:any_steps_keep_the_laws_of_$(end))

fuzz: target/tools/bin/cargo-bolero
	$(foreach target,$(FUZZ_TARGETS),PATH="$(CURDIR)/target/tools/bin:$$PATH" cargo bolero test \
		--rustc-bootstrap --engine libfuzzer -T $(FUZZ_TIME) \
		-p $(subst :, ,$(target)) &&) true

target/tools/bin/cargo-bolero:
	cargo install cargo-bolero --version 0.13.5 --locked --root target/tools

lint: build $(VENV)/.tools
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/stubtest dumbbell._core

docs: build
	$(PIP) install --group docs
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html

# Draw the figures of all controllers, queues and transports anew, for their pages.
figures: build
	$(BIN)/python docs/controller_figures.py
	$(BIN)/python docs/queue_figures.py
	$(BIN)/python docs/transport_figures.py
	$(BIN)/python docs/coupling_picture.py

# Pin what is newest today.
constraints:
	rm -rf $(VENV)
	$(PYTHON) -m venv $(VENV)
	PIP_CONSTRAINT= $(PIP) install -U pip
	PIP_CONSTRAINT= $(PIP) install maturin ".[frames,networks,plots,report,study]" --group dev --group docs
	(echo '# Exact versions that make installs; made by `make constraints`.'; \
		$(BIN)/pip freeze --all --exclude dumbbell --exclude setuptools) > constraints.txt

clean:
	cargo clean
	rm -rf $(VENV) dist demo docs/_build
