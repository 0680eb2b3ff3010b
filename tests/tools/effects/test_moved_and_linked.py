"""Files that were changed, moved and linked in one command: each gets its own content and its own names back, and the
undo of the undo does, too."""

from __future__ import annotations

import os

import pytest

from tests.tools.effects.conftest import Workshop
from tests.tools.effects.snapshots import differences, snapshot

_COMMANDS = {
    # With the time and the size of before, it looks as if it had only been moved.
    "moved with changed content": "cp -p src/a.py k; printf 'A = 9\\n' > src/a.py; touch -r k src/a.py; "
    "mv src/a.py moved; rm k",
    "swapped with changed content": "cp -p src/a.py k; printf 'A = 9\\n' > src/a.py; touch -r k src/a.py; "
    "mv src/a.py k; mv src/b.py src/a.py; mv k src/b.py",
    # The mode is all that is different of the old name.
    "a hard link beside a chmod": "chmod 600 src/a.py; ln src/a.py again",
    "a hard link of a linked file beside a chmod": "chmod 600 one; ln one three",
    # The file has one name left, and to keep it the undo gives it a second one, in the journal. Written into the
    # file itself, the old content would get into what was kept.
    "one of two names removed, the other written to": "rm two; echo new > one",
    # The new file may have the number of the inode that the old one had.
    "both names removed and one made anew": "rm one two; echo new > one",
    "both names written to by one": "echo new > one",
    # The old name has its content again, in another file: what was moved is not needed there.
    "moved and made anew with the same content": "mv src/a.py moved; cat moved > src/a.py",
    "linked and made anew with the same content": "ln src/a.py again; cat again > k; mv k src/a.py",
}


@pytest.mark.parametrize("command", _COMMANDS.values(), ids=_COMMANDS.keys())
async def test_it_is_taken_back_and_done_again(workshop: Workshop, command: str) -> None:
    one, two = workshop.root / "one", workshop.root / "two"
    one.write_text("first\n")
    os.link(one, two)
    await workshop.is_read()
    before = snapshot(workshop.root)
    done = await workshop.run(command)
    assert "not_undoable" not in done["effects"], done
    after = snapshot(workshop.root)
    undone = await workshop.undo(done["undo_id"])
    assert snapshot(workshop.root) == before, differences(before, snapshot(workshop.root))
    redone = await workshop.undo(undone["undo_id"])
    assert snapshot(workshop.root) == after, differences(after, snapshot(workshop.root))
    await workshop.undo(redone["undo_id"])
    assert snapshot(workshop.root) == before, differences(before, snapshot(workshop.root))
