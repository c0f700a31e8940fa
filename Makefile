# GNU make 3.81 is enough. `make` alone lists the targets.
VENV ?= .venv
PY = $(VENV)/bin/python
CONFIG ?= config.yaml
SOAK ?= 2h

export VENV

.PHONY: help run test test-slow lint types audit bench bench-full soak wheel lock clean runtime dev

help:
	@echo "make run        check what config.yaml says and show it on http://127.0.0.1:8080/ (Ctrl-C stops)"
	@echo "make test       the tests that need nothing but this checkout (ARGS='-k name' chooses)"
	@echo "make test-slow  the slow ones, those with a browser and those with systemd"
	@echo "make lint       ruff, its formatter, the import contracts"
	@echo "make types      mypy --strict"
	@echo "make audit      known holes in the locked packages (asks PyPI; fails for what it can't look up)"
	@echo "make bench      the benchmarks and the table of budgets, 5 minutes; bench-full: longer and more, 20 minutes"
	@echo "make soak       load, faults and invariants together for SOAK=$(SOAK)"
	@echo "make wheel      the wheel, into dist/"
	@echo "make lock       write the locks in deploy/ anew (needs uv)"
	@echo "make clean      remove what the targets above made, except data/"
	@echo
	@echo "CONFIG=file, VENV=dir and PYTHON=python3.12 (for a new environment) change the defaults;"
	@echo "CHECKVISOR_BIND=host:port puts the page elsewhere."

runtime:
	@sh deploy/mkvenv.sh runtime

dev:
	@sh deploy/mkvenv.sh dev

# A clone made with umask 002 is writable for the group. Root does not run the commands of a file that others can change,
# so that right is taken from the file here, and said.
run: runtime
	@if [ -f "$(CONFIG)" ] && [ -n "$$(find -L "$(CONFIG)" -perm /022)" ]; then \
		chmod go-w "$(CONFIG)" && echo "make run: others could write $(CONFIG), which runs commands: chmod go-w $(CONFIG) done"; \
	fi
	@exec $(VENV)/bin/checkvisor up -c $(CONFIG)

# More processes than cores: most tests wait for a server, a process or a clock.
test: dev
	$(PY) -m pytest -n 4 --dist worksteal $(ARGS)

test-slow: dev
	$(PY) -m pytest -m "slow or browser or systemd" $(ARGS)

lint: dev
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/lint-imports

types: dev
	$(VENV)/bin/mypy

# --strict: a package that could not be looked up is not "no known holes".
audit: dev
	$(VENV)/bin/pip-audit --strict --require-hashes --disable-pip -r deploy/requirements.txt

bench: dev
	$(PY) -m bench.report --json build/bench.json $(ARGS)

bench-full: dev
	@BENCH_FULL=1 $(MAKE) --no-print-directory bench

soak: dev
	$(PY) -m bench.soak --duration $(SOAK) $(ARGS)

# A copy is built, so that nothing of an older build gets in and nothing is left behind. The lock brought setuptools.
wheel: dev
	@sh deploy/build.sh "$(PY)" dist

lock:
	sh deploy/lock.sh

clean:
	rm -rf build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .ci/artefacts
	find . -name __pycache__ -type d -not -path './.venv/*' -prune -exec rm -rf {} +
	rm -rf .venv
