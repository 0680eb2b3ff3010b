"""Patches as text: V4A and unified diffs, one file or several, all of it or nothing, and one id to undo it."""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.bench import Bench
from tools.files.paths import OpenPaths

Files = dict[str, str]
CODE = "class A:\n    def f(self):\n        return 1\n\n    def g(self):\n        return 1\n"


def tree(bench: Bench) -> Files:
    return {
        str(path.relative_to(bench.folder)): path.read_bytes().decode()
        for path in bench.folder.rglob("*")
        if path.is_file()
    }


def fill(bench: Bench, files: Files) -> None:
    for name, text in files.items():
        bench.file(name, text)


def v4a(body: str) -> str:
    return f"*** Begin Patch\n{body}*** End Patch\n"


# What the description of the format has, and what its own parser takes beyond that.
V4A = {
    "add": ({}, "*** Add File: n/new.md\n+This is\n+\n+new\n", {"n/new.md": "This is\n\nnew\n"}),
    "add nothing": ({}, "*** Add File: empty\n", {"empty": ""}),
    "add over a file": ({"a": "old\n"}, "*** Add File: a\n+new\n", {"a": "new\n"}),
    "delete": ({"a": "x\n", "b": "y\n"}, "*** Delete File: a\n", {"b": "y\n"}),
    "several": (
        {"m": "one\ntwo\n", "d": "x"},
        "*** Add File: n\n+n\n*** Delete File: d\n*** Update File: m\n@@\n-two\n+2\n",
        {"n": "n\n", "m": "one\n2\n"},
    ),
    "several hunks": (
        {"m": "1\n2\n3\n4\n"},
        "*** Update File: m\n@@\n-2\n+two\n@@\n-4\n+four\n",
        {"m": "1\ntwo\n3\nfour\n"},
    ),
    "move": ({"a": "x\n"}, "*** Update File: a\n*** Move to: d/b\n", {"d/b": "x\n"}),
    "move and change": ({"a": "x\n"}, "*** Update File: a\n*** Move to: d/b\n@@\n-x\n+y\n", {"d/b": "y\n"}),
    "move onto a file": ({"a": "x\n", "b": "old\n"}, "*** Update File: a\n*** Move to: b\n@@\n-x\n+y\n", {"b": "y\n"}),
    "no @@ before the first hunk": ({"a": "x\ny\n"}, "*** Update File: a\n x\n-y\n+z\n", {"a": "x\nz\n"}),
    "an anchor": (
        {"a": CODE},
        "*** Update File: a\n@@     def g(self):\n-        return 1\n+        return 2\n",
        {"a": CODE[:-2] + "2\n"},
    ),
    "several anchors": (
        {"a": f"{CODE}{CODE.replace('A', 'B')}"},
        "*** Update File: a\n@@ class B:\n@@     def g(self):\n-        return 1\n+        return 2\n",
        {"a": f"{CODE}{CODE.replace('A', 'B')[:-2]}2\n"},
    ),
    "an anchor as it begins": (
        {"a": CODE},
        "*** Update File: a\n@@ def g\n-        return 1\n+        return 2\n",
        {"a": CODE[:-2] + "2\n"},
    ),
    "at the end": (
        {"a": "x\ny\nx\n"},
        "*** Update File: a\n@@\n-x\n+z\n*** End of File\n",
        {"a": "x\ny\nz\n"},
    ),
    "new lines alone": ({"a": "x\n"}, "*** Update File: a\n@@\n+y\n+z\n", {"a": "x\ny\nz\n"}),
    "new lines behind an anchor": ({"a": "x\ny\n"}, "*** Update File: a\n@@ x\n+new\n", {"a": "x\nnew\ny\n"}),
    "new lines in an empty file": ({"a": ""}, "*** Update File: a\n@@\n+y\n", {"a": "y\n"}),
    "old lines alone": ({"a": "x\ny\nz\n"}, "*** Update File: a\n@@\n x\n-y\n z\n", {"a": "x\nz\n"}),
    "an empty line without its space": ({"a": "x\n\ny\n"}, "*** Update File: a\n@@\n x\n\n-y\n+z\n", {"a": "x\n\nz\n"}),
    "empty lines between": (
        {"a": "x\ny\n"},
        "\n*** Update File: a\n\n@@\n-x\n+1\n\n@@\n-y\n+2\n\n*** Add File: b\n+b\n\n",
        {"a": "1\n2\n", "b": "b\n"},
    ),
    "white space around markers": (
        {"a": "x\n"},
        "  *** Update File:   a  \n@@\n-x\n+y\n",
        {"a": "y\n"},
    ),
    "an environment": ({"a": "x\n"}, "*** Environment ID: remote\n*** Update File: a\n@@\n-x\n+y\n", {"a": "y\n"}),
    "no last line break": ({"a": "x\ny"}, "*** Update File: a\n@@\n-y\n+z\n", {"a": "x\nz"}),
    "no last line break, and one more line": ({"a": "x"}, "*** Update File: a\n@@\n x\n+y\n", {"a": "x\ny"}),
    "no last line break, and one line less": ({"a": "x\ny"}, "*** Update File: a\n@@\n x\n-y\n", {"a": "x"}),
    "CRLF": ({"a": "x\r\ny\r\n"}, "*** Update File: a\n@@\n x\n-y\n+z\n+w\n", {"a": "x\r\nz\r\nw\r\n"}),
    "one file twice": (
        {"a": "x\ny\n"},
        "*** Update File: a\n@@\n-x\n+1\n*** Update File: a\n@@\n-y\n+2\n",
        {"a": "1\n2\n"},
    ),
    "replaced": ({"a": "x\n"}, "*** Delete File: a\n*** Add File: a\n+y\n", {"a": "y\n"}),
    "moved, and a new one": (
        {"a": "x\n"},
        "*** Update File: a\n*** Move to: b\n*** Add File: a\n+y\n",
        {"a": "y\n", "b": "x\n"},
    ),
    "white space differs": ({"a": "x:\n\ty()  \n"}, "*** Update File: a\n x:\n-  y()\n+  z()\n", {"a": "x:\n\tz()\n"}),
    "signs differ": ({"a": "a – b\n"}, "*** Update File: a\n@@\n-a - b\n+c\n", {"a": "c\n"}),
    "line numbers": ({"a": "x\ny\nx\n"}, "*** Update File: a\n@@ -3,1 +3,1 @@\n-x\n+z\n", {"a": "x\ny\nz\n"}),
}  # fmt: skip


@pytest.mark.parametrize("name", V4A)
def test_every_form_of_v4a_is_applied_and_undone_with_one_id(bench: Bench, name: str) -> None:
    before, body, after = V4A[name]
    fill(bench, before)
    told = bench.tell("fs_patch", patch=v4a(body))
    assert tree(bench) == after, told
    undo_id = re.search(r"undo (\w+)", told)
    assert undo_id, told
    path = bench.journal.entry(undo_id[1]).path
    bench.undo(undo_id[1], path)
    assert tree(bench) == before
    assert bench.litter() == []
    redo = max(bench.journal.entries(), key=lambda entry: bool(entry.parts) or entry.group == entry.id)
    bench.undo(redo.id, redo.path)
    assert tree(bench) == after


@pytest.mark.parametrize(
    "wrapped",
    [
        "{}",
        "\n\n{}\n\n",
        "<<'EOF'\n{}EOF\n",
        "<<EOF\n{}EOF",
        "apply_patch <<'PATCH'\n{}PATCH\n",
        'cd /src && apply_patch <<"EOF"\n{}EOF\n',
        "```diff\n{}```\n",
    ],
)
@pytest.mark.parametrize("argument", ["patch", "input", "operations"])
def test_a_patch_may_be_wrapped_as_for_a_shell(bench: Bench, wrapped: str, argument: str) -> None:
    bench.file("a", "x\n")
    text = wrapped.format(v4a("*** Update File: a\n@@\n-x\n+y\n"))
    if argument != "patch" and not text.startswith("*** "):
        return
    told = bench.tell("fs_patch", **{argument: text})
    assert tree(bench) == {"a": "y\n"}, told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("*** Begin Patch\n*** End Patch\n", "it changes no file"),
        ("*** Begin Patch\n*** Update File: a\n@@\n-x\n+y\n", "line 5: the last line is not '*** End Patch'"),
        (v4a("*** Update File: a\n"), "a has no hunk"),
        (v4a("*** Update File: a\n@@\n"), "line 3: a hunk without lines"),
        (v4a("*** Update File: a\n@@\n-x\n+y\nz\n"), "line 6: a line of a hunk begins with ' ', '+' or '-'"),
        (v4a("*** Update File:\n@@\n-x\n+y\n"), "needs a path"),
        (v4a("*** Add File: b\nx\n"), "every line of a new file begins with '+'"),
        (v4a("*** Frobnicate File: a\n"), "is none of '*** Add File:'"),
        ("--- a/a\n+++ b/a\n@@ whatever @@\n-x\n", "a hunk begins with @@ -line,count"),
        ("--- a/a\n+++ b/a\n", "a has no hunk"),
        ("diff --git a/p b/p\nBinary files a/p and b/p differ\n", "binary files cannot be patched"),
        ("@@ -1 +1 @@\n-x\n+y\n", "a hunk before the names of its file"),
        ("what is this\n", "it changes no file"),
    ],
)
def test_what_is_no_patch_is_refused_with_its_line(bench: Bench, text: str, told: str) -> None:
    bench.file("a", "x\n")
    answer = bench.tell("fs_patch", patch=text)
    assert answer.startswith("[INVALID_PARAMS] patch, line "), answer
    assert told in answer
    assert tree(bench) == {"a": "x\n"}


@pytest.mark.parametrize(
    ("last", "code"),
    [
        ("*** Update File: b\n@@\n-not there at all\n+x\n", "NO_MATCH"),
        ("*** Update File: missing\n@@\n-x\n+y\n", "NOT_FOUND"),
        ("*** Delete File: missing\n", "NOT_FOUND"),
        ("*** Delete File: folder\n", "NOT_A_FILE"),
        ("*** Update File: picture\n@@\n-x\n+y\n", "IS_BINARY"),
        ("*** Add File: secret/x\n+x\n", "DENIED"),
        ("*** Update File: b\n*** Move to: secret/b\n", "DENIED"),
        ("*** Delete File: secret/s\n", "DENIED"),
        ("*** Add File: b/x\n+x\n", "NOT_A_DIRECTORY"),
        ("*** Update File: b\n*** Move to: b\n", "INVALID_PARAMS"),
    ],
)
def test_if_one_file_cannot_be_changed_none_is(bench: Bench, last: str, code: str) -> None:
    fill(bench, {"a": "x\n", "b": "y\n", "folder/f": "", "picture": "\0\0", "secret/s": "s"})
    before = tree(bench)
    bench.ctx.paths = OpenPaths(bench.folder, closed=(bench.folder / "secret",))
    told = bench.tell("fs_patch", patch=v4a(f"*** Update File: a\n@@\n-x\n+1\n*** Add File: deep/new\n+n\n{last}"))
    assert told.startswith(f"[{code}]"), told
    assert (tree(bench), bench.journal.entries(), bench.litter()) == (before, [], [])
    assert not (bench.folder / "deep").exists()


@pytest.mark.parametrize("has_journal", [True, False])
def test_a_failure_at_the_last_file_takes_the_others_back(
    bench: Bench, has_journal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(bench, {"a": "x\n", "b": "y\n", "c": "z\n"})
    before = tree(bench)
    if not has_journal:
        bench.ctx.journal = type(bench.journal)(None)
    kept = bench.ctx.journal
    remove = kept.remove

    def fail(path: Path, **how: Any) -> Any:
        if path.name == "c":
            raise OSError(5, "no")
        return remove(path, **how)

    monkeypatch.setattr(kept, "remove", fail)
    body = "*** Update File: a\n@@\n-x\n+1\n*** Add File: d/n\n+n\n*** Update File: b\n*** Move to: e\n"
    told = bench.tell("fs_patch", patch=v4a(f"{body}*** Delete File: c\n"))
    assert told.startswith("[IO_ERROR]"), told
    assert (tree(bench), bench.litter()) == (before, [])
    assert kept.entries() == []
    assert not (bench.folder / "d").exists()


def test_a_rev_is_that_of_the_one_file(bench: Bench) -> None:
    bench.file("a", "x\n")
    rev = bench.call("fs_read", path="a")["rev"]
    change = v4a("*** Update File: a\n@@\n-x\n+y\n")
    assert bench.tell("fs_patch", patch=change, if_rev="0" * 16).startswith("[STALE_REV]")
    bench.file("b", "x\n")
    both = v4a("*** Update File: a\n@@\n-x\n+y\n*** Delete File: b\n")
    assert "if_rev is the rev of one file" in bench.tell("fs_patch", patch=both, if_rev=rev)
    assert "line 1 changed" in bench.tell("fs_patch", patch=change, if_rev=rev)


def test_receipts_and_dry_runs_of_patches(bench: Bench) -> None:
    fill(bench, {"a": "x\ny\n", "b": "y\n"})
    both = v4a("*** Update File: a\n@@\n-x\n+1\n+2\n*** Update File: b\n*** Move to: c\n*** Add File: d\n+d\n")
    folder = bench.folder
    dry = bench.tell("fs_patch", patch=both, dry_run=True)
    assert dry.startswith("3 files · dry run: nothing was written\n")
    assert tree(bench) == {"a": "x\ny\n", "b": "y\n"}
    told = bench.tell("fs_patch", patch=both)
    assert re.fullmatch(
        rf"3 files · undo \w+\n{folder}/a: lines 1-2 changed \(\+1\) · rev \w+\n"
        rf"{folder}/b: moved to {folder}/c · rev \w+\n{folder}/d: added, 1 line · rev \w+",
        told,
    ), told
    one = bench.tell("fs_patch", patch=v4a("*** Update File: a\n@@\n-1\n-2\n+x\n"))
    assert re.fullmatch(rf"{folder}/a: line 1 changed \(-1\) · rev \w+ · undo \w+", one), one
    shown = bench.tell("fs_patch", patch=v4a("*** Update File: a\n@@\n-x\n+z\n"), diff=True)
    assert shown.endswith("\n@@ -1,2 +1,2 @@\n-x\n+z\n y")
    guessed = bench.tell("fs_patch", patch=v4a("*** Update File: a\n@@\n-  z\n+  w\n"))
    assert "indentation ignored" in guessed
    assert guessed.endswith("\n@@ -1 +1 @@\n-z\n+w")


def test_of_several_places_the_first_is_told(bench: Bench) -> None:
    bench.file("a", "x\ny\nx\n")
    told = bench.tell("fs_patch", patch=v4a("*** Update File: a\n@@\n-x\n+z\n"))
    assert "the first of 2 places was changed (lines 1, 3)" in told
    again = bench.tell("fs_patch", patch=v4a("*** Update File: a\n@@\n-not there\n+this is a long new line\n"))
    assert again.startswith("[NO_MATCH]")
    bench.file("a", "this is a long new line\n")
    made = bench.tell("fs_patch", patch=v4a("*** Update File: a\n@@\n-not there\n+this is a long new line\n"))
    assert "already so from line 1 on" in made
    assert "nothing was written" in made


NUMBERS = "".join(f"{number}\n" for number in range(100))
# Before and after.
GIT: dict[str, tuple[Files, Files]] = {
    "a change": ({"a": "1\n2\n3\n"}, {"a": "1\ntwo\n3\n"}),
    "changes far apart": ({"a": NUMBERS}, {"a": NUMBERS.replace("7\n", "seven\n")}),
    "a new file": ({}, {"d/new": "x\ny\n"}),
    "a new empty file": ({"a": "x\n"}, {"a": "x\n", "empty": ""}),
    "a deleted file": ({"a": "x\n", "b": "y\n"}, {"b": "y\n"}),
    "a deleted empty file": ({"a": "", "b": "y\n"}, {"b": "y\n"}),
    "a rename": ({"a": "x\n" * 9}, {"b/a": "x\n" * 9}),
    "a rename with a change": ({"a": NUMBERS}, {"b": NUMBERS.replace("99\n", "end\n")}),
    "no line break at the end": ({"a": "x\ny"}, {"a": "x\nz"}),
    "a line break at the end": ({"a": "x\ny"}, {"a": "x\ny\n"}),
    "a line break less": ({"a": "x\ny\n"}, {"a": "x\ny"}),
    "a new file without a line break": ({}, {"a": "x"}),
    "odd names": ({"a b": "x\n", 'q"é\t': "x\n"}, {"a b": "y\n", 'q"é\t': "y\n"}),
    "lines like headers": ({"a": "-- x\n++ y\n@@ z\n"}, {"a": "-- 1\n++ 2\n@@ z\n"}),
    "everything gone": ({"a": "x\ny\n"}, {"a": ""}),
    "empty lines": ({"a": "\n\nx\n\n"}, {"a": "\nx\n\n\n"}),
}  # fmt: skip


@pytest.mark.parametrize("options", [[], ["--no-prefix"], ["-U0"], ["--no-renames"], ["-C", "--find-copies-harder"]])
@pytest.mark.parametrize("name", GIT)
def test_what_git_writes_is_applied_and_undone(bench: Bench, tmp_path: Path, name: str, options: list[str]) -> None:
    before, after = GIT[name]
    text = git_diff(tmp_path / "git", before, after, options)
    fill(bench, before)
    told = bench.tell("fs_patch", patch=text)
    assert tree(bench) == after, (text, told)
    undo_id = re.search(r"undo (\w+)", told)
    assert undo_id, told
    bench.undo(undo_id[1], bench.journal.entry(undo_id[1]).path)
    assert tree(bench) == before


def git_diff(folder: Path, before: Files, after: Files, options: list[str]) -> str:
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=folder, env=environment, check=True, capture_output=True)
        return done.stdout.decode()

    folder.mkdir()
    git("init", "-q")
    for files in (before, after):
        for path in folder.rglob("*"):
            if path.is_file() and ".git" not in path.parts:
                path.unlink()
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        git("add", "-A")
        if files is before:
            git("-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "--allow-empty", "-m", "x")
    return git("diff", "--cached", "-M", *options)


@pytest.mark.parametrize(
    ("patch", "path"),
    [
        ("--- a\t2026-01-01 00:00:00\n+++ a\t2026-01-02 00:00:00\n@@ -2 +2 @@\n-2\n+two\n", None),
        ("From 1 Mon\nSubject: x\n---\n a | 2 +-\n\n--- a/a\n+++ b/a\n@@ -2 +2 @@ f()\n-2\n+two\n-- \n2.40.1\n", None),
        ("--- a/a\n+++ b/a\n@@ -1,9 +1,9 @@\n 1\n-2\n+two\n 3\n", None),
        ("--- a/a\n+++ b/a\n@@ -40,3 +40,3 @@\n 1\n-2\n+two\n 3\n", None),
        ("@@ -2 +2 @@\n-2\n+two\n", "a"),
        ("@@\n-2\n+two\n", "a"),
        ("--- a/elsewhere/a\n+++ b/elsewhere/a\n@@ -2 +2 @@\n-2\n+two\n", "a"),
        ("--- a/a\r\n+++ b/a\r\n@@ -1,3 +1,3 @@\r\n 1\r\n-2\r\n+two\r\n 3\r\n", None),
    ],
)
def test_diffs_as_programs_and_models_write_them(bench: Bench, patch: str, path: str | None) -> None:
    bench.file("a", "1\n2\n3\n")
    told = bench.tell("fs_patch", patch=patch, **({} if path is None else {"path": path}))
    assert tree(bench) == {"a": "1\ntwo\n3\n"}, told


def test_a_hunk_is_where_its_line_says_or_nowhere(bench: Bench) -> None:
    bench.file("a", "x\ny\nx\ny\nx\n")
    assert "line 3 changed" in bench.tell("fs_patch", patch="--- a\n+++ a\n@@ -3 +3 @@\n-x\n+z\n")
    told = bench.tell("fs_patch", patch="--- a\n+++ a\n@@ -9 +9 @@\n-y\n+z\n")
    assert told.startswith("[COUNT_MISMATCH]")
    assert "2 times (lines 2, 4), and not at line 9" in told


def test_hunks_behind_the_first_are_looked_for_as_far_down_as_that_was(bench: Bench) -> None:
    bench.file("a", "new\nnew\nfirst\nx\nx\nx\n")
    told = bench.tell("fs_patch", patch="--- a\n+++ a\n@@ -1 +1 @@\n-first\n+1st\n@@ -3 +3 @@\n-x\n+z\n")
    assert tree(bench) == {"a": "new\nnew\n1st\nx\nz\nx\n"}, told


def test_a_diff_that_removes_another_content_is_refused(bench: Bench) -> None:
    bench.file("a", "mine\n")
    told = bench.tell("fs_patch", patch="--- a/a\n+++ /dev/null\n@@ -1 +0,0 @@\n-theirs\n")
    assert told.startswith("[NO_MATCH]")
    assert tree(bench) == {"a": "mine\n"}


def test_several_files_are_undone_together_or_not_at_all(bench: Bench) -> None:
    fill(bench, {"a": "x\n", "b": "y\n"})
    told = bench.tell("fs_patch", patch=v4a("*** Update File: a\n-x\n+1\n*** Delete File: b\n*** Add File: c\n+c\n"))
    undo_id = told.partition("undo ")[2].split()[0]
    assert bench.journal.entry(undo_id).summary == f"changed {bench.folder}/a and 2 more"
    assert "is none of them" in bench.tell("fs_move", **{"from": f"undo://{undo_id}", "to": "elsewhere"})
    bench.file("c", "mine\n")
    refused = bench.tell("fs_move", **{"from": f"undo://{undo_id}", "to": "a"})
    assert refused.startswith("[STALE_REV]")
    assert tree(bench) == {"a": "1\n", "c": "mine\n"}
    paths = bench.ctx.paths
    bench.ctx.paths = OpenPaths(bench.folder, closed=(bench.folder / "b",))
    assert bench.tell("fs_move", **{"from": f"undo://{undo_id}", "to": "a", "overwrite": True}).startswith("[DENIED]")
    bench.ctx.paths = paths
    bench.tell("fs_move", **{"from": f"undo://{undo_id}", "to": "c", "overwrite": True})
    assert tree(bench) == {"a": "x\n", "b": "y\n"}


@pytest.mark.parametrize(
    "text",
    [
        v4a("*** Update File: a\n@@\n-x\n" + "\n" * 200_000),
        v4a("*** Update File: a\n" + "@@\n-x\n" * 3_000),
        v4a("*** Update File: a\n" + "@@ x\n" * 50_000 + "-x\n"),
        "--- a\n+++ a\n" + "@@ -1,9 +1,9 @@\n-x\n" * 50_000,
        "--- a\n+++ a\n@@ -1,99999 +1,99999 @@\n" + "\n" * 200_000,
        'diff --git "' + "\\1" * 100_000,
        "<<'" + "apply_patch " * 50_000,
        "*** Begin Patch\n" + "*** Delete File: a\n" * 50_000 + "*** End Patch",
    ],
)
def test_a_text_that_is_long_and_odd_is_refused_in_time(bench: Bench, text: str) -> None:
    bench.file("a", "x\n" * 20_000)
    began = time.process_time()
    bench.tell("fs_patch", patch=text)
    assert time.process_time() - began < 15


def test_a_program_gives_operations(bench: Bench) -> None:
    bench.file("a", "x\n")
    with pytest.raises(Exception, match="operations"):
        bench.call("fs_patch", path="a", patch=v4a("*** Delete File: a\n"))


_TEXT = st.lists(st.sampled_from(["a", "b", "", " c", "\td", "-- e", "++ f", "@@ g"]), max_size=9).map(
    lambda lines: "".join(f"{line}\n" for line in lines)
)


@settings(max_examples=40)
@given(_TEXT, _TEXT, st.booleans())
def test_any_two_texts_are_led_over_by_their_diff(tmp_path_factory: Any, one: str, other: str, ends: bool) -> None:
    folder = tmp_path_factory.mktemp("diff")
    bench = Bench(folder)
    one, other = (text if ends else text.removesuffix("\n") for text in (one, other))
    if one == other:
        return
    path = bench.file("a", one)
    (folder / "old").write_text(one)
    (folder / "new").write_text(other)
    diff = subprocess.run(["diff", "-u", "old", "new"], cwd=folder, capture_output=True, text=True, check=False).stdout
    bench.tell("fs_patch", patch=diff, path="a")
    assert path.read_text() == other
