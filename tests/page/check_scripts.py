"""Checks the JavaScript of the page: `python -m tests.page.check_scripts`, with `--write` to mend what can be mended.

Biome formats and lints, as `biome.json` says. TypeScript checks the types (`jsconfig.json`) that JSDoc comments and
`types.d.ts` give.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support import node, programs

ROOT = Path(__file__).parents[2]
STATIC = ROOT / "mcp_agent" / "page" / "static"
MOST_COLUMNS = 120


def long_lines() -> list[str]:
    """The lines that the formatter could not make short enough: those with a long text in them."""
    return [
        f"{path.relative_to(ROOT)}:{number}: {len(line)} characters, and {MOST_COLUMNS} are allowed"
        for path in sorted(STATIC.rglob("*.js"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > MOST_COLUMNS
    ]


def main() -> int:
    write = ["--write"] if "--write" in sys.argv[1:] else []
    commands = [
        [node.NODE, str(programs.biome()), "check", "--error-on-warnings", *write],
        [node.NODE, str(programs.typescript()), "--project", "jsconfig.json"],
    ]
    failed = [subprocess.run(command, cwd=ROOT, check=False).returncode for command in commands]
    found = long_lines()
    print("\n".join(found), end="\n" if found else "")
    return int(any(failed) or bool(found))


if __name__ == "__main__":
    sys.exit(main())
