"""This module reads and writes the host and port of a broker in librdkafka's form."""

from typing import NamedTuple


class Address(NamedTuple):
    """The host and port of a broker; its text form is librdkafka's."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Read `host:port`; an IPv6 address stands in brackets."""
        host, _, port = text.strip().rpartition(":")
        return cls(host.strip("[]"), int(port))
