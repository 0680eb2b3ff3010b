# Everything runs inside .venv, which is made on first use from pyproject.toml.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
PROGRAMS := curl jq

# Two workers for each processor: many tests wait for a process or a deadline. Tests of one file share a daemon.
WORKERS ?= $(shell echo $$(( 2 * $$(nproc) )))
PARALLEL := -n $(WORKERS) --dist loadfile -m 'not alone'
ALONE := -m alone

# What `make score`, `make fit` and `make tasks` work on; tests/pruning_quality/README.md explains them.
TASKS ?=
REPO ?= .
LIMIT ?= 500

.PHONY: serve test test-long check tests bench score fit tasks lint docs system programs clean

serve: $(STAMP)
	$(BIN)/mcp-agent serve

# The checks of the code need one processor for half a minute, so they run beside the tests.
test: $(STAMP) system programs
	@$(MAKE) --no-print-directory -j2 check tests

test-long: $(STAMP) system programs
	@MCP_AGENT_TEST_LONG=1 $(MAKE) --no-print-directory tests

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/python -m mcp_agent.reference --check
	$(BIN)/mypy

tests: $(STAMP)
	$(BIN)/pytest $(PARALLEL)
	$(BIN)/pytest $(ALONE)

bench: $(STAMP)
	$(BIN)/python -m tests.benchmarks

# The quality of pruning on task files: `make score TASKS=path [WEIGHTS=path]`.
score: $(STAMP)
	@test -n "$(TASKS)" || { echo "TASKS=path is missing: the task files to score"; exit 2; }
	$(BIN)/python -m tests.pruning_quality score $(TASKS) $(if $(WEIGHTS),--weights $(WEIGHTS))

# The weights of the pruning engine again from task files: `make fit TASKS=path [OUT=path]`.
fit: $(STAMP)
	@test -n "$(TASKS)" || { echo "TASKS=path is missing: the task files to fit on"; exit 2; }
	$(BIN)/python -m tests.pruning_quality fit $(TASKS) $(if $(OUT),--out $(OUT))

# Task files from the history of a git repository: `make tasks REPO=path OUT=path [LIMIT=500]`.
tasks: $(STAMP)
	@test -n "$(OUT)" || { echo "OUT=path is missing: the task file to write"; exit 2; }
	$(BIN)/python -m tests.pruning_quality mine $(REPO) $(OUT) --limit $(LIMIT)

docs: $(STAMP)
	$(BIN)/python -m mcp_agent.reference
	$(BIN)/python -m tests.repository.response_costs

lint: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/mypy

$(STAMP): pyproject.toml
	@test -x $(BIN)/python || { echo "==> Making .venv with $$($(PYTHON) --version)"; $(PYTHON) -m venv .venv; }
	@echo "==> Installing what pyproject.toml names into .venv (a minute or two)"
	@$(BIN)/python -m pip install --progress-bar off --disable-pip-version-check --editable '.[dev]'
	@touch $@

# Programs of the system that the tests run. Installed only where they are missing, and only where that is possible.
system:
	@for program in $(PROGRAMS); do \
	  command -v $$program >/dev/null && continue; \
	  echo "==> Installing $$program"; \
	  { apt-get update -qq && apt-get install -qq -y $$program; } || exit 1; \
	done

# Clients and test suites of others, each installed once into the user's cache folder.
programs: $(STAMP)
	@echo "==> Looking for the clients and suites that the tests run; what is missing is installed"
	@$(BIN)/python -m tests.support.programs

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache
