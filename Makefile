# Each target sets up what it needs. PYTHON picks the interpreter (3.11 or newer).
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --constraint constraints.txt --retries 5

SBOM_TOOLS := cyclonedx-bom pip-licenses

.PHONY: demo quick test pythons check house bench evidence docs docs-tried dist format clean

# Compiles what it needs as it goes, and keeps it beside the sources: later runs start at once.
demo: $(VENV)/.sim
	@$(BIN)/cpor demo

# Whoever forbids Python to keep compiled modules lets each of the many processes of the tests compile them again.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 2 --dist worksteal

# Before every commit, in under a minute: all but what takes seconds, and the folders that start much.
NOT_QUICK := e2e fitting paper perception semantics serve sim training validity viz \
	test_cli_sim.py test_decide_folder.py test_extending.py test_readme.py
quick: $(VENV)/.dev
	@$(PYTEST) -q -m "not slow" $(NOT_QUICK:%=--ignore=tests/%)

test: $(VENV)/.compiled
	@$(PYTEST)

# The core on other interpreters, with the pinned packages and without torch, browser and service: PYTHONS are those to try.
PYTHONS ?= python3.12 python3.13
CORE := test_answer_form.py test_asking.py test_pipeline.py test_relations.py test_scene.py test_system.py contracts \
	corrections evidence gate infer io learn tracking words
pythons:
	@set -e; for python in $(PYTHONS); do at=out/pythons/$$(basename $$python); \
		$$python -m venv $$at; $$at/bin/python --version; \
		$$at/bin/python -m pip install --quiet --constraint constraints.txt --retries 5 '.[peers,perception,sim,vlm]' \
			beartype hypothesis mpmath onnx pytest scikit-learn; \
		PYTHONDONTWRITEBYTECODE= $$at/bin/python -m pytest -q -m "not slow" $(CORE:%=tests/%); \
		$$at/bin/python -m pytest -q tests/test_imports.py; \
	done

check: $(VENV)/.dev
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy

# How much there is to know: lines, classes, repeated names, what one decision crosses.
house: $(VENV)/.dev
	@$(BIN)/python benchmarks/house.py

# Every file that pip would install, with all extras, against the hashes of constraints.lock; see .ci/pins.py.
pins: | $(VENV)/bin/python
	@mkdir -p out
	@$(INSTALL) --dry-run --ignore-installed --report out/pins.json '.[dev,robot]' $(SBOM_TOOLS)
	@$(BIN)/python .ci/pins.py check out/pins.json

bench: $(VENV)/.dev
	@PYTHONPATH=tests $(BIN)/python benchmarks/bench.py --dry
	@$(BIN)/python benchmarks/bench_evidence.py --dry

evidence: $(VENV)/.dev
	@$(BIN)/python benchmarks/evidence_table.py

# The site: static, opens from disk, asks no other host. A broken link fails the build.
docs: $(VENV)/.docs
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "Recording a decision for the start page (a minute or two) …"
	@$(BIN)/python docs/record_page.py out/site/try.html
	@echo "out/site/index.html"

# Every code block and command line of README and site, with the wheel in a fresh environment outside of here: half an hour.
docs-tried: dist
	@PYTHONPATH=benchmarks:tests $(BIN)/python benchmarks/docs_tried.py dist/*.whl

# Wheel and sdist, the same bytes for the same commit; beside them what they bring in, and under which licences.
# Fails where the SBOM has a package that is not pinned or names no licence.
SHIPPED := out/shipped
dist: $(VENV)/.dev
	@rm -rf dist $(SHIPPED)
	@SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -m build --no-isolation --outdir dist . | tail -1
	@$(PYTHON) -m venv $(SHIPPED)
	@$(SHIPPED)/bin/python -m pip install --quiet --constraint constraints.txt --retries 5 "$$(ls dist/*.whl)[perception,serve,sim,viz,vlm]"
	@$(INSTALL) $(SBOM_TOOLS)
	@$(BIN)/cyclonedx-py environment --output-reproducible --of JSON -o dist/sbom.json $(SHIPPED)/bin/python
	@$(BIN)/python .ci/pins.py sbom dist/sbom.json
	@$(BIN)/pip-licenses --python $(SHIPPED)/bin/python --format=markdown --with-urls --output-file dist/licences.md
	@printf '\n' | cat - NOTICE >> dist/licences.md
	@ls -l dist

format: $(VENV)/.dev
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) out

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "CPOR-Grasp needs Python 3.11 or newer; set PYTHON=…")'
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.sim: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "1/3 Installing CPOR-Grasp into $(VENV): NumPy, SciPy and the compiler of its loops …"
	@$(INSTALL) --editable .
	@echo "2/3 Installing what runs its networks …"
	@$(INSTALL) --editable '.[perception]'
	@echo "3/3 Installing the simulator …"
	@$(INSTALL) --editable '.[perception,sim]'
	@touch $@

# Without torch: 3 GB less than the development tools.
$(VENV)/.docs: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "Installing CPOR-Grasp and the tools of the site into $(VENV) …"
	@$(INSTALL) --editable '.[docs]'
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "Installing CPOR-Grasp and its development tools into $(VENV) …"
	@$(INSTALL) --editable '.[dev]'
	@touch $@

# Once for all: the tests would compile the same in several processes at a time, each for itself.
$(VENV)/.compiled: | $(VENV)/.dev
	@$(BIN)/python -c "import cpor; cpor.warm_up()"
	@rm -rf out/compiled && $(BIN)/cpor demo --tier easy --seed 4 --no-film --json --out out/compiled > /dev/null || [ $$? = 1 ]
	@touch $@
