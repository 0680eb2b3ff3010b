"""Globs as callers write them: `*`, `?`, `[a-z]`, `{a,b}`, and `**` for any number of folders.

A glob without a slash is about the last name of a path, at any depth; one with a slash is about the whole path below
the base.
"""

from __future__ import annotations

import itertools
import os
import re

from msgspec import Struct

from tools.kit.errors import InvalidPattern
from tools.kit.path_patterns import name_pattern, path_pattern

_MOST_ALTERNATIVES = 200
# Each is one level of recursion.
_MOST_BRACES = 100
# Longer than any path, even with many alternatives in braces. A longer glob would take seconds to read.
_MOST_CHARS = 50_000
_MOST_PARTS = 100
# What "**" matches at the start of a glob.
_ANYWHERE = ".+"
# A name without characters that are special to us or to an ignore file, and neither `.` nor `..`.
_PLAIN = re.compile(r"(?!\.{1,2}$)[^*?\[\]{}\\\x00-\x1f]{1,255}")
_ANY_SUFFIX = re.compile(r"(?:\*\*/)?\*([^*?\[\]{}/\\]+)")


# The names of files in a language, where they have several suffixes or its name is not the suffix.
_TYPES = {
    "c": "c,h",
    "cpp": "cc,cpp,cxx,c++,h,hh,hpp,hxx,inl",
    "csharp": "cs",
    "css": "css,scss",
    "elixir": "ex,exs,eex,heex",
    "haskell": "hs,lhs",
    "html": "html,htm,ejs",
    "js": "js,jsx,mjs,cjs,vue",
    "javascript": "js,jsx,mjs,cjs,vue",
    "kotlin": "kt,kts",
    "md": "md,mdx,markdown",
    "markdown": "md,mdx,markdown",
    "perl": "pl,pm",
    "protobuf": "proto",
    "py": "py,pyi",
    "python": "py,pyi",
    "ruby": "rb,rake,gemspec",
    "rust": "rs",
    "sh": "sh,bash,zsh,ksh",
    "ts": "ts,tsx,cts,mts",
    "typescript": "ts,tsx,cts,mts",
    "yaml": "yaml,yml",
}
_NAMED_TYPES = {
    "cmake": "{CMakeLists.txt,*.cmake}",
    "docker": "*Dockerfile*",
    "make": "{Makefile,makefile,GNUmakefile,*.mk}",
}


class Glob(Struct, frozen=True):
    """A parsed glob: a test for relative paths, and patterns that the last part of every match fits.

    The names have no wildcard but `*`. `is_by_name` says that whatever fits a name is a match.
    """

    text: str
    pattern: re.Pattern[str]
    names: tuple[str, ...]
    is_by_name: bool
    only_folders: bool
    # Fits the folders that a match can be in; None where that is all of them.
    folders: re.Pattern[str] | None
    # Plain names of folders, the outermost first, that every match is in.
    lead: tuple[str, ...]

    def matches(self, relative: str) -> bool:
        return self.pattern.match(relative) is not None

    @property
    def suffix(self) -> str | None:
        """For a glob that asks for the end of a name and nothing else, that end."""
        plain = _ANY_SUFFIX.fullmatch(self.text)
        return None if plain is None else plain[1]


def read_glob(text: str) -> Glob:
    """Raises InvalidPattern."""
    _check_length([text])
    only_folders = text.endswith("/") and len(text) > 1
    alternatives = _expand_braces(text.strip("/") if "/" in text.strip("/") or only_folders else text)
    if not text.strip("/"):
        raise InvalidPattern(f"the glob {text!r} is empty", hint='for example "*.py" or "src/**/*.ts"')
    _check_length(alternatives)
    is_anchored = "/" in text.strip("/")
    is_by_name = not is_anchored
    names: list[str] = []
    bodies: list[str] = []
    folders: list[str] = []
    leads: list[tuple[str, ...]] = []
    for alternative in alternatives:
        parts = [part for part in alternative.removeprefix("./").split("/") if part]
        name = parts[-1] if parts and parts[-1] != "**" else "*"
        if has_single_characters(name):
            is_by_name = False
            name = "*" + re.split(r"[*?\[\]\\]", name)[-1]
        names.append(name)
        if not is_anchored:
            parts.insert(0, "**")
        bodies.append(path_pattern(parts))
        folders += filter(None, [_folder_pattern(parts)])
        leads.append(tuple(itertools.takewhile(_PLAIN.fullmatch, parts[:-1])))
    pattern = re.compile("|".join(bodies), re.DOTALL)
    within = None if _ANYWHERE in folders else re.compile("|".join(folders), re.DOTALL)
    common = itertools.takewhile(lambda names: len(set(names)) == 1, zip(*leads, strict=False))
    lead = tuple(names[0] for names in common)
    return Glob(text, pattern, tuple(dict.fromkeys(names)), is_by_name, only_folders, within, lead)


def glob_of_type(name: str) -> Glob:
    """The files of a type by its name in search programs; of one that is not known, the name is the suffix.

    Raises InvalidPattern.
    """
    name = name.strip().lower().lstrip(".")
    if re.fullmatch(r"[\w+#-]{1,20}", name) is None:
        raise InvalidPattern(f"{name[:60]!r} is no type of files", hint='such as "py", or pass a glob such as "*.py"')
    suffixes = _TYPES.get(name, name)
    return read_glob(_NAMED_TYPES.get(name) or f"*.{{{suffixes}}}")


def glob_below(text: str, base: str) -> str:
    """The glob `text` for paths below the folder `base`. Raises InvalidPattern for one that can match nothing there.

    A glob with a leading slash is about the top of the base, unless it is the path of another folder.
    """
    if text.startswith("!"):
        raise InvalidPattern(
            f"the glob {text[:80]!r} says what to leave out, and here a glob says what to find",
            hint='name what you want, such as "*.{py,ts}"',
        )
    _check_length([text])
    alternatives = _split_at_commas(text)
    if len(alternatives) > 1 and all("*" in each for each in alternatives):
        raise InvalidPattern(
            f"the glob {text[:80]!r} fits only names with a comma in them",
            hint=f'for several globs write "{{{",".join(alternatives)}}}"',
        )
    root = base.rstrip("/")
    if not text.startswith("/"):
        return text
    if text.startswith(f"{root}/"):
        return f".{text[len(root) :]}"
    top = text.split("/")[1]
    if _PLAIN.fullmatch(top) and not os.path.lexists(f"{root}/{top}") and os.path.isdir(f"/{top}"):  # noqa: PTH112
        plain = list(itertools.takewhile(_PLAIN.fullmatch, text.strip("/").split("/")[:-1]))
        rest = text.strip("/").split("/", len(plain))[-1]
        raise InvalidPattern(
            f"the glob {text[:200]!r} can match nothing: it is about paths below the base, which is {base}",
            hint=f'pass base "/{"/".join(plain)}" and glob "{rest}"',
        )
    return text


def _split_at_commas(text: str) -> list[str]:
    """What stands between the commas that are outside of braces."""
    parts, depth = [""], 0
    for letter in text:
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def _check_length(alternatives: list[str]) -> None:
    if sum(map(len, alternatives)) > _MOST_CHARS:
        raise InvalidPattern(f"the glob stands for more than {_MOST_CHARS} characters", hint="ask with several globs")
    if any(each.count("/") >= _MOST_PARTS for each in alternatives):
        raise InvalidPattern(f"the glob has more than {_MOST_PARTS} parts")


def has_single_characters(text: str) -> bool:
    """Whether something in a glob stands for one character; to ripgrep, it stands for one byte."""
    return not {"?", "[", "\\"}.isdisjoint(text)


def _folder_pattern(parts: list[str]) -> str:
    """A regex for the folders that are passed on the way to what the parts stand for; empty if there are none."""
    deep = parts.index("**") if "**" in parts else len(parts)
    pattern = _ANYWHERE if deep < len(parts) else ""
    for part in reversed(parts[: min(deep, len(parts) - 1)]):
        pattern = name_pattern(part) + (f"(?:/{pattern})?" if pattern else "")
    return pattern


def _expand_braces(text: str) -> list[str]:
    """The glob once for each way to choose from its braces."""
    if text.count("{") > _MOST_BRACES:
        raise InvalidPattern(f"the glob {text[:60]!r} has more than {_MOST_BRACES} braces")
    start = text.find("{")
    if start == -1:
        return [text]
    depth, commas = 0, [start]
    for at in range(start, len(text)):
        letter = text[at]
        if letter == "{":
            depth += 1
        elif letter == "}":
            depth -= 1
            if depth == 0:
                commas.append(at)
                break
        elif letter == "," and depth == 1:
            commas.append(at)
    else:
        raise InvalidPattern(f"the glob {text!r} has a {{ without its }}")
    head, tail = text[:start], text[commas[-1] + 1 :]
    found: list[str] = []
    for begin, end in itertools.pairwise(commas):
        found += _expand_braces(head + text[begin + 1 : end] + tail)
        if len(found) > _MOST_ALTERNATIVES:
            raise InvalidPattern(f"the glob {text[:60]!r} stands for more than {_MOST_ALTERNATIVES} patterns")
    return found
