"""A folder with a journal, and the tools to work in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tools.context import ToolContext
from tools.files.paths import OpenPaths
from tools.filesystem.fs_delete import fs_delete
from tools.filesystem.fs_grep import fs_grep
from tools.filesystem.fs_list import fs_list
from tools.filesystem.fs_move import fs_move
from tools.filesystem.fs_patch import fs_patch
from tools.filesystem.fs_read import fs_read
from tools.filesystem.fs_read_range import fs_read_range
from tools.filesystem.fs_search import fs_search
from tools.filesystem.fs_write import fs_write
from tools.journal.journal import Journal
from tools.journal.journal_records import JournalLimits
from tools.kit.errors import ToolError
from tools.kit.spec import Tool
from tools.search.engine import Engine, find_engine

_TOOLS = (fs_delete, fs_grep, fs_list, fs_move, fs_patch, fs_read, fs_read_range, fs_search, fs_write)
TOOLS: dict[str, Tool] = {tool.name: tool for tool in _TOOLS}


def peak_kb() -> int:
    """The most memory that this process has had. Not ru_maxrss: that begins with what the parent had."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])


class Bench:
    def __init__(self, root: Path, limits: JournalLimits | None = None, engine: Engine | None = None) -> None:
        self.folder = root / "work"
        self.state = root / "state"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.journal = Journal(self.state / "journal", limits)
        paths = OpenPaths(self.folder, closed=(self.state / "journal", self.state / "token"))
        self.ctx = ToolContext("test", paths, journal=self.journal, engine=engine or find_engine())

    def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        """The result's object. `from_` is sent as `from`."""
        given = {key.removesuffix("_"): value for key, value in arguments.items()}
        tool = TOOLS[name]
        return tool.function(self.ctx, **tool.parse(given)).as_object()  # type: ignore[no-any-return]  # a JSON object

    def error(self, name: str, **arguments: Any) -> ToolError:
        """The error that a call must end with."""
        try:
            result = self.call(name, **arguments)
        except ToolError as error:
            return error
        raise AssertionError(f"{name} answered {result}")

    def tell(self, name: str, **arguments: Any) -> str:
        """What a model is told that writes its arguments as it is used to: the rendering, or that of the error."""
        self.ctx.is_for_model = True
        tool = TOOLS[name]
        try:
            parsed, _ = tool.parse_tolerantly(arguments, habits=True)
            return tool.function(self.ctx, **parsed).render()  # type: ignore[no-any-return]  # a text
        except ToolError as error:
            return error.render()
        finally:
            self.ctx.is_for_model = False

    def patch(self, path: str, **operation: Any) -> dict[str, Any]:
        return self.call("fs_patch", path=path, operations=[operation])

    def undo(self, undo_id: str, to: str) -> dict[str, Any]:
        return self.call("fs_move", from_=f"undo://{undo_id}", to=to)

    def file(self, name: str, data: bytes | str = b"") -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        return path

    def litter(self) -> list[str]:
        """Names that our writing leaves behind when something goes wrong."""
        return [str(path) for path in self.folder.rglob(".mcp-agent-*")]
