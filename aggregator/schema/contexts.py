"""Subject names in a registry's contexts, such as `:.eu:orders-value`; each context has its own ids and subjects.

Invariant: pure. Inside this project a subject of the hub's own context has its plain name. A subject of another context
has its qualified name, which is never a subject of a topic. So no schema of another context is taken for the hub's own.
Source: https://docs.confluent.io/platform/current/schema-registry/schema-linking-cp.html#contexts-and-schema-linking
"""

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import quote, unquote

from aggregator.config.contexts import DEFAULT, split_address


class SchemaContext(NamedTuple):
    """The context of a registry to which a hub's questions refer.

    Attributes:
        name: With its dot; `.` is the default one.
    """

    name: str = DEFAULT

    @property
    def is_default(self) -> bool:
        """Whether subjects have no prefix."""
        return self.name == DEFAULT

    @property
    def query(self) -> Mapping[str, str]:
        """The query that makes an id one of this context."""
        return {} if self.is_default else {"subject": f":{self.name}:"}

    def qualified(self, subject: str) -> str:
        """The subject's name in the registry, with its context."""
        return subject if self.is_default or _is_qualified(subject) else f":{self.name}:{subject}"

    def plain(self, subject: str) -> str:
        """The registry's name of a subject: its plain name in this context, the whole one in every other."""
        if self.is_default or _is_qualified(subject):
            return self.referred(subject)
        return f":{DEFAULT}:{subject}"

    def referred(self, subject: str) -> str:
        """The subject as this context's schemas call it: without a prefix it is of the same context."""
        return subject.removeprefix(f":{self.name}:")

    def holds(self, subject: str) -> bool:
        """Whether a plain name is one of this context."""
        return not _is_qualified(subject)

    def path(self, subject: str) -> str:
        """The path at which the registry answers about a subject."""
        return f"subjects/{quote(self.qualified(subject), safe='')}"

    def is_called(self, name: str) -> bool:
        """Whether the registry means this context, with or without colons."""
        return (name.strip(":") or DEFAULT) == self.name


def located(address: str, name: str) -> tuple[str, SchemaContext]:
    """Addresses without a context in their path, and the context that the path or `name` says.

    Args:
        address: Or several, with commas.
        name: As configured beside the address; empty: not at all.
    """
    parts = [split_address(one.strip()) for one in address.split(",")]
    context = next((unquote(found) for _, found in parts if found), name) or DEFAULT
    return ",".join(base for base, _ in parts), SchemaContext(context)


def _is_qualified(subject: str) -> bool:
    return subject.startswith(":.")
