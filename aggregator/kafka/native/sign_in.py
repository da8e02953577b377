"""This module lists the codes by which librdkafka says that no broker lets a client in.

A request that such a client sends fails only with "transport failure".

Invariant: values only. Both kinds of client compare their errors with these codes.
"""

from typing import Final

from confluent_kafka import KafkaError

AUTHENTICATION_CODES: Final = frozenset(
    {
        KafkaError._AUTHENTICATION,  # noqa: SLF001 - a public code
        KafkaError._SSL,  # noqa: SLF001 - a public code
        KafkaError.SASL_AUTHENTICATION_FAILED,
    }
)
