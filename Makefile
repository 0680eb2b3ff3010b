# Everything runs inside .venv, which is made on first use from pyproject.toml.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: serve test test-long bench lint docs clean

serve: $(STAMP)
	$(BIN)/mcp-agent serve

test: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m mcp_agent.reference --check
	$(BIN)/pytest

test-long: $(STAMP)
	MCP_AGENT_TEST_LONG=1 $(BIN)/pytest

bench: $(STAMP)
	$(BIN)/python -m tests.benchmarks

docs: $(STAMP)
	$(BIN)/python -m mcp_agent.reference

lint: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/mypy

$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache
