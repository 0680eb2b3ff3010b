"""Where `read`, `bash` and `grep` may go: everywhere in the daemon, unless its owner sets a root for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from registry.catalog import discover
from registry.gate import Access, Gate
from registry.profiles import BadRegistry
from registry.tools_json import read
from tests.support.shell_host import ShellHost, shell_host

CALLS: list[tuple[str, dict[str, Any]]] = [
    ("read", {"file_path": "{}/note.txt"}),
    ("grep", {"pattern": "needle", "path": "{}/note.txt"}),
    ("grep", {"pattern": "needle", "paths": ["{}"]}),
    ("bash", {"command": "cat note.txt", "cwd": "{}"}),
]


def _at(folder: object, arguments: dict[str, Any]) -> dict[str, Any]:
    def placed(value: Any) -> Any:
        return [placed(each) for each in value] if isinstance(value, list) else str(value).format(folder)

    return {name: placed(value) for name, value in arguments.items()}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for folder in ("project", "daemon"):
        (tmp_path / folder).mkdir()
    (tmp_path / "project" / "note.txt").write_text("a needle\n")
    return tmp_path / "project"


def _confine(host: ShellHost, root: object) -> None:
    document = {"version": 1, "profiles": [{"id": "default", "pruning": {"root": str(root)}}]}
    host.daemon.gate.swap(read(document, host.daemon.gate.catalog))


async def test_a_project_outside_the_daemon_s_folder_is_read(project: Path) -> None:
    async with shell_host(project.parent / "daemon") as host:
        for tool, arguments in CALLS:
            for place in (project, "../project", "../../../../../../../../.." + str(project)):
                result = await host.call(tool, wire="http", **_at(place, arguments))
                assert "a needle" in str(result), result
        assert (await host.call("bash", command="pwd -P"))["stdout"] == f"{host.folder.resolve()}\n"


async def test_the_home_folder_has_its_short_name(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(project))
    async with shell_host(project.parent / "daemon") as host:
        for tool, arguments in CALLS:
            assert "a needle" in str(await host.call(tool, **_at("~", arguments)))


async def test_a_profile_sets_a_root_that_nothing_leaves(project: Path) -> None:
    (project / "away").symlink_to(project.parent / "daemon")
    async with shell_host(project.parent / "daemon") as host:
        _confine(host, project)
        for tool, arguments in CALLS:
            assert "a needle" in str(await host.call(tool, wire="http", **_at(project, arguments)))
            assert "a needle" in str(await host.call(tool, wire="http", **_at(".", arguments)))
            outside = await host.call(tool, wire="http", **_at(host.folder, arguments))
            assert outside["error"]["code"] == "INVALID_PARAMS"
            assert f"is outside the root ({project}); " in outside["error"]["message"]
            assert "must be a path inside that folder" in outside["error"]["message"]
            linked = await host.call(tool, wire="http", **_at("away", arguments))
            assert linked["error"]["code"] in ("invalid_path", "invalid_cwd")
        _confine(host, project.parent)
        near = await host.call("bash", command="pwd -P")
        assert near["stdout"] == f"{host.folder.resolve()}\n", "the working directory, where that is inside the root"


async def test_the_setting_confines_where_the_profile_says_nothing(project: Path) -> None:
    async with shell_host(project.parent / "daemon", pruner_cwd=str(project)) as host:
        assert (await host.call("read", wire="http", file_path="note.txt"))["content"] == "a needle\n"
        refused = await host.call("read", wire="http", file_path="../daemon/x")
        assert refused["error"]["code"] == "INVALID_PARAMS"


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("read", {}, "file_path is missing"),
        ("read", {"file_path": "x", "encoding": "latin-1"}, "encoding can only be 'utf-8'"),
        ("bash", {"command": "x", "timeout_ms": 1}, "timeout_ms is 1 and must be at least 100"),
        ("grep", {"pattern": "x", "path": ".", "paths": ["."]}, "path and paths exclude each other: pass one of them"),
        ("prune_text", {"text": 1}, "text must be a string, not 1"),
        ("recover_text", {}, "prune_id is missing"),
    ],
)
async def test_bad_arguments_are_a_result_on_mcp_and_an_error_of_json_rpc_on_rpc(
    tmp_path: Path, tool: str, arguments: dict[str, Any], message: str
) -> None:
    async with shell_host(tmp_path) as host:
        for wire in ("http", "sse", "stdio", "tools"):
            error = (await host.call(tool, wire=wire, **arguments))["error"]
            assert (error["code"], message in error["message"]) == ("INVALID_PARAMS", True)
            assert all(set(issue) == {"path", "code", "message"} for issue in error["issues"])
        with pytest.raises(AssertionError, match="Invalid params"):
            await host.call(tool, wire="rpc", **arguments)


def test_the_profile_in_a_url_narrows_the_root_and_never_widens_it() -> None:
    catalog = discover()
    roots = {"own": "/srv", "inner": "/srv/demo", "beside": "/etc", "open": None}
    profiles = [{"id": name, "pruning": {} if root is None else {"root": root}} for name, root in roots.items()]
    gate = Gate(catalog, read({"version": 1, "profiles": profiles}, catalog))

    def root(profile: str, narrowed_to: str | None = None) -> str:
        return str(gate.admit(Access(profile, narrowed_to), "read")[1].root)

    assert [root("open"), root("own"), root("open", "own")] == ["None", "/srv", "/srv"]
    assert [root("own", name) for name in ("inner", "beside", "open")] == ["/srv/demo", "/srv", "/srv"]


@pytest.mark.parametrize("root", ["work", "", 7, True])
def test_a_root_is_an_absolute_path(root: object) -> None:
    with pytest.raises(BadRegistry) as refused:
        read({"version": 1, "profiles": [{"id": "default", "pruning": {"root": root}}]}, discover())
    assert [problem.pointer for problem in refused.value.problems] == ["/profiles/0/pruning/root"]
