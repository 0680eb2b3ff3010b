"""The terms of a question and their weights; also how identifiers are split and words are stemmed.

A question is data. It may be a sentence, a commit message, a list of names or a pasted error; nothing in it is
followed as an instruction.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from math import ceil

from msgspec import Struct

# Scripts that put no space between words: Thai and its neighbours, Chinese, Japanese.
UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
# `stem` removes at most this many letters from a word, and leaves at least `SHORTEST_STEM`.
LONGEST_ENDING = 5
SHORTEST_STEM = 3
# Kin are words that begin alike: with at least `KIN_LETTERS`, and with the whole shorter word or this share of the
# longer one.
KIN_LETTERS = 4
_KIN_SHARE = 0.6
_DOUBLED_CONSONANTS = frozenset("bdfgmnprt")

# Besides words: what stands between backticks, and what looks like code without them, as in 'name', --name, name() and
# name=.
_WORD = re.compile(
    r"(?P<quoted>`[^`\n]+`)|(?P<code>'[\w.]+'|\"[\w.]+\"|(?<!\w)--?\w[\w-]*|\w[\w.]*(?:\(\)|=(?!=)))"
    r"|\w+(?:[.:\-/]+\w+)*"
)
# The part of a project that a commit message names first, as in "fix(parser): …", "parser: …" and "[3.12] …". Within a
# file of that part the name is everywhere. "KeyError: …" is none: it is what the question is about.
_TOPIC = re.compile(r"\s*(?:\[[^\]\n]*\]\s*)*(?:(?:[a-z][\w/.-]*(?:\([^)\n]*\))?|\w+\([^)\n]*\))!?:\s)?")
_NAME = re.compile(r"\w+")
# Of the name of a source file. It tells nothing of the lines of that file, and little of those of another.
_FILE_ENDING = re.compile(r"(?<=\w)\.(?:py|jsx?|tsx?|go|rs|java|kt|c|h|cpp|cc|hpp|cs|rb|php|md)(?=[`'\"]?$)")
# What an agent says of what it is about to do, as in "I'll start by reading the relevant files": it holds for any text.
_ASIDE = re.compile(
    r"\b(?:(?:let me|let's|let us|i'll|i will|i need to|i should|we need to|i'm going to|i want to)"
    r"(?: (?:now|first|also|quickly|just|then|start by|begin by|take a))*"
    r"(?: (?:look(?:ing)?(?: at| into)?|read(?:ing)?|check(?:ing)?|see(?:ing)?|examin(?:e|ing)|explor(?:e|ing)"
    r"|review(?:ing)?|start(?:ing)?|understand(?:ing)?|find|verify|implement|update|fix)\b)?"
    r"|to (?:better )?understand|implement the following plan|in parallel|good question|yeah|yep"
    r"|(?:the )?(?:relevant|key|current|existing|necessary|critical) (?:files?|code|implementation|state|structure))\b",
    re.IGNORECASE,
)
_UNSPACED_RUN = re.compile(f"[{UNSPACED}]+")
_PART = re.compile(rf"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z{UNSPACED}]+|\d+")
_NOISE = re.compile(r"https?://\S+|#\d+|^[ \t]*[\w-]+-by:.*$|\b[0-9a-f]{7,40}\b", re.MULTILINE | re.IGNORECASE)
_SUBJECT_WEIGHT = 1.0
_BODY_WEIGHT = 0.45
_TOPIC_WEIGHT = 0.3
_FILE_WEIGHT = 0.3
_NAME_WEIGHT = 1.4
_QUOTED_WEIGHT = 1.6
# Of the weight of the parts of a name, which match with it.
_WHOLE_NAME_SHARE = 0.8
# Short, since the text may divide a name where the question does not: `filename` also finds `file_name`.
_NAME_PREFIX = 3
_MAX_TERMS = 24
_MAX_CHARS = 10_000
# The words of a text recur: in a ranking of all its lines, a stem takes 0.05 µs in the place of 0.36.
_CACHED_STEMS = 4096

_STOP_WORDS = frozenset(
    """
    a about after again all also an and any are as at back be because been before being both but by can cannot could
    did do does doing don done down each either else even ever every few for from further get gets had has have having
    he her here him his how however i if in instead into is it its itself just let like made make makes making many may
    me might more most much must my need needed needs no nor not now of off on once one only onto or other our out
    over own per rather same shall she should since so some still such than that the their them then there therefore
    these they this those though through thus to too under until up upon us very via was way we well were what when
    where whether which while who whose why will with within without would yes yet you your
    able already always another around better between correct correctly different due first good last new
    next non old properly really several simple simply two using
    add added adding adds allow allowed allows avoid bump change changed changes changing clean cleanup closes commit
    consistent create created enable ensure ensures extend fix fixed fixes fixing follow handle implement implemented
    implements improve improved improvement improvements introduce issue issues merge minor move moved prevent prevents
    pull refactor refactoring refs related release remove removed removes removing rename renamed replace replaced
    request resolves revert reverts rework rewrite set show simplify small support supported supports sure switch
    readme md tweak tweaks update updated updates use used useful uses work works
    st nd rd th
    au aux avec ce ces cette comment dans de des du elle en est et eux fait il ils je la le les leur lui mais ne nous
    ou par pas pour pourquoi que quel quelle qui sa sans se ses son sont sur un une vous
    """.split()
)
# The stems of words like `documentation`: questions with one of them are about comments.
_PROSE_STEMS = frozenset("clarify comment doc docstr document documentat exampl grammar reword spell typo word".split())


class Term(Struct, frozen=True):
    """A stem; with `is_name` a whole identifier in lower case without underscores.

    A part of a word can match only if it begins with `prefix`, in lower case; with `is_name` this holds for the first
    part of the identifier. With `is_bigram` the term is two neighbouring letters of a script without spaces, and
    every occurrence matches.
    """

    key: str
    weight: float
    is_name: bool
    prefix: str
    is_bigram: bool = False


class Question(Struct, frozen=True):
    """`terms` are in order of weight, with the bigrams last. `is_about_comments`: it asks for docs or comments."""

    terms: tuple[Term, ...]
    is_about_comments: bool


class _Weights:
    """The weights of the terms while a question is read."""

    def __init__(self) -> None:
        self._weights: dict[tuple[str, bool], float] = {}
        self._first_parts: dict[str, str] = {}
        self._bigrams: dict[str, float] = {}

    def add(self, key: str, weight: float, *, first_part: str | None = None) -> None:
        """Add a stem, or with `first_part` an identifier. The strongest mention counts, and each other one a little."""
        is_name = first_part is not None
        known = self._weights.get((key, is_name), 0.0)
        self._weights[key, is_name] = max(known, weight) + 0.15 * min(known, weight)
        if first_part is not None:
            self._first_parts[key] = first_part

    def add_bigrams(self, run: str, weight: float) -> None:
        """Add every two neighbours: where words begin is not known, and pairs across words are seldom found."""
        for bigram in [run[at : at + 2] for at in range(len(run) - 1)] or [run]:
            self._bigrams[bigram] = max(weight, self._bigrams.get(bigram, 0.0))

    def terms(self) -> tuple[Term, ...]:
        ranked = sorted(self._weights.items(), key=lambda item: -item[1])[:_MAX_TERMS]
        terms = [
            Term(key, weight * _WHOLE_NAME_SHARE, True, self._first_parts[key][:_NAME_PREFIX])
            if is_name
            else Term(key, weight, False, _common_prefix(key))
            for (key, is_name), weight in ranked
            if len(key) > 1 or key.isdigit()
        ]
        bigrams = [*self._bigrams.items()][:_MAX_TERMS]
        return (*terms, *(Term(bigram, weight, False, "", is_bigram=True) for bigram, weight in bigrams))


def read_question(text: str) -> Question:
    """Read a question. The first line weighs more than the rest, and identifiers more than words."""
    weights = _Weights()
    stems: set[str] = set()
    said = _ASIDE.sub(" ", _NOISE.sub(" ", text[:_MAX_CHARS]).replace("’", "'"))
    lines = [line for line in said.split("\n") if _NAME.search(line)]
    for line, weight in _weigh(lines):
        for run in _UNSPACED_RUN.findall(line):
            weights.add_bigrams(run, weight)
        stems.update(_read_line(_UNSPACED_RUN.sub(" ", line), weight, weights))
    return Question(weights.terms(), is_about_comments=not stems.isdisjoint(_PROSE_STEMS))


def _weigh(lines: list[str]) -> Iterator[tuple[str, float]]:
    """The lines with their weights. The first one comes in two pieces: the topic before it weighs less."""
    for line in lines[:1]:
        topic = _TOPIC.match(line)
        after = topic.end() if topic else 0
        yield line[:after], _TOPIC_WEIGHT
        yield line[after:], _SUBJECT_WEIGHT
    for line in lines[1:]:
        yield line, _BODY_WEIGHT


def _read_line(line: str, weight: float, weights: _Weights) -> Iterator[str]:
    """Add the terms of a line to `weights`; yields the stem of every word, stop words included."""
    previous = ""
    for found in _WORD.finditer(line):
        is_quoted = found["quoted"] is not None
        is_code = is_quoted or found["code"] is not None
        stems, is_file = _FILE_ENDING.subn("", found[0])
        names = _NAME.findall(stems)
        for name in names:
            parts = split_identifier(name)
            yield from map(stem, parts)
            is_compound = len(parts) > 1 or len(names) > 1
            emphasis = weight * (
                _FILE_WEIGHT
                if is_file
                else _QUOTED_WEIGHT
                if is_quoted
                else _NAME_WEIGHT
                if is_code or is_compound
                else 1.0
            )
            for part in parts:
                if is_code or part not in _STOP_WORDS:
                    weights.add(stem(part), emphasis)
            if is_quoted or len(parts) > 1:
                weights.add(name.replace("_", "").lower(), emphasis, first_part=parts[0] if parts else "")
            elif previous and parts and not _STOP_WORDS.intersection((previous, parts[0])):
                # Two words of a sentence may be one identifier in the text.
                weights.add(previous + parts[0], weight, first_part=previous)
            previous = parts[0] if len(parts) == 1 else ""


def split_identifier(word: str) -> list[str]:
    """Split `camelCase`, `snake_case` and `HTTPServer2` into lower-case parts."""
    return [part.lower() for part in _PART.findall(word)]


@lru_cache(_CACHED_STEMS)
def stem(word: str) -> str:
    """Stem a lower-case English word, so that `parse`, `parsed`, `parser` and `parsing` are one term.

    A stem need not be a word, since question and text are stemmed alike. Words of up to three letters stay as they are.
    """
    if len(word) <= 3 or not word.isalpha():
        return word
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-3] + "y" if word.endswith("ies") and len(word) > 4 else word[:-1]
    for suffix in ("ing", "ed", "er", "or", "ion", "ly"):
        if word.endswith(suffix) and len(word) - len(suffix) >= 4:
            return _trim(word[: -len(suffix)])
    return _trim(word)


def are_kin(one: str, other: str) -> bool:
    """Whether two words begin alike, as `config` and `configuration` or `deprecate` and `deprecation` do."""
    shorter, longer = (one, other) if len(one) < len(other) else (other, one)
    letters = max(KIN_LETTERS, ceil(_KIN_SHARE * len(longer)))
    return longer[:letters] == shorter[:letters] or (len(shorter) >= KIN_LETTERS and longer.startswith(shorter))


def _trim(word: str) -> str:
    """Remove a doubled consonant or a final e."""
    if len(word) > 4 and word[-1] == word[-2] and word[-1] in _DOUBLED_CONSONANTS:
        return word[:-1]
    return word[:-1] if len(word) > 3 and word.endswith("e") else word


def _common_prefix(stem_of_word: str) -> str:
    """What every word with this stem begins with: `policy` is the stem of `policies`, too."""
    return stem_of_word[:-1] if stem_of_word.endswith("y") else stem_of_word
