"""What each character of a text is: visible or not, of a word or not, and whether a part of a name begins with it.

The letters of ASCII are told apart by arithmetic over the whole text at once; only what lies beyond is looked up.
"""

import re
from functools import cache

import numpy as np
import numpy.typing as npt

from tools.kit.records import record
from tools.pruning.engine.arrays import Bools, Codes, Ints

BEYOND_ASCII = 127
# Letters of languages that put no space between words: Thai and its neighbours, Chinese, Japanese.
UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
_PLANE = 1 << 16
_LOWER_BIT = 0x20
_IS_VISIBLE, _IS_WORD, _IS_DIGIT = 1, 2, 4


@record
class Characters:
    """One entry per character, with one more for the newline that ends the last line.

    `codes` is the character, and for letters and digits `folded` is the same in lower case; both are `BEYOND_ASCII` for
    whatever lies there. `begins_part` is set where one of the parts begins that `camelCase` and `snake_case` are put
    together from.
    """

    codes: Codes
    folded: Codes
    is_visible: Bools
    is_word: Bools
    begins_part: Bools


def characters_of(text: str) -> Characters:
    codes, beyond, wide = _read(f"\n{text}\n")
    is_upper = (codes - ord("A")) < 26
    is_lower = (codes - ord("a")) < 26
    is_digit = (codes - ord("0")) < 10
    is_visible = (codes - ord("!")) < BEYOND_ASCII - ord("!")
    folded = codes | np.uint8(_LOWER_BIT)
    is_letter = is_lower
    if beyond.size:
        # Beyond ASCII every letter counts as a small one, and so do signs that are written like one.
        kinds, small = _beyond_ascii()
        kind = kinds[wide]
        is_visible[beyond] = kind & _IS_VISIBLE
        is_digit[beyond] = kind & _IS_DIGIT
        is_letter = is_lower.copy()
        is_letter[beyond] = (kind & (_IS_WORD | _IS_DIGIT)) == _IS_WORD
        folded[beyond] = small[wide]
    is_word = is_letter | is_upper | is_digit | (codes == ord("_"))
    # Of two masks, a > b is where the first is set and the second is not.
    begins_part = (is_letter[1:-1] > is_letter[:-2]) > (is_lower[1:-1] & is_upper[:-2])
    begins_part |= is_upper[1:-1] > (is_upper[:-2] > is_lower[2:])
    begins_part |= is_digit[1:-1] > is_digit[:-2]
    return Characters(
        codes=codes[1:],
        folded=folded[1:],
        is_visible=is_visible[1:],
        is_word=is_word[1:],
        begins_part=begins_part,
    )


def folded(word: str) -> bytes:
    """The letters of a word in lower case as `Characters.folded` has them."""
    return bytes(min(ord(character), BEYOND_ASCII) for character in word)


def _read(text: str) -> tuple[Codes, Ints, npt.NDArray[np.uint32]]:
    """Give every character's code, where those beyond ASCII stand, and their codes as far as the table goes."""
    if text.isascii():
        return np.frombuffer(text.encode("ascii"), dtype=np.uint8), _NOWHERE, _NOTHING
    wide = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    beyond = np.flatnonzero(wide > BEYOND_ASCII)
    return np.minimum(wide, BEYOND_ASCII).astype(np.uint8), beyond, np.minimum(wide[beyond], _PLANE - 1)


_NOWHERE = np.zeros(0, dtype=np.int64)
_NOTHING = np.zeros(0, dtype=np.uint32)


@cache
def _beyond_ascii() -> tuple[Codes, Codes]:
    """Tell letters, digits and spaces apart as `\\w`, `\\d` and `\\s` do.

    Where words are not set apart, every letter stands for itself as a mark does; so does all that lies beyond the
    first plane.
    """
    kinds = np.full(_PLANE, _IS_VISIBLE, dtype=np.uint8)
    small = np.full(_PLANE, BEYOND_ASCII, dtype=np.uint8)
    is_unspaced = re.compile(f"[{UNSPACED}]").match
    for code in range(BEYOND_ASCII + 1, _PLANE):
        character = chr(code)
        if is_unspaced(character):
            continue
        if character.isalnum():
            kinds[code] |= _IS_WORD | (_IS_DIGIT if character.isdecimal() else 0)
            small[code] = min(ord(character.lower()[0]), BEYOND_ASCII)
        elif character.isspace():
            kinds[code] = 0
    return kinds, small
