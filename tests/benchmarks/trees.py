"""The files that benchmarks work on, kept in the cache folder of the tests unless a row changes them."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path

from tests.support.cache import kept

NEEDLE = "NEEDLE_IN_HAY"
PATCHED = "line 000250000 "
_LINES = 10_500_000


def tree(packages: int = 100) -> Path:
    """A thousand files in each package, in 50 folders; 12 of all files have the needle, all have words."""
    return kept(f"benchmark-tree-of-{packages * 1_000}-files", partial(_fill_tree, packages)) / "tree"


def gigabyte() -> Path:
    """10,500,000 numbered lines."""
    return kept("benchmark-file-of-1-GB", _fill_gigabyte) / "gigabyte"


def write_fifty_megabytes(path: Path) -> None:
    """500,000 numbered lines, one of which begins with what rows patch."""
    with open(path, "wb") as file:
        file.writelines(b"line %09d %s\n" % (n, b"y" * 85) for n in range(500_000))


def _fill_tree(packages: int, cache: Path) -> None:
    root = cache / "tree"
    chance = random.Random(1)
    words = [f"word{number}" for number in range(500)]
    for outer in range(packages):
        for inner in range(50):
            folder = root / f"pkg{outer:03}" / f"mod{inner:02}"
            folder.mkdir(parents=True)
            for number in range(20):
                lines = (" ".join(chance.choices(words, k=8)) for _ in range(chance.randint(5, 30)))
                ending = chance.choice([".py", ".py", ".ts", ".md", ".txt"])
                (folder / f"file{number:02}{ending}").write_text("\n".join(lines))
    for number in range(12):
        (root / f"pkg{number % 5:03}" / f"needle{number}.py").write_text(f"x\n{NEEDLE} = 1\n")


def _fill_gigabyte(cache: Path) -> None:
    with open(cache / "gigabyte", "wb") as file:
        for start in range(0, _LINES, 1_000):
            file.write(b"".join(b"line %09d %s\n" % (n, b"x" * (75 + n % 20)) for n in range(start, start + 1_000)))
