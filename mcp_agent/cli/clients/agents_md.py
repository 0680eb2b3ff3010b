"""The section on this host's tools in a project's AGENTS.md, between two markers; the rest of the file is not ours."""

from __future__ import annotations

BEGIN = "<!-- mcp-agent: begin -->"
END = "<!-- mcp-agent: end -->"
_SECTION = """\
## Tools of this host

The MCP server `{name}` (mcp-agent) acts on the machine of this project.

- Find with `fs_search` and `fs_grep`, read with `fs_read_range`, change with `fs_patch`. A result with an `undo_id` can
  be undone: `fs_move` from `undo://<undo_id>`.
- Run what ends by itself with `shell_exec`; start servers and watchers with `shell_start_session`, and read and answer
  them with `shell_send_input`.
- Pass `context_focus_question`, what you want to know, to get only the lines of long output that answer it.
"""


def with_section(text: str, name: str) -> str:
    """The text with our section in it: in the place of the one that is there, else at the end."""
    line_end = "\r\n" if "\r\n" in text else "\n"
    section = f"{BEGIN}\n{_SECTION.format(name=name)}{END}".replace("\n", line_end)
    begin = text.find(BEGIN)
    end = text.find(END, begin)
    if begin >= 0 and end >= 0:
        return text[:begin] + section + text[end + len(END) :]
    if not text:
        return section + line_end
    return text + ("" if text.endswith("\n") else line_end) + line_end + section + line_end
