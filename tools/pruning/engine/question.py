"""What a question asks for: its terms, and how much each one says.

A question is data. It may be a sentence, a commit message, a list of names or a pasted error; nothing in it is
followed as an instruction.
"""

import re
from collections.abc import Iterator
from functools import lru_cache

from tools.kit.records import record
from tools.pruning.engine.characters import UNSPACED
from tools.pruning.engine.stems import stem
from tools.pruning.engine.words import parts_of

_WORD = re.compile(r"`[^`\n]+`|\w+(?:[.:\-/]+\w+)*")
_NAME = re.compile(r"\w+")
_UNSPACED_RUN = re.compile(f"[{UNSPACED}]+")
_NOISE = re.compile(r"https?://\S+|#\d+|^[ \t]*[\w-]+-by:.*$|\b[0-9a-f]{7,40}\b", re.MULTILINE | re.IGNORECASE)
_SUBJECT_WEIGHT = 1.0
_BODY_WEIGHT = 0.45
_NAME_WEIGHT = 1.4
_QUOTED_WEIGHT = 1.6
# The text may divide a name where the question does not: `file_name` is asked for as `filename`.
_NAME_PREFIX = 3
_MAX_TERMS = 24
_MAX_CHARS = 10_000
_REMEMBERED_QUESTIONS = 16

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
_PROSE_WORDS = "clarify comment doc docstring document documentation example grammar reword spelling typo wording"
_PROSE_STEMS = frozenset(map(stem, _PROSE_WORDS.split()))


@record
class Term:
    """A stem, or for `is_name` a whole identifier in lower case without underscores.

    What answers to the term, a part of a word or for `is_name` the first part, begins with `prefix` in lower case. What
    begins with it need not answer. For `is_piece` the term is two letters of a language without spaces, which are
    found wherever they stand.
    """

    key: str
    weight: float
    is_name: bool
    prefix: str
    is_piece: bool = False


@record
class Question:
    """`terms` has what discriminates, the weightiest first and pieces last.

    `asks_for_prose` is set when it is about comments.
    """

    terms: tuple[Term, ...]
    asks_for_prose: bool


def question_of(text: str) -> Question:
    """Read a question. The last few are remembered: what is asked of one text is often asked of the next."""
    return _read(text[:_MAX_CHARS])


@lru_cache(maxsize=_REMEMBERED_QUESTIONS)
def _read(text: str) -> Question:
    weights: dict[tuple[str, bool], float] = {}
    first_parts: dict[str, str] = {}
    everything: set[str] = set()
    pieces: dict[str, float] = {}
    for weight, line in _weighted_lines(_NOISE.sub(" ", text)):
        for run in _UNSPACED_RUN.findall(line):
            for piece in _pieces(run):
                pieces[piece] = max(weight, pieces.get(piece, 0.0))
        previous = ""
        for found in _WORD.findall(_UNSPACED_RUN.sub(" ", line)):
            is_quoted = found.startswith("`")
            names = _NAME.findall(found)
            for name in names:
                parts = parts_of(name)
                everything.update(map(stem, parts))
                is_compound = len(parts) > 1 or len(names) > 1
                emphasis = weight * (_QUOTED_WEIGHT if is_quoted else _NAME_WEIGHT if is_compound else 1.0)
                for part in parts:
                    if is_quoted or part not in _STOP_WORDS:
                        _raise(weights, (stem(part), False), emphasis)
                if is_quoted or len(parts) > 1:
                    _raise(weights, (_whole(name), True), emphasis)
                    first_parts[_whole(name)] = parts[0] if parts else ""
                elif previous and parts and not _STOP_WORDS.intersection((previous, parts[0])):
                    _raise(weights, (previous + parts[0], True), weight)
                    first_parts[previous + parts[0]] = previous
                previous = parts[0] if len(parts) == 1 else ""
    ranked = sorted(weights.items(), key=lambda item: -item[1])[:_MAX_TERMS]
    terms = tuple(
        Term(key, weight, is_name, first_parts[key][:_NAME_PREFIX] if is_name else _shared(key))
        for (key, is_name), weight in ranked
        if len(key) > 1 or key.isdigit()
    )
    terms += tuple(Term(piece, weight, False, "", is_piece=True) for piece, weight in [*pieces.items()][:_MAX_TERMS])
    return Question(terms=terms, asks_for_prose=not _PROSE_STEMS.isdisjoint(everything))


def _pieces(run: str) -> list[str]:
    """Take every two neighbours together: which of them are a word is not known, and what is none is seldom found."""
    return [run[at : at + 2] for at in range(len(run) - 1)] or [run]


def _whole(name: str) -> str:
    return name.replace("_", "").lower()


def _shared(stem_of_word: str) -> str:
    """What every word with this stem begins with: `policy` is the stem of `policies`."""
    return stem_of_word[:-1] if stem_of_word.endswith("y") else stem_of_word


def _weighted_lines(text: str) -> Iterator[tuple[float, str]]:
    lines = [line for line in text.split("\n") if line.strip()]
    for position, line in enumerate(lines):
        yield (_SUBJECT_WEIGHT if position == 0 else _BODY_WEIGHT), line


def _raise(weights: dict[tuple[str, bool], float], key: tuple[str, bool], weight: float) -> None:
    """A repeated term gains a little; a stronger mention replaces a weaker one."""
    known = weights.get(key, 0.0)
    weights[key] = max(known, weight) + 0.15 * min(known, weight)
