"""Arguments for every tool, made up from a seed: small and huge, odd and plain wrong."""

from __future__ import annotations

import random
import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Characters that cost a wire more than they look: quotes, backslashes, controls, other scripts.
_COSTLY = "\"\\\n\t\x01\x1f\x7f'<>&é漢😀\u2028"
_LINES = 5_000
_NESTED = (
    {"depth": 30, "width": 1},
    *({"depth": depth, "width": width} for depth in (1, 3, 4, 5) for width in (2, 12)),
)


class World:
    """A folder with 10,000 files and some texts, and what earlier calls have left to refer to."""

    def __init__(self, folder: Path, seed: int, files: int) -> None:
        self.random = random.Random(seed)
        self.many = folder / "many"
        self.texts = folder / "texts"
        self.scratch = folder / "scratch"
        for each in (self.many, self.texts, self.scratch):
            each.mkdir()
        for number in range(files):
            (self.many / f"{number:05}{self._name()}").touch()
        match = "".join(f"{number}: needle {self.text(60)!r}\n" for number in range(_LINES))
        (self.texts / "matches.txt").write_text(match)
        (self.texts / "line.txt").write_text("needle " + "x" * 300_000)
        (self.texts / "costly.txt").write_text("needle" + _COSTLY * 5_000)
        (self.texts / "short.txt").write_text("one\ntwo needle\n")
        (self.texts / "binary").write_bytes(bytes(range(256)) * 40)
        (self.texts / "latin").write_bytes("n\xe9edle caf\xe9\n".encode("latin-1") * 500)
        self.artifacts: list[str] = ["ax://shell/0123456789abcdef0123"]
        self.prune_ids: list[str] = ["prn_aaaaaaaaaaaaaaaa"]
        self.sessions: list[str] = ["no-such-session"]

    def arguments(self, tool: str) -> dict[str, Any]:
        """Now and then something that no tool takes."""
        made = INPUTS[tool](self)
        if self.random.random() < 0.05:
            made[self.text(30)] = self.text(2_000)
        return made

    def learn(self, result: dict[str, Any]) -> None:
        """Refer to it in later calls."""
        for known, key in (
            (self.artifacts, "artifactRef"),
            (self.prune_ids, "prune_id"),
            (self.sessions, "session_id"),
        ):
            if isinstance(result.get(key), str):
                known.append(result[key])
                del known[:-20]

    def text(self, most: int) -> str:
        letters = string.ascii_letters + string.digits + "  " + _COSTLY
        return "".join(self.random.choices(letters, k=self.random.randint(0, most)))

    def lines(self) -> str:
        count = self.random.choice((0, 1, 3, 19, 20, 21, 60, 2_000))
        return "\n".join(self.text(self.random.choice((5, 80, 700))) for _ in range(count))

    def path(self) -> str:
        choices = [*self.texts.iterdir(), self.texts, self.many, self.scratch / "new", self.texts / "no" / "such"]
        return str(self.random.choice([*choices, self.random.choice(self.artifacts), "", "a\0b", "x" * 5_000]))

    def one_of(self, *options: Any) -> Any:
        return self.random.choice(options)

    def fresh(self) -> str:
        path = self.scratch / f"{self.random.getrandbits(40):x}"
        path.write_text(self.lines())
        return str(path)

    def _name(self) -> str:
        odd = self.random.random() < 0.02
        tail = "".join(self.random.choices('é漢" \\\x01\n', k=20)) if odd else ""
        return tail + "n" * self.random.choice((3, 20, 120))


def _shell(world: World) -> dict[str, Any]:
    count = world.one_of(0, 1, 20, 5_000)
    command = world.one_of(
        f"seq {count}",
        f"seq {count}; seq {count} >&2; exit 3",
        "printf '\\001\\\"%.0s' $(seq 400)",
        "kill -9 $$",
        "head -c 4000 /dev/urandom",
        "head -c 2000000 /dev/zero | tr '\\0' x",
        "no-such-command",
        "",
    )
    return {"command": command, "max_output_bytes": world.one_of(None, 256, 100_000)}


def _bash(world: World) -> dict[str, Any]:
    made = _shell(world)
    return {**made, "max_output_bytes": world.one_of(None, 1_024, 5), "context_focus_question": _question(world)}


def _question(world: World) -> str | None:
    question: str | None = world.one_of(None, None, None, "where is needle 17?", "")
    return question


def _patch(world: World) -> dict[str, Any]:
    operation = {
        "type": "replace_first",
        "pattern": world.one_of("e", "one", "zzz", ""),
        "replacement": world.text(900),
    }
    several = [operation] * world.one_of(1, 2, 14)
    return {
        "path": world.one_of(world.fresh(), world.fresh(), str(world.many), "nowhere"),
        "operations": several,
        "dry_run": world.one_of(True, False),
    }


def _prune(world: World) -> dict[str, Any]:
    options = {
        "max_prune_ratio": world.one_of(0, 0.5, 1),
        "min_keep_lines": world.one_of(0, 40),
        "timeout_ms": world.one_of(1, 1_500),
        "annotate_lines": world.one_of(True, False),
        "include_markers": world.one_of(True, False),
    }
    return {
        "text": world.lines(),
        "goal_hint": "needle",
        "source_type": world.one_of("code", "logs", "docs"),
        "options": options,
    }


def _recover(world: World) -> dict[str, Any]:
    ranges = [{"start_line": world.one_of(1, 3, 0), "end_line": world.one_of(5, 4_000)}] * world.one_of(1, 3, 15)
    return {
        "prune_id": world.random.choice(world.prune_ids),
        "ranges": ranges,
        "include_line_numbers": world.one_of(True, False),
    }


def _send(world: World) -> dict[str, Any]:
    session = world.random.choice(world.sessions)
    return {"session_id": session, "input": world.one_of("", world.text(200)), "wait_ms": world.one_of(None, 0, 100)}


def _start(world: World) -> dict[str, Any]:
    return {"command": world.one_of("seq 3000; exec cat", "exec sleep 60", ""), "pty": world.one_of(True, False)}


INPUTS: dict[str, Callable[[World], dict[str, Any]]] = {
    "fs_list": lambda w: {
        "path": w.one_of(str(w.many), w.path()),
        "max_entries": w.one_of(None, 3, 10, 11, 20_000),
        "recursive": w.one_of(True, False),
    },
    "fs_read": lambda w: {
        "path": w.path(),
        "max_bytes": w.one_of(None, 1, 400, 5_000_000),
        "context_focus_question": _question(w),
    },
    "fs_read_range": lambda w: {
        "path": w.path(),
        "start_line": w.one_of(1, -5, 30, 0),
        "end_line": w.one_of(3, -1, 4_000),
    },
    "fs_write": lambda w: {
        "path": w.one_of(w.fresh(), str(w.many), str(w.scratch / w.text(300))),
        "content": w.lines(),
    },
    "fs_delete": lambda w: {"path": w.one_of(w.fresh(), str(w.scratch / "nothing"), str(w.many))},
    "fs_move": lambda w: {"from": w.one_of(w.fresh(), w.fresh(), "nowhere"), "to": str(w.scratch / w.text(400))},
    "fs_search": lambda w: {
        "base": w.one_of(str(w.many), w.path()),
        "glob": w.one_of("**", "*7*", "["),
        "max_results": w.one_of(None, 9, 20_000),
    },
    "fs_grep": lambda w: {
        "base": w.one_of(str(w.texts), w.path()),
        "pattern": w.one_of("needle", ".", "(", w.text(50) or "x"),
        "max_matches": w.one_of(None, 5, 10_000),
        "context": w.one_of(0, 3),
        "context_focus_question": _question(w),
    },
    "fs_patch": _patch,
    "shell_exec": _shell,
    "shell_start_session": _start,
    "shell_send_input": _send,
    "shell_stop_session": lambda w: {"session_id": w.random.choice(w.sessions), "signal": w.one_of("KILL", "nothing")},
    "read": lambda w: {"file_path": w.path(), "context_focus_question": _question(w)},
    "bash": _bash,
    "grep": lambda w: {"pattern": w.one_of("needle", "("), "path": w.path(), "context_focus_question": _question(w)},
    "prune_text": _prune,
    "recover_text": _recover,
    "health": lambda w: {},
    "artifact_read": lambda w: {
        "ref": w.one_of(w.random.choice(w.artifacts), w.path()),
        "limit": w.one_of(None, 4, 100_000),
        "cursor": w.one_of(None, None, "17", "nonsense"),
    },
    "echo": lambda w: {"text": w.lines()},
    "wait": lambda w: {"seconds": 0.0},
    "loop": lambda w: {"mark": 5},
    "slow": lambda w: {"none": 1},
    "report": lambda w: {"steps": 2},
    "explode": lambda w: {},
    "tell": lambda w: {"folder": w.text(10), "steps": 0},
    "nested": lambda w: {**w.one_of(*_NESTED), "text": w.text(600)},
    "rows": lambda w: {"count": w.one_of(0, 3, 10, 11, 5_000), "text": w.text(200), "keys": w.one_of(0, 3, 60)},
    "picture": lambda w: {"size": w.one_of(1, 3_000, 200_000), "count": w.one_of(0, 1, 7), "text": w.lines()},
    "leafing": lambda w: {"size": w.one_of(0, 4, 4_000), "cursor": w.one_of(None, "its own", "c1_forged")},
}
