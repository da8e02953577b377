"""Decodes free text as a reader sees it, before the detectors search it.

Percent signs, entities and escapes of JSON are decoded. Full-width signs become narrow, and invisible signs are
removed.

Invariant: a find in the decoded text has a place in the text as it was written. A find that begins or ends within an
escape takes all of that escape. Every text is accepted.
"""

import html
import re
from array import array
from bisect import bisect_right
from urllib.parse import unquote

_PERCENT, _HEX = "%(?:25)*+", "[0-9A-Fa-f]"
_NEXT = f"{_PERCENT}[89ABab]{_HEX}"
_OF_URLS = (
    f"{_PERCENT}[CDcd]{_HEX}{_NEXT}|{_PERCENT}[Ee]{_HEX}(?:{_NEXT}){{2}}|{_PERCENT}[Ff][0-7](?:{_NEXT}){{3}}"
    f"|{_PERCENT}{_HEX}{{2}}"
)
_OF_JSON = rf"\\u[Dd][89ABab]{_HEX}{{2}}\\u[Dd][C-Fc-f]{_HEX}{{2}}|\\u{_HEX}{{4}}|\\[bfnrt/\"\\]"
# Signs without a width: Default_Ignorable_Code_Point, annotations, keycaps.
UNSEEN = (
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u20e3\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_UNSEEN_SIGN = re.compile(UNSEEN)
# Escapes are read a few at a time, because each is an object meanwhile; a sign of several bytes is not split.
_ESCAPES = re.compile(
    rf"(?:{_OF_URLS}){{1,12}}+|(?:{_OF_JSON}){{1,12}}+"
    r"|&(?:amp;)*+(?:[A-Za-z]{2,31}+|#0*+[0-9]{1,7}+|#[xX]0*+[0-9A-Fa-f]{1,6}+);?"
    rf"|{UNSEEN}++"
)
_ENCODED_PERCENT = re.compile(r"%(?:25)++(?=[0-9A-Fa-f]{2})")
_PIECES = 256
_CODE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.))")
_SHORT = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
# Full-width forms stand 0xfee0 above ASCII.
_WIDE = {narrow + 0xFEE0: narrow for narrow in range(0x21, 0x7F)}
_WIDE_SIGN = re.compile("[\uff01-\uff5e]")


class Unescaped:
    """A text without its escapes, and the places of its signs in the text as it was.

    Args:
        text: As it was written.
        rounds: How often at most: escapes may be escaped, in another way too.

    Attributes:
        text: Without escapes.
        is_other: There were some, or wide or unseen signs.
    """

    def __init__(self, text: str, rounds: int = 3) -> None:
        # For each escape: the start and end of its decoded text, and the place where the escape was written.
        self._starts, self._ends = array("i"), array("i")
        self._from, self._to = array("i"), array("i")
        chunks: list[str] = []
        pieces: list[str] = []
        at = length = 0
        for escape in _ESCAPES.finditer(text) if _may_hide(text) else ():
            plain, meant = text[at : escape.start()], _meant(escape.group())
            at = escape.end()
            pieces += (plain, meant)
            length += len(plain) + len(meant)
            self._starts.append(length - len(meant))
            self._ends.append(length)
            self._from.append(escape.start())
            self._to.append(at)
            if len(pieces) > _PIECES:
                chunks.append("".join(pieces))
                pieces.clear()
        undone = "".join([*chunks, *pieces, text[at:]]) if at else text
        self.text = undone.translate(_WIDE) if _WIDE_SIGN.search(undone) else undone
        self.is_other = self.text != text
        deeper = Unescaped(self.text, rounds - 1) if self.is_other and rounds > 1 else None
        self._deeper = deeper if deeper is not None and deeper.is_other else None
        if self._deeper is not None:
            self.text = self._deeper.text

    def written(self, start: int, end: int) -> tuple[int, int]:
        """Where a span of the text lies in the original."""
        if self._deeper is not None:
            start, end = self._deeper.written(start, end)
        return self._place(start, self._from), self._place(end - 1, self._to, last=1)

    def _place(self, at: int, edge: "array[int]", last: int = 0) -> int:
        index = bisect_right(self._starts, at) - 1
        if index < 0:
            return at + last
        return edge[index] if at < self._ends[index] else at + last - self._ends[index] + self._to[index]


def _may_hide(text: str) -> bool:
    """Whether something in a text may not be what it looks like."""
    return any(sign in text for sign in "%\\&") or not (text.isascii() or _UNSEEN_SIGN.search(text) is None)


def _meant(escape: str) -> str:
    """What it stands for; half of a pair, which is no text, as the sign for what cannot be read."""
    match escape[0]:
        case "%":
            return unquote(_ENCODED_PERCENT.sub("%", escape))
        case "\\":
            signs = _CODE.sub(lambda one: chr(int(one[1], 16)) if one[1] else _SHORT.get(one[2], one[2]), escape)
            return signs.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case "&":
            return html.unescape(escape.replace("amp;", ""))
    return ""
