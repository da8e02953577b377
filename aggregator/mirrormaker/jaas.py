"""`sasl.jaas.config`: the login module and its options.

Invariant: its values go to whoever asks for one option; no error and no repr holds any of them.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_OPTION = re.compile(
    r"""(?<![\w.$-])([\w.$-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))""",
    re.ASCII,
)
_MODULE = re.compile(r"\s*([\w.$]+)", re.ASCII)
_ESCAPED = re.compile(r"\\(.)")


@dataclass(frozen=True, slots=True)
class Login:
    """A login module.

    Attributes:
        module: Its class without the package: `PlainLoginModule`.
        options: By name; never shown.
    """

    module: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)


def parse_jaas(text: str) -> Login:
    """The first login module of the text; one without a name where there is none."""
    module = _MODULE.match(text)
    options = {
        found[1]: _ESCAPED.sub(r"\1", next(one for one in found.groups()[1:] if one is not None))
        for found in _OPTION.finditer(text)
    }
    return Login(module[1].rpartition(".")[2] if module else "", options)
