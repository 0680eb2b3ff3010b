"""The skills of a person's folders, as Open WebUI asks for them."""

from __future__ import annotations

import uuid
from pathlib import Path

from tests.support.daemon import running
from tests.support.open_terminal import get, terminal

_FOLDED = "---\nname: run-tests\ndescription: >\n  Runs the tests\n  of a project.\n---\n\n# Do\n\nmake test\n"


def _write_skill(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(text)
    return folder


async def test_skills_of_both_folders_are_listed_and_read(home: Path) -> None:
    _write_skill(home / ".claude/skills/run-tests", _FOLDED)
    agents = _write_skill(home / ".agents/skills/a b", '---\ndescription: "Other: one"\n---\nText')
    _write_skill(home / ".agents/skills/run-tests", "---\nname: run-tests\ndescription: Of agents\n---\nFirst")
    _write_skill(home / ".claude/skills/no-description", "---\nname: none\n---\nText")
    _write_skill(home / ".claude/skills/no-head", "Text")
    (home / ".claude/skills/empty").mkdir()
    (home / ".claude/skills/large").mkdir()
    (home / ".claude/skills/large/SKILL.md").write_text("---\ndescription: x\n---\n" + "x" * 300_000)
    with running(home) as daemon:
        async with terminal(daemon) as page:
            listed = await get(page, "/skills")
            read = await get(page, "/skills/read", name="run-tests")
            assert (await page.get("/skills/read", params={"name": "none"})).status_code == 404
    first = {
        "id": "terminal:a%20b",
        "name": "a b",
        "description": "Other: one",
        "location": str(agents / "SKILL.md"),
        "scope": "global",
    }
    second = {
        "id": "terminal:run-tests",
        "name": "run-tests",
        "description": "Of agents",
        "location": str(home / ".agents/skills/run-tests/SKILL.md"),
        "scope": "global",
    }
    assert listed == [first, second]
    assert read == {**second, "content": "First", "resources": []}


async def test_a_skill_is_read_with_the_files_beside_it_and_a_folded_description(home: Path) -> None:
    folder = _write_skill(
        home / ".claude/skills/run-tests",
        _FOLDED,
    )
    (folder / "scripts").mkdir()
    (folder / "scripts" / "run.sh").write_text("make test\n")
    (folder / ".hidden").write_text("")
    with running(home) as daemon:
        async with terminal(daemon) as page:
            read = await get(page, "/skills/read", name="run-tests")
    assert (read["description"], read["content"]) == ("Runs the tests of a project.", "# Do\n\nmake test")
    assert read["resources"] == ["scripts/run.sh"]


async def test_a_deny_rule_and_a_profile_without_files_hide_skills(home: Path) -> None:
    _write_skill(home / ".claude/skills/secret", "---\ndescription: secret\n---\nText")
    rule = {"id": "no-skills", "pattern": "**/.claude/**", "reason": "private"}
    with running(home) as daemon:
        name = f"browser-{uuid.uuid4().hex[:6]}"
        token = daemon.cli("token", "create", name, "--profile", "browser-only").stdout.split()[-1]
        async with terminal(daemon) as page, terminal(daemon, token=token) as other:
            assert [each["name"] for each in await get(page, "/skills")] == ["secret"]
            assert await get(other, "/skills") == []
            daemon.save({"profiles": [{"id": "default", "deny": {"paths": [rule]}}]})
            await daemon.logged("registry.reloaded")
            assert await get(page, "/skills") == []
