"""By which codes librdkafka says that no broker lets a client in; it answers a question with "transport failure" then.

Invariant: values alone, which both kinds of client compare their errors with.
"""

from typing import Final

from confluent_kafka import KafkaError

SHUT_OUT: Final = frozenset({KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError.SASL_AUTHENTICATION_FAILED})  # noqa: SLF001 - public codes
