"""What a text is found to be where the caller does not say, and how documents are divided into sections."""

import pytest

from tools.pruning import engine
from tools.pruning.engine import SourceType

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


@pytest.mark.parametrize("underline", ["====", "----", "####"])
def test_a_heading_with_both_marks_is_one_heading(underline: str) -> None:
    """It was taken for two, the second within the first, and the search for its outermost section never ended."""
    text = "\n".join(f"# Part {n}\n{underline}\n\nThis is about thing {n}.\n" for n in range(40))
    selection = engine.prune(text, "thing 7", source_type="docs", max_prune_ratio=0.7, min_keep_lines=0)
    kept = [text.split("\n")[number - 1] for number in selection.kept()]
    assert {"# Part 7", "This is about thing 7."} <= set(kept)
