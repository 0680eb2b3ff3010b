"""Without /proc the system does not say what an open file is. No link leads to closed and denied files then either."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

# In a mount namespace of its own, with an empty folder in the place of /proc.
_WITHOUT = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh")

_SCRIPT = """
import json, sys
from pathlib import Path
from msgspec.structs import replace
from tests.support.bench import Bench
from tools.kit.errors import ToolError
from tools.kit.rules import PathRules, Rule

assert not Path("/proc/self").exists()
bench = Bench(Path(sys.argv[1]))
secret = bench.file("denied/secret", "only-in-denied")
bench.state.mkdir(exist_ok=True)
(bench.state / "token").write_text("only-in-denied")
bench.file("open", "nothing of note")
rule = Rule("denied", ("denied/**",), "a secret", "tools.json")
bench.ctx = replace(bench.ctx, paths=bench.ctx.paths.denying(PathRules((rule,))))
(bench.folder / "to-denied").symlink_to(secret)
(bench.folder / "to-token").symlink_to(bench.state / "token")
(bench.folder / "to-folder").symlink_to(bench.folder / "denied")
(bench.folder / "to-open").symlink_to(bench.folder / "open")
found = {}
for name in ("to-denied", "to-token", "to-folder/secret", "to-open", "open"):
    for tool, arguments in (
        ("fs_read", {"path": name}),
        ("fs_read_range", {"path": name, "start_line": 1, "end_line": 1}),
        ("fs_grep", {"base": name, "pattern": "note|denied"}),
    ):
        try:
            found[f"{tool} {name}"] = str(bench.call(tool, **arguments))
        except ToolError as error:
            found[f"{tool} {name}"] = error.code
print(json.dumps(found))
"""


@pytest.mark.skipif(
    subprocess.run([*_WITHOUT, "true"], capture_output=True, check=False).returncode != 0,
    reason="mounts in a namespace of its own are not allowed here",
)
def test_no_link_leads_to_what_is_denied_where_there_is_no_proc(tmp_path: Path) -> None:
    done = subprocess.run(
        [*_WITHOUT, sys.executable, "-c", _SCRIPT, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [name for name, told in found.items() if "only-in-denied" in told] == []
    assert {told for name, told in found.items() if "open" not in name} == {"DENIED"}
    assert [name for name, told in found.items() if "open" in name and "nothing of note" not in told] == []
