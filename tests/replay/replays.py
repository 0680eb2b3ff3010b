"""What is replayed: each function asks one server for one kind of record, and yields rows of the table."""

from __future__ import annotations

import collections
import hashlib
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from rs_bpe.bpe import openai

from mcp_agent.answers.budget import longest_wait_s
from tests.replay.records import Record, Records
from tests.replay.servers import Arguments, Ours, Server
from tools.search.engine import find_engine

Row = tuple[str, str]
Replay = Callable[[Records, Server, Path], Iterator[Row]]
# Shorter files are not worth a question, and longer ones are not asked.
_LEAST_ASKED_CHARS = 4_000
_MOST_SAID_CHARS = 400
_ENCODING = openai.o200k_base()


def tokens(text: str) -> int:
    return int(_ENCODING.count(text))


def edits(records: Records, server: Server, folder: Path) -> Iterator[Row]:
    """Edits that were made, made again; those that were refused, judged by what came of them later."""
    same, receipts, verdicts = 0, [], collections.Counter[tuple[str, str]]()
    found = records.of("edits")
    made = [each for each in found if each["outcome"] == "ok" and each["old_string"] != each["new_string"]]
    for record in made:
        text, after = _edit(server, folder, record)
        same += after == record["after"]
        receipts.append(tokens(text))
    shown = 0
    refused = [each for each in found if each["outcome"] in ("not_found", "not_unique") and each.get("before")]
    places = 0
    for record in refused:
        text, after = _edit(server, folder, record)
        verdict = _verdict(record, after)
        verdicts[record["outcome"], verdict] += 1
        if verdict == "refused" and record["outcome"] == "not_found" and (later := record.get("eventual")):
            wanted = [line for line in _bare(later["old_string"]).split("\n") if line]
            places += 1
            shown += sum(line in text for line in wanted) >= 0.8 * len(wanted)
    if made:
        yield "edits made as recorded", _share(same, len(made))
        yield "… receipt, tokens, mean", f"{sum(receipts) / len(receipts):.0f}"
        yield "… receipt of their own client", f"{_mean(tokens(each['receipt']) for each in made):.0f}"
    for outcome, name in (("not_found", "text not found"), ("not_unique", "text not unique")):
        if total := sum(count for (kind, _), count in verdicts.items() if kind == outcome):
            right = verdicts[outcome, "right"]
            yield f"edits refused there, {name}: put right", _share(right, total)
            yield "… made wrong", str(verdicts[outcome, "wrong"])
    if places:
        yield "… refusals that show the place", _share(shown, places)


def _edit(server: Server, folder: Path, record: Record) -> tuple[str, str]:
    """The receipt, and the text of the file after it."""
    path = folder / re.split(r"[/\\]", record["path"])[-1]
    path.write_text(record["before"], newline="", errors="surrogatepass")
    text, _ = server.edit(path, record["old_string"], record["new_string"], every=bool(record.get("replace_all")))
    with path.open(newline="", errors="surrogatepass") as changed:
        return text, changed.read()


def _verdict(record: Record, after: str) -> str:
    """ "refused", "right", "wrong", or "unknown". Right is a text that the agent came to, one that differs from what it
    asked for in white space alone, or one that is nearer to the last text of the file."""
    before = record["before"]
    if after == before:
        return "refused"
    later = record.get("later") or ()
    if _print(after.rstrip("\n")) in {exact for exact, _ in later} or _print(_bare(after)) in {
        bare for _, bare in later
    }:
        return "right"
    old, new, text = (f"\n{_bare(each)}\n" for each in (record["old_string"], record["new_string"], before))
    if text.count(old) == 1 and text.replace(old, new).strip("\n") == _bare(after):
        return "right"
    if (final := record.get("final")) is None:
        return "unknown"
    lines = collections.Counter(_bare(final).split("\n"))
    return "right" if _away(after, lines) < _away(before, lines) else "wrong"


def _bare(text: str) -> str:
    return "\n".join(line.strip() for line in text.split("\n") if line.strip())


def _print(text: str) -> str:
    return hashlib.sha1(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()[:10]


def _away(text: str, final: collections.Counter[str]) -> int:
    """How many lines a text has more or fewer than the final one."""
    lines = collections.Counter(_bare(text).split("\n"))
    return (lines - final).total() + (final - lines).total()


def patches(records: Records, server: Server, folder: Path) -> Iterator[Row]:
    """Patches as text, in the form of Codex: are they taken, and do they give what they gave there?"""
    if not isinstance(server, Ours):
        return
    right = 0
    receipts: list[int] = []
    made = [each for each in records.of("patches") if each["outcome"] == "ok"]
    for number, record in enumerate(made):
        text = record["patch"]
        expected: dict[Path, str | None] = {}
        for index, file in enumerate(record["files"]):
            path = folder / f"{number}-{index}-{Path(file['path']).name}"
            if file.get("before") is not None:
                path.write_text(file["before"], newline="")
            text = text.replace(f" File: {file['path']}\n", f" File: {path}\n")
            expected[path] = file.get("after")
        receipt, is_error = server.call("fs_patch", {"patch": text})
        receipts.append(tokens(receipt))
        right += not is_error and all(
            path.exists() == (after is not None) and (after is None or path.read_text() == after)
            for path, after in expected.items()
        )
    if made:
        yield "patches as text, made as recorded", _share(right, len(made))
        yield "… receipt, tokens, mean", f"{_mean(receipts):.0f}"


# Tools of clients, and ours that a model asks for the same.
_ALIKE = {
    "Read": ("fs_read", "read"),
    "Edit": ("fs_patch",),
    "Write": ("fs_write",),
    "Bash": ("shell_exec", "bash"),
    "exec_command": ("shell_exec", "bash"),
    "Grep": ("fs_grep", "grep"),
    "Glob": ("fs_search",),
}


def habits(records: Records, server: Server, folder: Path) -> Iterator[Row]:
    """Calls as clients write them, asked of the tool of ours that does the same: are their arguments taken?"""
    if not isinstance(server, Ours):
        return
    (folder / "a.go").write_text("package a\n" * 20)
    taken, asked = collections.Counter[tuple[str, str]](), collections.Counter[tuple[str, str]]()
    for record in records.of("calls"):
        arguments = {name: _stub(record["tool"], name, value, folder) for name, value in record["args"].items()}
        for tool in _ALIKE.get(record["tool"], ()):
            text, _ = server.call(tool, arguments)
            asked[record["tool"], tool] += record["count"]
            taken[record["tool"], tool] += 0 if "INVALID_PARAMS" in text else record["count"]
    for (theirs, tool), count in asked.items():
        yield f"{theirs} as its client writes it, taken by {tool}", _share(taken[theirs, tool], count)


def _stub(tool: str, name: str, value: Any, folder: Path) -> Any:
    """A text of a call is not in the records, only that there was one."""
    place = str(folder) if tool in ("Grep", "Glob") else str(folder / "a.go")
    stubs = {
        **dict.fromkeys(("path", "file_path"), place if tool != "Write" else str(folder / "w.go")),
        **dict.fromkeys(("command", "cmd"), "true"),
        **dict.fromkeys(("workdir", "cwd"), str(folder)),
        "pattern": "package" if tool == "Grep" else "*.go",
        "glob": "*.go",
        "type": "go",
        "content": "x\n",
        "offset": "2",
    }
    if value in ("list", "dict"):
        words = ["sh", "-c", "true"] if name in ("command", "cmd") else []
        return words if value == "list" else {}
    return stubs.get(name, "x") if value == "text" or name == "type" else value


def searches(records: Records, server: Server, tree: Path) -> Iterator[Row]:
    """Searches in a checkout: is as much found, and for how many tokens? Theirs is what ripgrep prints."""
    if not isinstance(server, Ours):
        return
    ours, theirs, same, asked = (collections.Counter[str]() for _ in range(4))
    for record in records.of("greps"):
        if record["tool"] != "Grep" or record.get("error"):
            continue
        arguments = record["args"]
        place = _in_tree(tree, arguments["path"]) if arguments.get("path") else tree
        if place is None:
            continue
        mode = arguments.get("output_mode") or "files_with_matches"
        expected = _by_ripgrep(arguments, mode, tree, place)
        if expected is None:
            continue
        # Their default is another one than ours.
        text, is_error = server.call("fs_grep", {**arguments, "output_mode": mode, "path": str(place)})
        ours[mode] += tokens(text)
        theirs[mode] += tokens("\n".join(expected[: arguments.get("head_limit") or 250]))
        asked[mode] += 1
        same[mode] += not is_error and _finds(text, mode, expected, arguments)
    for mode in asked:
        yield f"searches, {mode}: same answer", _share(same[mode], asked[mode])
        yield "… tokens for one of theirs", f"{ours[mode] / max(theirs[mode], 1):.2f}"


def _in_tree(tree: Path, path: str) -> Path | None:
    """Where a path of another machine is in the checkout."""
    parts = [part for part in re.split(r"[/\\]+", path) if part]
    below = (tree.joinpath(*parts[index:]) for index in range(len(parts)))
    return next((each for each in below if each.exists()), None)


def _by_ripgrep(arguments: Arguments, mode: str, tree: Path, place: Path) -> list[str] | None:
    """The lines that ripgrep prints for the client's call, with paths as the client shows them."""
    kinds = {"files_with_matches": ["-l"], "count": ["-c"], "content": ["-n"]}
    around = [
        (flag, arguments.get(name)) for flag, name in (("-A", "-A"), ("-B", "-B"), ("-C", "-C"), ("-C", "context"))
    ]
    options = [word for flag, value in around if value is not None and mode == "content" for word in (flag, str(value))]
    options += [*kinds[mode], *(["-i"] if arguments.get("-i") else [])]
    options += ["-U", "--multiline-dotall"] if arguments.get("multiline") else []
    options += ["--type", arguments["type"]] if arguments.get("type") else []
    options += [word for glob in (arguments.get("glob") or "").split() for word in ("--glob", glob)]
    base = [
        find_engine().program,
        "--no-config",
        "--hidden",
        "--glob",
        "!.git",
        "--max-columns",
        "500",
        "--sort",
        "path",
    ]
    command = [*base, "-H", "--no-heading", *options, "-e", str(arguments["pattern"]), "--", str(place)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", cwd=tree, check=False)
    if done.returncode == 2:
        return None
    return done.stdout.replace(f"{tree}/", "").rstrip("\n").split("\n") if done.stdout else []


def _finds(text: str, mode: str, expected: list[str], arguments: Arguments) -> bool:
    """Whether an answer has as many lines or files as it should, or says that there are more."""
    header, _, _ = text.partition("\n")
    most = arguments.get("head_limit") or 200
    wanted = (
        sum(re.match(r"[^\n]*?:\d+:", line) is not None for line in expected) if mode == "content" else len(expected)
    )
    found = re.match(r"[\d,]+", header)
    # A match of several lines is one of ours.
    return found is not None and (arguments.get("multiline") or int(found[0].replace(",", "")) == min(wanted, most))


def reads(records: Records, server: Server, folder: Path) -> Iterator[Row]:
    """Whole files: how many tokens does a token of the file cost?"""
    sent = whole = own = 0
    for record in records.of("reads"):
        path = folder / re.split(r"[/\\]", record["path"])[-1]
        path.write_text(record["text"] + "\n", errors="surrogatepass")
        sent += tokens(server.read(path)[0])
        whole += tokens(record["text"])
        own += tokens("\n".join(f"{number:6}→{line}" for number, line in enumerate(record["text"].split("\n"), 1)))
    if whole:
        yield "whole reads: tokens for one of the file", f"{sent / whole:.2f}"
        yield "… of their own client", f"{own / whole:.2f}"


def questions(records: Records, server: Server, folder: Path) -> Iterator[Row]:
    """Files read with what the agent said before as the question: are all lines kept that it edited then?"""
    if not isinstance(server, Ours):
        return
    kept = asked = sent = whole = 0
    for record in records.of("reads"):
        lines, said = record["text"].split("\n"), record.get("say") or ""
        ranges = record.get("edited") or ()
        edited = {lines[n - 1].rstrip() for first, last in ranges for n in range(first, min(last, len(lines)) + 1)} - {
            ""
        }
        if len(record["text"]) < _LEAST_ASKED_CHARS or len(said) <= 20 or record.get("say_gap", 0) > 1 or not edited:
            continue
        path = folder / re.split(r"[/\\]", record["path"])[-1]
        path.write_text(record["text"] + "\n", errors="surrogatepass")
        text, _ = server.call("read", {"file_path": str(path), "context_focus_question": said[-_MOST_SAID_CHARS:]})
        asked += 1
        kept += edited <= {line.rstrip() for line in text.split("\n")}
        sent += tokens(text)
        whole += tokens(record["text"])
    if asked:
        yield "reads with a question: all lines kept that were edited then", _share(kept, asked)
        yield "… tokens for one of the file", f"{sent / whole:.2f}"


def repeats(records: Records, server: Server, folder: Path) -> Iterator[Row]:
    """Reads of one file and runs of one command in one conversation, where a profile shows nothing twice."""
    if not isinstance(server, Ours):
        return
    sent, full = collections.Counter[str](), collections.Counter[str]()
    for number, record in enumerate(records.of("repeats")):
        kind, shown = record["kind"], folder / f"{number}.txt"
        texts: list[str] = []
        for item in record["items"]:
            if "edit" in item:
                continue
            texts.append(texts_of(record["items"], item, texts))
            first = item.get("first") or 1
            # What was before the lines that were read is not known, and not read here either.
            shown.write_text("\n" * (first - 1) + texts[-1], errors="surrogatepass")
            tool, asked = _asked(kind, shown, item, texts[-1])
            # The client would tell of a compaction: it is another conversation.
            sent[kind] += tokens(server.call(tool, asked, chat=f"{number}.{item['epoch']}")[0])
            full[kind] += tokens(server.call(tool, asked)[0])
        shown.unlink(missing_ok=True)
    for kind in sent:
        yield f"{kind}s seen before: tokens saved", _share(full[kind] - sent[kind], full[kind])


def texts_of(items: list[Record], item: Record, before: list[str]) -> str:
    """The text of an item, which may be that of an earlier one by its place among the items."""
    if "same" not in item:
        return str(item["text"])
    return before[sum("edit" not in each for each in items[: item["same"]])]


def _asked(kind: str, shown: Path, item: Record, text: str) -> tuple[str, Arguments]:
    if kind == "command":
        return "shell_exec", {"command": f"cat {shown.name}; exit {item.get('exit') or 0}", "cwd": str(shown.parent)}
    is_part = item.get("offset") or item.get("limit") or (item.get("first") or 1) > 1
    part = {"offset": item.get("first") or 1, "limit": text.count("\n") + 1} if is_part else {}
    return "fs_read", {"path": str(shown), **part}


def waits(records: Records, server: Server, folder: Path) -> Iterator[Row]:
    """Polls of commands, beside those that it takes here by what the command took. Nothing is run."""
    if not isinstance(server, Ours):
        return
    polls = short = long = 0
    for record in records.of("waits"):
        asked = [poll for poll in record.get("polls") or () if poll["empty"]]
        if not asked or record["how"] != "background task":
            continue
        took = (record.get("first_s") or 0) + sum(poll["took"] for poll in asked)
        polls += len(asked)
        short += max(-(-int(took - 45) // 30), 0)
        long += max(-(-int(took - 45) // longest_wait_s("claude-code")), 0)
    if polls:
        yield "polls of running commands by their clients", str(polls)
        yield "… here, 30 s each", str(short)
        yield "… here, as long as Claude Code bears it", str(long)


def _share(part: float, whole: float) -> str:
    return f"{100 * part / max(whole, 1):.1f} % of {whole:,}"


def _mean(values: Iterable[float]) -> float:
    every = list(values)
    return sum(every) / max(len(every), 1)


REPLAYS: dict[str, Replay] = {
    each.__name__: each for each in (edits, patches, habits, searches, reads, questions, repeats, waits)
}
