"""Where a broker listens, as librdkafka writes it."""

from typing import NamedTuple


class Address(NamedTuple):
    """Where a broker listens; in text as librdkafka writes it."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Read `host:port`; an IPv6 address stands in brackets."""
        host, _, port = text.strip().rpartition(":")
        return cls(host.strip("[]"), int(port))
