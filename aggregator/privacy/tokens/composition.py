"""Computes Unicode's composed form (NFC) in time that grows with the text, whatever combining marks it contains.

`unicodedata` sorts the marks behind a base character by insertion. That takes the square of their number, and the
interpreter is locked meanwhile. Marks that are already in order cost nothing, so the marks of a long text are put in
order first (Unicode 3.11, canonical order).
Invariant: the result equals `unicodedata.normalize("NFC", text)`, character for character.
"""

import io
import unicodedata

# Below it the square is no cost worth speaking of.
_SHORT = 256


def composed(text: str) -> str:
    """The composed form (NFC) of a text."""
    if len(text) <= _SHORT or unicodedata.is_normalized("NFC", text):
        return unicodedata.normalize("NFC", text)
    out, marks = io.StringIO(), dict[int, io.StringIO]()
    for sign in text:
        for part in unicodedata.normalize("NFD", sign):
            order = unicodedata.combining(part)
            if order:
                marks.setdefault(order, io.StringIO()).write(part)
                continue
            _put(marks, out)
            out.write(part)
    _put(marks, out)
    return unicodedata.normalize("NFC", out.getvalue())


def _put(marks: dict[int, io.StringIO], out: io.StringIO) -> None:
    """The marks behind a base in their order; those of one class stay as they came."""
    out.writelines(marks[order].getvalue() for order in sorted(marks))
    marks.clear()
