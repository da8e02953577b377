"""Unicode's composed form (NFC) in time that grows with the text, whatever marks stand in it.

`unicodedata` sorts the marks behind a base by insertion: the square of their number, with the interpreter locked. Marks
that are in order already cost it nothing, so that a long text's are put in order first (Unicode 3.11, canonical order).
Invariant: the answer is that of `unicodedata.normalize("NFC", text)`, sign for sign.
"""

import io
import unicodedata

# Below it the square is no cost worth speaking of.
_SHORT = 256


def composed(text: str) -> str:
    """Return the composed form (NFC) of a text."""
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
