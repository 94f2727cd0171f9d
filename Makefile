# Each target makes the environment it needs: .venv, made anew when pyproject.toml or constraints.txt changes.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PACKAGES := hub inference modeling tokenization train

.PHONY: demo test check bench clean
.DELETE_ON_ERROR:

test: $(VENV)/ready
	$(BIN)/pytest

check: $(VENV)/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@# mypy cannot follow an editable install: show it the packages under their names.
	@mkdir -p build/mypy/greffe && for package in $(PACKAGES); do ln -sfn $(CURDIR)/$$package build/mypy/greffe/$$package; done
	MYPYPATH=build/mypy $(BIN)/mypy $(PACKAGES:%=-p greffe.%)

bench: $(VENV)/ready
	@mkdir -p build
	$(BIN)/python -m benchmarks --json build/bench.json $(ARGS)

demo: $(VENV)/demo
	$(BIN)/greffe demo

clean:
	rm -rf $(VENV) build *.egg-info

# What a user of the demo installs, and on top of it what a developer needs.
$(VENV)/demo: pyproject.toml constraints.txt
	rm -rf $(VENV)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[demo]"
	touch $@

$(VENV)/ready: $(VENV)/demo
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[demo,dev]"
	touch $@
