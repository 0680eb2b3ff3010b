# Everything runs inside .venv, which is made on first use from pyproject.toml.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

PROGRAMS := curl jq

.PHONY: system serve test test-long bench lint docs clean

serve: $(STAMP)
	$(BIN)/mcp-agent serve

test: $(STAMP) system
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m mcp_agent.reference --check
	$(BIN)/pytest

test-long: $(STAMP) system
	MCP_AGENT_TEST_LONG=1 $(BIN)/pytest

bench: $(STAMP)
	$(BIN)/python -m tests.benchmarks

docs: $(STAMP)
	$(BIN)/python -m mcp_agent.reference
	$(BIN)/python -m tests.repository.response_costs

lint: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/mypy

$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

# Programs that the tests run beside ours. Installed only where they are missing, and only where that is possible.
system:
	@for program in $(PROGRAMS); do \
	  command -v $$program >/dev/null || { apt-get update -qq && apt-get install -qq -y $$program; } || exit 1; \
	done

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache
