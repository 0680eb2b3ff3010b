"""What a coding client does with a small project, in steps, and how many tokens each result may cost its model.

The bounds are those of the tools that coding clients bring themselves, and of another server, measured on this project.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from rs_bpe.bpe import openai

_MODULE = '''"""{title} of the shop."""

from shop.rates import TAX


class {name}:
    """What one customer wants, and what it costs."""

    def __init__(self, items: list[float]) -> None:
        self.items = items

    def net(self) -> float:
        """Before tax."""
        return sum(self.items)

    def total(self) -> float:
        """With tax."""
        return self.net() * (1 + TAX)
'''
_NAMES = ("Orders", "Baskets", "Returns", "Offers", "Invoices", "Parcels", "Refunds")
_TESTS = 'for n in $(seq 10 19); do echo "tests/test_orders.py::test_total_of_order_$n PASSED [ $((n * 5))%]"; done; '
_FAILS = "echo 'tests/test_orders.py::test_tax FAILED [100%]'; echo 'E   assert 11.9 == 11.8'; exit 1"
_SERVER = 'echo listening; sleep 1; for n in 1 2 3 4; do echo "GET /orders/$n 200"; done; exec sleep 300'


class ClientStep(NamedTuple):
    name: str
    tool: str
    arguments: dict[str, Any]
    most_tokens: int


MOST_IN_ALL = 1_400


def make_project(folder: Path) -> None:
    for path, text in {
        "README.md": "# Shop\n",
        "pyproject.toml": '[project]\nname = "shop"\n',
        "shop/__init__.py": "",
        "shop/orders.py": "\n\n".join(_MODULE.format(title=name, name=name) for name in _NAMES),
        "shop/rates.py": "TAX = 0.19\n",
        "tests/test_orders.py": "def test_tax() -> None: ...\n",
        "Makefile": "test:\n\tpytest\n",
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


def steps(folder: Path) -> list[ClientStep]:
    """Those before a session is there."""
    orders = str(folder / "shop/orders.py")
    change = {"type": "replace_first", "pattern": "TAX = 0.19", "replacement": "TAX = 0.2"}
    return [
        ClientStep("list", "fs_list", {"path": str(folder)}, 70),
        ClientStep("read", "fs_read", {"path": orders}, 740),
        ClientStep("patch", "fs_patch", {"path": str(folder / "shop/rates.py"), "operations": [change]}, 45),
        ClientStep("test", "shell_exec", {"command": _TESTS + _FAILS}, 232),
        ClientStep("start", "shell_start_session", {"command": _SERVER}, 60),
        ClientStep("other", "shell_exec", {"command": "echo ok"}, 22),
    ]


def steps_of_session(session_id: str) -> list[ClientStep]:
    ask = {"session_id": session_id, "input": "", "until": "orders/4"}
    return [
        ClientStep("watch", "shell_send_input", ask, 70),
        ClientStep("stop", "shell_stop_session", {"session_id": session_id}, 15),
    ]


def tokens(text: str) -> int:
    return len(openai.o200k_base().encode(text))


def report(costs: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in costs.items()) + f"; in all {sum(costs.values())}"
