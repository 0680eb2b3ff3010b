# Everything runs inside .venv, which is made on first use from pyproject.toml: for `make serve` with what the daemon
# needs, for everything else with the tools of `make test` too.
PYTHON ?= python3
BIN := .venv/bin
DAEMON := .venv/.installed
STAMP := .venv/.installed-dev
# An ssh server would listen on a person's machine from then on, so only a machine for tests gets one.
PROGRAMS := curl jq chromium $(if $(CI),/usr/sbin/sshd)

# Two workers for each processor: many tests wait for a process or a deadline. Tests of one file share a daemon.
WORKERS ?= $(shell echo $$(( 2 * $$(nproc) )))
PARALLEL := -n $(WORKERS) --dist loadfile -m 'not alone'
ALONE := -m alone

# What `make score`, `make fit` and `make tasks` work on; tests/pruning_quality/README.md explains them.
TASKS ?=
REPO ?= .
# What `make replay` asks again: tests/replay/README.md has the form.
DATA ?=
TREE ?=
LIMIT ?= 500

.PHONY: serve dev screenshots test test-fast test-long test-openwebui test-clients check tests bench replay score fit tasks lint docs system programs clean

# The terminal of the Tools page is fetched once, when the daemon is there; without it the page shows text.
serve: $(DAEMON)
	@$(BIN)/python -m mcp_agent.page.terminal_component --after-start 2>/dev/null & $(BIN)/mcp-agent serve

# The daemon, started again at every change of the source.
dev: $(DAEMON)
	@$(BIN)/watchfiles --filter python '$(BIN)/mcp-agent serve' mcp_agent registry tools

# The checks of the code need one processor for half a minute, so they run beside the tests.
test: $(STAMP) system programs
	@$(MAKE) --no-print-directory -j2 check tests

# What can be said in a minute, without a daemon, a pruner, a browser, NATS or a program from npm. Each worker reads every
# file of tests, so there are fewer workers, and the rooms in which everything starts something are left out as a whole.
test-fast: $(STAMP)
	@$(BIN)/pytest -n $$(( $$(nproc) + 1 )) --dist loadfile -m 'not alone and not starts and not slow' \
	  $(patsubst %,--ignore tests/%,clients conformance fleet page programs)

test-long: $(STAMP) system programs
	@MCP_AGENT_TEST_LONG=1 $(MAKE) --no-print-directory tests

# The real coding clients against the daemon, with a scripted model; `RECORD=1` writes their exchanges for `make test` anew.
test-clients: $(STAMP)
	@echo "==> Looking for the coding clients; what is missing is installed (2 GB)"
	@$(BIN)/python -m tests.support.programs clients
	@MCP_AGENT_TEST_CLIENTS=1 MCP_AGENT_TEST_RECORD=$(RECORD) $(BIN)/pytest tests/clients/real

# The real Open WebUI in a real browser. It is several gigabytes, installed once into the user's cache folder.
test-openwebui: $(STAMP) system
	@echo "==> Looking for Open WebUI; where it is missing it is installed, which takes some minutes (several GB)"
	@$(BIN)/python -c 'from tests.support import programs; programs.open_webui()'
	MCP_AGENT_TEST_OPEN_WEBUI=1 $(BIN)/pytest tests/clients/test_open_webui.py tests/clients/test_open_webui_oauth.py tests/clients/test_open_webui_approvals.py

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/python -m tests.page.check_scripts
	$(BIN)/python -m mcp_agent.cli.reference --check
	$(BIN)/mypy

tests: $(STAMP)
	$(BIN)/pytest $(PARALLEL)
	$(BIN)/pytest $(ALONE)

bench: $(STAMP)
	$(BIN)/python -m tests.benchmarks

# What recorded agents asked, asked again of this daemon and of two others: `make replay DATA=path [TREE=checkout]`.
replay: $(STAMP)
	@test -n "$(DATA)" || { echo "DATA=path is missing: the folder of the records"; exit 2; }
	@$(BIN)/python -m tests.replay $(DATA) $(if $(TREE),--tree $(TREE))

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

# The pictures of the documentation, from what real commands and the real page show; every view of the page, in build/.
screenshots: $(STAMP) system
	$(BIN)/python -m tests.screenshots
	$(BIN)/python -m tests.page.screenshots --docs --out docs/images
	$(BIN)/python -m tests.page.screenshots

docs: $(STAMP)
	$(BIN)/python -m mcp_agent.cli.reference
	$(BIN)/python -m tests.repository.response_costs

lint: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/python -m tests.page.check_scripts --write
	$(BIN)/mypy

$(DAEMON): pyproject.toml
	@$(make-venv)
	@echo "==> Installing what the daemon needs into .venv (34 MB to download, once)"
	@$(call install,.)
	@touch $@
	@echo "==> Done; the next start takes a second"

$(STAMP): pyproject.toml
	@$(make-venv)
	@echo "==> Installing what the daemon and its tests need into .venv (a minute or two, once)"
	@$(call install,.[dev])
	@touch $(DAEMON) $@

# Makes .venv, and says what to do where that is not possible. One that was interrupted has no pip and is made again.
define make-venv
$(BIN)/python -c 'import pip' 2>/dev/null && exit 0; \
$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
  { echo "mcp-agent needs Python 3.11 or later, and $(PYTHON) is not that; name another: make PYTHON=python3.12"; exit 1; }; \
$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
  { echo "$(PYTHON) cannot make environments; on Debian and Ubuntu: apt install python3-venv"; exit 1; }; \
echo "==> Making .venv with $$($(PYTHON) --version)"; \
$(PYTHON) -m venv --clear .venv
endef

# Installs $(1) in place and prints a line for each package. Python compiles what it imports, when it does: most of what is
# installed is never imported. A pipe hides the exit code of pip, so a file keeps it.
define install
rm -f .venv/.failed; \
{ $(BIN)/python -m pip install --no-compile --progress-bar off --disable-pip-version-check --editable '$(1)' || touch .venv/.failed; } | \
  sed -un -e 's/^ *Downloading \(.*\)-\([0-9][^-]*\)-[^ ]*\.whl[^ ]* \((.*)\).*/    \1 \2 \3/p' \
    -e 's/^Installing collected packages.*/    unpacking/p'; \
test ! -e .venv/.failed || { echo "pip could not install it: the lines above say why"; exit 1; }
endef

# Programs of the system that the tests run. Installed only where they are missing, and only where that is possible.
system:
	@for program in $(PROGRAMS); do \
	  command -v $$program >/dev/null && continue; \
	  case $$program in \
	    chromium) package=chromium; why="the tests of the Tools page drive it";; \
	    */sshd) package=openssh-server; why="a test connects a laptop through it";; \
	    *) package=$$program; why="commands of the docs use it";; \
	  esac; \
	  echo "==> Installing $$package with apt-get: $$why"; \
	  { apt-get update -qq && apt-get install -qq -y $$package; } || \
	    { echo "apt-get could not install $$package; install it yourself, or run: make test-fast"; exit 1; }; \
	done

# Clients and test suites of others, each installed once into the user's cache folder.
programs: $(STAMP)
	@echo "==> Looking for the clients and suites that the tests run; what is missing is installed"
	@$(BIN)/python -m tests.support.programs

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache
