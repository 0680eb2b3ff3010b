"""What typical results cost a model in each form, in tokens.

`python -m tests.repository.response_costs` writes the table in docs/results.md. Paths, times and ids
differ a little from run to run, and so do the figures; the test holds them to within a tenth.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import orjson
from rs_bpe.bpe import openai

from mcp_agent.answers.fit import Answers, Fitted
from mcp_agent.answers.reply import Compact
from mcp_agent.app import compose_daemon
from mcp_agent.calls.call import Call, Caller, Success
from mcp_agent.config import load
from registry.catalog import discover
from registry.gate import Access
from tests.support import ROOT
from tools.kit.results import Result

PAGE = ROOT / "docs" / "results.md"
_TABLE = re.compile(r"(?<=<!-- costs -->\n).*?(?=<!-- /costs -->)", re.DOTALL)
_MODULE = '''"""Orders of part {number}."""

from shop.rates import TAX


class Order{number}:
    """What one customer wants."""

    def __init__(self, items: list[float]) -> None:
        self.items = items

    def net(self) -> float:
        """Before tax."""
        return sum(self.items)

    def total(self) -> float:
        """With tax."""
        return self.net() * (1 + TAX)
'''
_OPTIONS = {
    "max_prune_ratio": 0.55,
    "min_keep_lines": 20,
    "timeout_ms": 9_000,
    "annotate_lines": False,
    "include_markers": True,
}
_TESTS = (
    'for n in $(seq 150); do echo "tests/test_orders.py::test_total_of_order_$n PASSED [ $((n * 100 / 151))%]"; done; '
    "echo 'tests/test_orders.py::test_tax FAILED [100%]'; echo 'E   assert 11.9 == 11.8'; exit 1"
)


class Cost(NamedTuple):
    """One line of the table."""

    tool: str
    what: str
    json: int
    text: int
    compact: int


def measured() -> list[Cost]:
    """The costs of one typical result of every tool, each made by a real call."""
    with tempfile.TemporaryDirectory(prefix="shop-") as name:
        folder = Path(name)
        (folder / "src").mkdir()
        for number in range(60):
            (folder / "src" / f"order_{number:02}.py").write_text(_MODULE.format(number=number))
        (folder / "src" / "all.py").write_text("\n".join(_MODULE.format(number=number) for number in range(12)))
        return asyncio.run(_measured(folder))


def table(costs: list[Cost]) -> str:
    lines = ["| tool | result | json | text | compact |", "| --- | --- | --- | --- | --- |"]
    lines += [f"| `{each.tool}` | {each.what} | {each.json:,} | {each.text:,} | {each.compact:,} |" for each in costs]
    return "\n".join(lines) + "\n"


def written(text: str) -> list[Cost]:
    """The costs in the table of a page."""
    found = _TABLE.search(text)
    assert found is not None, f"{PAGE.name} has no place for the table"
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in found[0].splitlines()[2:]]
    return [Cost(row[0].strip("`"), row[1], *(int(cell.replace(",", "")) for cell in row[2:])) for row in rows]


async def _measured(folder: Path) -> list[Cost]:
    flags = {"state_dir": str(folder / "state"), "tools_file": str(folder / "tools.json")}
    daemon = compose_daemon(load({"command_undo": False, **flags}, {}), working_directory=folder)
    answers = Answers(daemon.artifacts, daemon.gate.visible)
    tokens = openai.o200k_base()
    catalog = discover()

    async def cost(tool: str, what: str, **arguments: Any) -> tuple[Cost, Result]:
        call = Call("cost", Caller("owner", Access(), "http", "claude-code", connection="a-test"), tool, arguments)
        outcome = await daemon.dispatcher.call(call)
        assert isinstance(outcome, Success), (tool, outcome)
        fitted = answers.fit(outcome.reply, answers.budget(call, catalog.by_name.get(tool), "compact"))
        written = (fitted if isinstance(fitted, Fitted) else fitted()).written
        assert isinstance(written, Compact)
        short, full = written.encoded.decode(), orjson.dumps(outcome.reply.as_object()).decode()
        # The name of a temporary folder costs what its letters make it cost.
        shown = (text.replace(str(folder), "/srv/shop") for text in (full, outcome.reply.render(), short))
        return Cost(tool, what, *map(tokens.count, shown)), outcome.result

    try:
        costs: list[Cost] = []
        long = "src/all.py"
        patch = [{"type": "replace_first", "pattern": "Before tax.", "replacement": "Before any tax."}]
        source = (folder / long).read_text()
        pruned = {
            "text": source,
            "goal_hint": "how is tax added?",
            "source_type": "code",
            "options": _OPTIONS,
        }
        for tool, what, arguments in (
            ("fs_list", "61 files", {"path": "src"}),
            ("fs_search", "60 files", {"base": ".", "glob": "order_*.py"}),
            ("fs_grep", "72 matches in 61 files", {"base": "src", "pattern": "def total"}),
            ("fs_read", "a file of 239 lines", {"path": long}),
            ("fs_read_range", "40 lines", {"path": long, "start_line": 100, "end_line": 139}),
            ("fs_write", "a new file", {"path": "new.py", "content": "TAX = 0.19\n"}),
            ("fs_patch", "one line changed", {"path": "src/order_00.py", "operations": patch}),
            ("fs_move", "a file", {"from": "new.py", "to": "rates.py"}),
            ("fs_delete", "a file", {"path": "rates.py"}),
            ("shell_exec", "a test run of 152 lines", {"command": _TESTS}),
            ("shell_start_session", "a prompt", {"command": "echo ready; exec cat"}),
            ("read", "a file of 239 lines", {"file_path": long}),
            ("bash", "150 lines", {"command": _TESTS.partition("; echo")[0]}),
            ("grep", "72 matches in 61 files", {"pattern": "def total", "path": "src"}),
            ("prune_text", "239 lines of code", pruned),
            ("health", "", {}),
        ):
            line, result = await cost(tool, what, **arguments)
            costs.append(line)
            if tool == "shell_start_session":
                session = {"session_id": result.as_object()["session_id"]}
                for follows, said, more in (
                    ("shell_send_input", "two lines read", {"input": "hello\n", "wait_ms": 5_000, "until": "hello"}),
                    ("shell_stop_session", "its end", {}),
                ):
                    costs.append((await cost(follows, said, **session, **more))[0])
            if tool == "prune_text":
                back = {"prune_id": result.as_object()["prune_id"], "ranges": [{"start_line": 50, "end_line": 89}]}
                costs.append((await cost("recover_text", "40 lines", **back, include_line_numbers=False))[0])
        kept = daemon.artifacts.of("owner").keep("costs", [source.encode()])
        costs.append((await cost("artifact_read", "a text of 239 lines", ref=kept))[0])
        return costs
    finally:
        await daemon.stop(0.5)
        daemon.close()


if __name__ == "__main__":
    PAGE.write_text(_TABLE.sub(lambda _: table(measured()), PAGE.read_text("utf-8")), "utf-8")
