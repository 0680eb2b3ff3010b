"""The rules of the example in a running daemon: on every wire, for every caller, as soon as they are saved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT
from tests.support.daemon import Daemon, running
from tests.support.peers import Connect
from tests.support.waiting import eventually

_EXAMPLE = ROOT / "examples" / "guarded.json"
_FREE = {"profiles": [{"id": "default"}]}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with the example as its tools.json, and a secret."""
    folder = tmp_path / "home"
    (folder / ".ssh").mkdir(parents=True)
    (folder / ".ssh" / "config").write_text("needle\n")
    (folder / ".env").write_text("needle\n")
    (folder / "tools.json").write_text(_EXAMPLE.read_text())
    return folder


async def test_the_example_holds_on_every_wire(daemon: Daemon, connect: Connect) -> None:
    async with connect(daemon) as peer:
        for path, rule in ((".env", "env-files"), (".ssh/config", "credentials"), ("/etc/shadow", "system")):
            answer = await peer.call("fs_read", path=path)
            assert answer.is_error
            assert answer.object["error"]["rule"] == rule
        refused = await peer.call("shell_exec", command="git push --force")
        assert refused.object["error"] == {
            "code": "DENIED",
            "message": "the command is denied by the rule force-push: it overwrites what others have pushed; "
            "ask, or use --force-with-lease",
            "hint": "the rule matches 'git push --force'; its owner can change it in "
            f"{daemon.tools_json}, profile guarded, at /profiles/0/deny/commands/1. "
            "Do the work without it, or ask them.",
            "rule": "force-push",
        }
        assert not (await peer.call("shell_exec", command="git --version")).is_error


async def test_no_search_tells_that_something_denied_was_left_out(daemon: Daemon) -> None:
    (daemon.home / ".gitignore").write_text(".env\nopen\n")
    searches = (
        ("fs_grep", {"base": ".", "pattern": "needle"}),
        ("fs_search", {"base": ".", "glob": "{.env,open}"}),
        ("grep", {"path": ".", "pattern": "needle"}),
    )
    (daemon.home / ".git").mkdir()

    async def is_skipped(tool: str, arguments: dict[str, str]) -> bool:
        answer = await daemon.rpc("tools/call", name=tool, arguments=arguments)
        found = answer["result"]
        return bool(found.get("structuredContent", found).get("ignored_skipped"))

    assert not any([await is_skipped(*each) for each in searches])
    (daemon.home / "open").write_text("needle\n")
    assert all([await is_skipped(*each) for each in searches])


async def test_a_change_of_the_rules_is_obeyed_by_the_next_call(daemon: Daemon) -> None:
    assert (await _read(daemon, "/rpc"))["rule"] == "env-files"
    daemon.save(_FREE)
    await eventually(lambda: _read(daemon, "/rpc"), lambda answer: "rule" not in answer)
    daemon.save(_EXAMPLE.read_text().replace('"app/.env"', '"app/env"'))
    async with daemon.http() as http:
        health = await eventually(lambda: http.get("/health"), lambda answer: answer.json()["registry"]["problems"])
    assert health.json()["registry"]["problems"] == [
        {
            "pointer": "/profiles/0/deny/paths/0/match/0",
            "message": "'app/env' does not match and should",
            "severity": "error",
        }
    ]
    assert "rule" not in await _read(daemon, "/rpc")


async def test_narrowing_adds_rules_and_never_takes_any_away(daemon: Daemon) -> None:
    document = json.loads(_EXAMPLE.read_text())
    document["activeProfile"] = "default"
    daemon.save(document)
    await eventually(lambda: _read(daemon, "/mcp"), lambda answer: "rule" not in answer)
    assert (await _read(daemon, "/mcp/guarded"))["rule"] == "env-files"
    document["activeProfile"] = "guarded"
    daemon.save(document)
    await eventually(lambda: _read(daemon, "/mcp/default"), lambda answer: "rule" in answer)


async def test_an_old_state_of_a_denied_file_is_no_resource(home: Path) -> None:
    (home / "tools.json").write_text(json.dumps(_FREE))
    with running(home) as daemon:
        await daemon.rpc("tools/call", name="fs_write", arguments={"path": ".env", "content": "new"})
        (change,) = [each for each in await _resources(daemon) if each["uri"].startswith("undo://")]
        read = await daemon.rpc("resources/read", uri=change["uri"])
        assert read["result"]["contents"][0]["text"] == "needle\n"
        daemon.save(_EXAMPLE.read_text())
        await eventually(lambda: daemon.rpc("resources/read", uri=change["uri"]), lambda answer: "result" not in answer)
        assert not [each for each in await _resources(daemon) if each["uri"].startswith("undo://")]


@pytest.mark.parametrize(
    "narrow",
    [
        {"activeProfile": "browser-only"},
        {
            "profiles": [
                {
                    "id": "default",
                    "categories": [
                        {
                            "id": "filesystem",
                            "tools": [{"id": "fs_read", "enabled": False}, {"id": "fs_grep", "enabled": False}],
                        }
                    ],
                }
            ]
        },
    ],
    ids=["no tools for files", "neither fs_read nor fs_grep"],
)
async def test_old_states_are_no_resources_to_who_may_not_read_files(home: Path, narrow: dict[str, Any]) -> None:
    """Seen: a client of the profile `browser-only` was shown what others had changed, and could read it."""
    (home / "tools.json").write_text(json.dumps(_FREE))
    with running(home) as daemon:
        await daemon.rpc("tools/call", name="fs_write", arguments={"path": ".env", "content": "new"})
        (change,) = [each for each in await _resources(daemon) if each["uri"].startswith("undo://")]
        (template,) = [each for each in await _templates(daemon) if each.startswith("undo://")]
        asked = {"ref": {"type": "ref/resource", "uri": template}, "argument": {"name": "id", "value": ""}}
        assert (await daemon.rpc("completion/complete", **asked))["result"]["completion"]["values"] == [change["name"]]
        daemon.save(narrow)
        await eventually(lambda: daemon.rpc("resources/read", uri=change["uri"]), lambda answer: "result" not in answer)
        assert not [each for each in await _resources(daemon) if each["uri"].startswith("undo://")]
        assert template not in await _templates(daemon)
        assert "error" in await daemon.rpc("completion/complete", **asked)


async def test_the_rules_of_a_profile_are_shown(daemon: Daemon) -> None:
    shown = daemon.cli("profile", "show").stdout
    assert "  denied paths\n    env-files              .env, .env.*, !.env.example" in shown
    assert "  denied commands\n    delete-everything " in shown
    async with daemon.http() as http:
        told = (await http.get("/api/profiles/guarded")).json()["deny"]
    assert told["paths"][3] == {
        "id": "system",
        "patterns": ["/etc/shadow*", "/etc/sudoers", "/etc/sudoers.d"],
        "reason": "accounts of this machine",
    }


async def _read(daemon: Daemon, path: str) -> dict[str, Any]:
    """The result of reading the secret over `path`, or its error."""
    params = {"name": "fs_read", "arguments": {"path": str(daemon.home / ".env")}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    async with daemon.http(Accept="application/json, text/event-stream") as http:
        told: dict[str, Any] = (await http.post(path, json=message)).json()["result"]["structuredContent"]
    error: dict[str, Any] | None = told.get("error")
    return error or told


async def _templates(daemon: Daemon) -> list[str]:
    listed = await daemon.rpc("resources/templates/list")
    return [each["uriTemplate"] for each in listed["result"]["resourceTemplates"]]


async def _resources(daemon: Daemon) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = (await daemon.rpc("resources/list"))["result"]["resources"]
    return listed
