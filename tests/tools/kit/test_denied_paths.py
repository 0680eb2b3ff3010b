"""Path rules of the owner: every filesystem tool is bound by them, whatever way a path is written or linked."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any, Literal

import pytest
from msgspec.structs import replace

from tests.support.bench import Bench
from tools.files.paths import OpenPaths
from tools.kit.rules import PathRules, Rule
from tools.search.engine import Engine, find_engine

_REASON = "secrets stay out of chats"


def _rule(*patterns: str, rule_id: str = "secrets") -> Rule:
    return Rule(rule_id, patterns, _REASON, "tools.json, profile default, at /profiles/0/deny/paths/0")


def _deny(bench: Bench, *rules: Rule) -> Bench:
    assert isinstance(bench.ctx.paths, OpenPaths)
    bench.ctx = replace(bench.ctx, paths=bench.ctx.paths.denying(PathRules(rules)))
    return bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    bench = Bench(tmp_path)
    bench.file("app/.env", "KEY=needle\n")
    bench.file("app/.env.example", "KEY=needle\n")
    bench.file("app/main.py", "needle\n")
    bench.file("vault/deep/key", "needle\n")
    return _deny(bench, _rule(".env*", "!.env.example"), _rule(f"{bench.folder}/vault", rule_id="vault"))


_READING = [
    ("fs_read", {"path": "{}"}),
    ("fs_read_range", {"path": "{}", "start_line": 1, "end_line": 1}),
    ("fs_grep", {"base": "{}", "pattern": "needle"}),
]
_WRITING = [
    ("fs_write", {"path": "{}", "content": "x"}),
    ("fs_write", {"path": "{}", "content": "x", "mode": "append"}),
    ("fs_write", {"path": "{}", "content": "x", "mode": "create_if_missing"}),
    ("fs_patch", {"path": "{}", "operations": [{"type": "replace_first", "pattern": "KEY", "replacement": "y"}]}),
]
_NAMING = [
    ("fs_delete", {"path": "{}"}),
    ("fs_move", {"from_": "{}", "to": "elsewhere"}),
    ("fs_move", {"from_": "app/main.py", "to": "{}", "overwrite": True}),
]


def _with(arguments: dict[str, Any], path: str) -> dict[str, Any]:
    return {key: path if value == "{}" else value for key, value in arguments.items()}


def _state(bench: Bench) -> dict[str, str]:
    return {str(path): path.read_text() for path in bench.folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(("tool", "arguments"), [*_READING, *_WRITING, *_NAMING])
@pytest.mark.parametrize(
    "way", ["app/.env", "app/../app/./.env", "{folder}/app/.env", "folder-link/.env", "vault/deep/key", "vault"]
)
def test_no_tool_touches_a_denied_path(bench: Bench, tool: str, arguments: dict[str, Any], way: str) -> None:
    (bench.folder / "folder-link").symlink_to("app")
    before = _state(bench)
    error = bench.error(tool, **_with(arguments, way.format(folder=bench.folder)))
    assert error.code == "DENIED"
    assert error.rule == ("vault" if "vault" in way else "secrets")
    assert _state(bench) == before


@pytest.mark.parametrize(("tool", "arguments"), [*_READING, *_WRITING])
def test_a_link_to_a_denied_file_is_no_way_around(bench: Bench, tool: str, arguments: dict[str, Any]) -> None:
    (bench.folder / "harmless").symlink_to("app/.env")
    before = _state(bench)
    assert bench.error(tool, **_with(arguments, "harmless")).code == "DENIED"
    assert _state(bench) == before


def test_a_refusal_says_the_rule_the_match_the_reason_and_where_to_change_it(bench: Bench) -> None:
    assert bench.error("fs_read", path="app/.env").as_object() == {
        "error": {
            "code": "DENIED",
            "message": f"{bench.folder}/app/.env is denied by the rule secrets: {_REASON}",
            "hint": "the rule matches '.env*'; its owner can change it in tools.json, profile default, at "
            "/profiles/0/deny/paths/0. Do the work without it, or ask them.",
            "rule": "secrets",
        }
    }


@pytest.mark.parametrize("engine", ["rg", "grep"])
def test_searches_leave_out_what_is_denied(bench: Bench, engine: str) -> None:
    if engine == "grep":
        bench.ctx = replace(bench.ctx, engine=Engine("grep", shutil.which("grep") or "grep", "fallback"))
    found = [match["path"] for match in bench.call("fs_grep", base=".", pattern="needle", context=1)["matches"]]
    assert found == [str(bench.folder / "app/.env.example"), str(bench.folder / "app/main.py")]
    named = [match["path"] for match in bench.call("fs_search", base=".", glob="**")["matches"]]
    assert named == [str(bench.folder / name) for name in ("app", "app/.env.example", "app/main.py")]


def test_the_count_of_a_cut_search_is_of_what_may_be_seen(bench: Bench) -> None:
    for number in range(20):
        bench.file(f"many/{number}/.env", "needle\n")
    found = bench.call("fs_grep", base=".", pattern="needle", max_matches=1)
    assert ([match["path"] for match in found["matches"]], found["truncated"]) == (
        [str(bench.folder / "app/.env.example")],
        True,
    )


def test_a_listing_marks_what_is_denied_and_does_not_enter_it(bench: Bench) -> None:
    (bench.folder / "app" / "a-link").symlink_to(".env")
    entries = bench.call("fs_list", path=".", recursive=True)["entries"]
    shown = {entry["path"].removeprefix(f"{bench.folder}/"): entry.get("error") for entry in entries}
    assert shown == {
        "app": None,
        "app/.env": f"denied by the rule secrets: {_REASON}",
        "app/.env.example": None,
        "app/a-link": f"{bench.folder}/app/.env is denied by the rule secrets: {_REASON}",
        "app/main.py": None,
        "vault": f"denied by the rule vault: {_REASON}",
    }
    assert [entry for entry in entries if "error" in entry and "size" in entry] == []


@pytest.mark.parametrize(
    ("above", "reason"), [("app", "which is in"), (".", "is the working folder of the daemon itself")]
)
def test_a_folder_with_something_denied_in_it_is_neither_deleted_nor_moved(
    bench: Bench, above: str, reason: str
) -> None:
    before = _state(bench)
    error = bench.error("fs_delete", path=str(bench.folder / above), recursive=True)
    assert error.code == "DENIED"
    assert reason in error.message
    assert bench.error("fs_move", from_=str(bench.folder / above), to=f"{bench.folder}-elsewhere").code == "DENIED"
    assert _state(bench) == before


def test_a_link_to_such_a_folder_can_go(bench: Bench) -> None:
    (bench.folder / "link").symlink_to("vault")
    bench.call("fs_move", from_="link", to="other-link")
    bench.call("fs_delete", path="other-link")


def test_a_folder_is_not_moved_to_where_its_files_would_be_denied(bench: Bench) -> None:
    bench.file("notes/private/diary", "x")
    _deny(bench, _rule("journal/private"))
    assert bench.error("fs_move", from_="notes", to="journal").code == "DENIED"
    bench.call("fs_move", from_="notes", to="papers")


@pytest.mark.parametrize("kind", ["rg", "grep"])
def test_a_link_that_is_turned_as_a_search_begins_leads_nowhere(tmp_path: Path, kind: Literal["rg", "grep"]) -> None:
    """Seen: the engine opened the file by its name, after the name had been looked at."""
    really = find_engine().program if kind == "rg" else shutil.which("grep")
    slow = tmp_path / "slow"
    slow.write_text(f'#!/bin/sh\nln -sfn "{tmp_path}/work/.env" "{tmp_path}/work/link"\nexec "{really}" "$@"\n')
    slow.chmod(0o755)
    bench = Bench(tmp_path, engine=Engine(kind, str(slow), "PATH"))
    bench.file(".env", "KEY=needle\n")
    bench.file("notes", "my needle\n")
    (bench.folder / "link").symlink_to("notes")
    _deny(bench, _rule(".env"))
    matches = bench.call("fs_grep", base="link", pattern="needle")["matches"]
    assert [match["text"] for match in matches] == ["my needle"]
    assert bench.error("fs_grep", base="link", pattern="needle").code == "DENIED"


def test_a_deleted_link_does_not_lead_to_a_denied_file(bench: Bench) -> None:
    """Seen: the link in the journal was followed, and no rule was asked about its target."""
    (bench.folder / "link").symlink_to(bench.file("app/.env", "KEY=needle\n"))
    _deny(bench, _rule(".env"))
    deleted = bench.call("fs_delete", path="link")["undo_id"]
    calls: list[tuple[str, dict[str, object]]] = [
        ("fs_read", {"path": f"undo://{deleted}"}),
        ("fs_read_range", {"path": f"undo://{deleted}", "start_line": 1, "end_line": 1}),
        ("fs_grep", {"base": f"undo://{deleted}", "pattern": "needle"}),
    ]
    for tool, arguments in calls:
        error = bench.error(tool, **arguments)
        assert error.code == "NOT_FOUND"
        assert error.message.endswith("/app/.env, and it is not followed")
    bench.undo(deleted, "link")
    assert (bench.folder / "link").is_symlink()


def test_old_states_of_a_denied_file_are_denied(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.file("app/.env", "KEY=needle\n")
    bench.file("app/readme", "needle\n")
    changed = bench.call("fs_write", path="app/.env", content="new")["undo_id"]
    deleted = bench.call("fs_delete", path="app", recursive=True)["undo_id"]
    _deny(bench, _rule(".env"))
    for reference in (f"undo://{changed}", f"undo://{deleted}/.env", f"undo://{deleted}/x/../.env"):
        assert bench.error("fs_read", path=reference).code == "DENIED"
        assert bench.error("fs_grep", base=reference, pattern="needle").code == "DENIED"
    (match,) = bench.call("fs_grep", base=f"undo://{deleted}", pattern="needle|new")["matches"]
    assert match["path"] == f"undo://{deleted}/readme"
    assert bench.call("fs_read", path=f"undo://{deleted}/readme")["content"] == "needle\n"
    for to in ("app", "app/.env", "copy"):
        assert bench.error("fs_move", from_=f"undo://{deleted}", to=to).code == "DENIED"
        assert bench.error("fs_move", from_=f"undo://{changed}", to=to, overwrite=True).code == "DENIED"
    assert not (bench.folder / "copy").exists()


def test_a_move_that_would_bring_a_file_to_a_denied_place_is_not_taken_back(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.file("secret/a", "x")
    moved = bench.call("fs_move", from_="secret/a", to="open")["undo_id"]
    _deny(bench, _rule("secret/"))
    assert bench.error("fs_move", from_=f"undo://{moved}", to="open").code == "DENIED"
    assert (bench.folder / "open").read_text() == "x"


def test_a_move_into_the_daemons_own_files_through_a_link_is_refused(bench: Bench) -> None:
    """It was not: only the folder of the target was looked at once its links were followed."""
    bench.state.mkdir(exist_ok=True)
    (bench.state / "token").write_text("mine")
    (bench.folder / "state-link").symlink_to(bench.state)
    assert bench.error("fs_move", from_="app/main.py", to="state-link/token", overwrite=True).code == "DENIED"
    assert (bench.state / "token").read_text() == "mine"


@pytest.mark.parametrize(
    ("pattern", "denied", "open_"),
    [
        (".env", ["/a/.env", "/.env", "/a/.env/b"], ["/a/.environment", "/a/x.env"]),
        ("*.pem", ["/k.pem", "/a/b/k.pem"], ["/a/pem", "/a/k.pem.txt"]),
        ("secrets/*.json", ["/a/secrets/x.json", "/secrets/x.json"], ["/a/secrets/b/x.json", "/secrets"]),
        ("secrets/", ["/a/secrets", "/a/secrets/x"], ["/a/secretsx"]),
        ("/etc/shadow", ["/etc/shadow"], ["/a/etc/shadow", "/etc/shadow-", "/etc"]),
        ("/srv/**/private", ["/srv/private", "/srv/a/b/private/x"], ["/private"]),
        ("~/.ssh", ["{home}/.ssh", "{home}/.ssh/id"], ["/other/.ssh", "{home}/.sshx"]),
        ("[.]env", ["/a/.env"], ["/a/xenv"]),
        (".env", ["/line\nbreak/.env", "/\udcff/.env"], []),
        ("#notes", ["/a/#notes"], ["/a/notes"]),
    ],
)
def test_a_glob_means_what_it_means_in_gitignore(pattern: str, denied: list[str], open_: list[str]) -> None:
    rules = PathRules((_rule(pattern),))
    home = Path.home()
    assert [path for path in denied if rules.match(path.format(home=home)) is None] == []
    assert [path for path in open_ if rules.match(path.format(home=home)) is not None] == []


def test_a_place_behind_a_link_is_denied_by_both_its_names(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "keys").symlink_to("real")
    rules = PathRules((_rule(f"{tmp_path}/keys/*.pem"),))
    for name in ("keys", "real"):
        assert rules.match(f"{tmp_path}/{name}/a.pem") is not None


def test_a_home_with_signs_of_globs_in_its_name_is_that_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "ho[m]e*"))
    rules = PathRules((_rule("~/.ssh"),))
    assert rules.match(f"{tmp_path}/ho[m]e*/.ssh/id") is not None
    assert rules.match(f"{tmp_path}/home/.ssh/id") is None


@pytest.mark.parametrize("pattern", ["*a" * 30 + "b", "**/" * 30 + "x/**/b", "a*?" * 100 + "/b"])
def test_a_glob_with_many_stars_decides_at_once(pattern: str) -> None:
    rules = PathRules((_rule(pattern),))
    began = time.process_time()
    assert rules.match("/" + "a" * 250 + "c" + "/a/x" * 900) is None
    assert time.process_time() - began < 0.1


def test_a_file_that_is_exchanged_for_a_link_while_it_is_opened_is_not_shown(bench: Bench) -> None:
    """The name is good when it is looked at; what is open decides."""
    target = bench.file("plain", "fine")
    checked = bench.ctx.paths.resolve("plain")
    target.unlink()
    target.symlink_to("app/.env")
    from tools.files.sources import Source, open_source
    from tools.kit.errors import Denied

    with pytest.raises(Denied), open_source(bench.ctx.paths, Source(checked, "plain", checked)):
        pytest.fail("it was opened")
