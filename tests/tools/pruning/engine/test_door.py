"""The door of the engine: detection, deadlines, warnings, rendering, and what importing it costs."""

import subprocess
import sys

import pytest

from tools.pruning import engine
from tools.pruning.engine import Annotation, DroppedBlock, GaveUp, Rendered, Selection, SourceType

CODE = "\n".join(f"def f{n}(x):\n    y = x + {n}\n    return y\n" for n in range(30))
DOCS = "\n".join(
    f"# Part {n}\n\nThis part explains the thing with number {n}, and why it is here.\n" for n in range(30)
)
LOGS = "\n".join(f"2024-05-01 10:00:{n % 60:02} INFO served request {n}" for n in range(90))


GUIDE = """Pools
~~~~~

A pool keeps connections open between requests, so that most requests find one.

.. code-block:: python

    pool = Pool(size=3)
    pool.open()
    pool.acquire(timeout=3)
    pool.close()

Close the pool when the program ends, or the server waits for it.
"""
README = """## Install

Run the installer and wait until it says that it is done.

```sh
make install;
cd build;
make check;
make clean;
```

Then start the program with the name of the folder to watch.
"""
PROSE_IN_CODE = """\"\"\"
This module keeps a pool of connections open between requests.

It is a long story, and here it is told in prose at the margin.
And it goes on for some lines more than there is code below it.
\"\"\"
# The size was found by trying, and a larger one is no better.
SIZE = 3

def acquire(pool):
    return pool.pop()
"""


@pytest.mark.parametrize(
    ("text", "kind"),
    [(CODE, "code"), (DOCS, "docs"), (LOGS, "logs"), (GUIDE, "docs"), (README, "docs"), (PROSE_IN_CODE, "code")],
)
def test_the_source_type_is_detected_where_it_is_not_given(text: str, kind: SourceType) -> None:
    assert engine.prune(text, "thing 7", max_prune_ratio=0.7, min_keep_lines=0).source_type == kind


def test_a_given_source_type_is_believed() -> None:
    assert engine.prune(CODE, "f7", source_type="docs", max_prune_ratio=0.7, min_keep_lines=0).source_type == "docs"


def test_a_deadline_that_has_passed_stops_the_engine() -> None:
    with pytest.raises(GaveUp):
        engine.prune(CODE, "f7", max_prune_ratio=0.7, min_keep_lines=0, deadline=lambda: True)


def test_the_deadline_is_asked_throughout() -> None:
    asked: list[None] = []

    def deadline() -> bool:
        asked.append(None)
        return len(asked) > 4

    with pytest.raises(GaveUp):
        engine.prune(CODE, "f7", max_prune_ratio=0.7, min_keep_lines=0, deadline=deadline)


def test_more_lines_wanted_than_there_are_keeps_all_with_a_warning() -> None:
    selection = engine.prune("a\nb\nc\n", "a", source_type="docs", max_prune_ratio=0.9, min_keep_lines=40)
    assert selection == Selection(dropped=(), total_lines=4, source_type="docs", warnings=("constraints_unmet",))


def test_a_block_is_rendered_as_a_marker_and_annotated() -> None:
    selection = Selection(dropped=(DroppedBlock(2, 4, "accessoire", 2, 8),), total_lines=6, source_type="code")
    marker = "⟦PRUNÉ: prune_id=prn_01J lignes 2-4 (3) raison=accessoire⟧"
    annotation = Annotation(2, 4, 3, "accessoire", marker)
    assert engine.render("a\nb\nc\nd\ne\n", selection, "prn_01J") == Rendered(f"a\n{marker}\ne\n", (annotation,))


def test_numbered_lines_have_their_original_numbers_and_markers_have_none() -> None:
    selection = Selection(dropped=(DroppedBlock(2, 4, "accessoire", 2, 8),), total_lines=6, source_type="code")
    rendered = engine.render("a\nb\nc\nd\ne\n", selection, "prn_1", annotate_lines=True)
    assert rendered.pruned_text == "1│ a\n⟦PRUNÉ: prune_id=prn_1 lignes 2-4 (3) raison=accessoire⟧\n5│ e\n"


def test_without_markers_the_annotations_still_carry_them() -> None:
    selection = Selection(dropped=(DroppedBlock(1, 2, "accessoire", 0, 4),), total_lines=3, source_type="code")
    rendered = engine.render("a\nb\nc", selection, "prn_1", include_markers=False)
    assert rendered.pruned_text == "c"
    assert rendered.annotations[0].marker == "⟦PRUNÉ: prune_id=prn_1 lignes 1-2 (2) raison=accessoire⟧"


def test_a_selection_of_another_text_is_refused() -> None:
    selection = Selection(dropped=(DroppedBlock(2, 3, "accessoire", 2, 5),), total_lines=3, source_type="code")
    with pytest.raises(ValueError, match="of another text"):
        engine.render("a\nb", selection, "prn_1")


def test_importing_the_engine_does_not_load_numpy() -> None:
    script = "import sys, tools.pruning.engine; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
