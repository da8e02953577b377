"""This module makes text from clusters, registries and records safe for a terminal, a log, an error or YAML.

Invariant: the result holds printable characters only. A control character, a direction override, or a line or page
separator is shown as its escape and has no effect. A second pass changes nothing.
"""

import json


def visible(text: str) -> str:
    r"""The text in one line, with an escape for each unprintable character: `\n`, `\x1b`, `\u202e`.

    Args:
        text: A name, a tag, a message; from a cluster, a registry or a record.
    """
    return text if text.isprintable() else "".join(one if one.isprintable() else _escape(one) for one in text)


def quoted(text: str) -> str:
    """The text as a scalar of YAML in double quotes; every text reads back unchanged."""
    return '"' + visible(text.replace("\\", "\\\\").replace('"', '\\"')) + '"'


def recordable(text: str) -> str:
    r"""The text as a record can hold it: bytes of an argument or a file's name that are no UTF-8 as `\udcff`, in signs.

    JSON writes half a surrogate pair, and no strict reader takes it.
    """
    return text.encode("utf-8", "backslashreplace").decode()


def text_or_none(raw: bytes | None) -> str | None:
    """The text of bytes; None for None, and for bytes that are not UTF-8."""
    try:
        return None if raw is None else raw.decode()
    except UnicodeDecodeError:
        return None


def json_line(answer: object) -> str:
    """JSON in one line, its unprintable characters as JSON's own escapes; what JSON does not know by its repr."""
    return json_escaped(json.dumps(answer, ensure_ascii=False, default=repr))


def json_escaped(document: str) -> str:
    """The same JSON document with printable characters only: what is unprintable is in a string, or ends a line."""
    return "\n".join(
        line if line.isprintable() else "".join(one if one.isprintable() else json.dumps(one)[1:-1] for one in line)
        for line in document.split("\n")
    )


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
