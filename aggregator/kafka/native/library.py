"""This module binds the functions of librdkafka that this package calls, from the copy that confluent-kafka has loaded.

An object for every record, and a call for every part of it, cost more than all that librdkafka does with the record
(tests/bench/results/tried.md). Everything else about Kafka goes through confluent-kafka.

Invariant: only functions of the library's public header (rdkafka.h) are used, whose meaning never changes within a
major version. Errors are raised as confluent-kafka's own.
"""

import ctypes
import logging
import sys
from collections.abc import Callable, Mapping
from ctypes import POINTER, Structure, byref, c_char_p, c_int, c_int32, c_int64, c_size_t, c_ssize_t, c_void_p
from enum import IntEnum
from typing import Any, ClassVar

from confluent_kafka import KafkaError, KafkaException, cimpl

if sys.byteorder != "little" or ctypes.sizeof(c_void_p) != ctypes.sizeof(c_int64):
    raise ImportError("records are moved as on 64-bit little-endian machines (x86-64, ARM), which this one is not")
PRODUCER, CONSUMER = 0, 1
_ERROR_BYTES = 512
# Python's logging levels by librdkafka's level of a line, which are syslog's.
_LEVELS = (50, 50, 50, 40, 30, 20, 20, 10)


class EventType(IntEnum):
    """The values of `rd_kafka_event_type_t` that are used here."""

    DELIVERY = 0x1
    LINE = 0x4
    ERROR = 0x8
    STATISTICS = 0x40


class Message(Structure):
    """Mirrors the C structure `rd_kafka_message_t`."""

    _fields_ = (
        ("err", c_int),
        ("rkt", c_void_p),
        ("partition", c_int32),
        ("payload", c_void_p),
        ("len", c_size_t),
        ("key", c_void_p),
        ("key_len", c_size_t),
        ("offset", c_int64),
        ("_private", c_void_p),
    )


# The words of `rd_kafka_vu_t`, an argument of `rd_kafka_produceva`: its kind and up to eight words of value.
UNION = 9
AS_TOPIC, AS_PARTITION, AS_VALUE, AS_KEY, AS_FLAGS, AS_TIMESTAMP, AS_HEADER = 2, 3, 4, 5, 7, 8, 9
COPY = 2
# The arguments that every record has, in this order.
PARTS = (AS_TOPIC, AS_PARTITION, AS_FLAGS, AS_TIMESTAMP, AS_VALUE, AS_KEY)


class TopicPartition(Structure):
    """The beginning of `rd_kafka_topic_partition_t`, with the fields that are written here."""

    _fields_ = (("topic", c_char_p), ("partition", c_int32), ("offset", c_int64))


_STATISTICS = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t, c_void_p)
_LOG = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_char_p, c_char_p)
_TOKEN = ctypes.CFUNCTYPE(None, c_void_p, c_char_p, c_void_p)
COMMITTED = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_void_p, c_void_p)
_FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "conf_new": (c_void_p, ()),
    "conf_destroy": (None, (c_void_p,)),
    "conf_set": (c_int, (c_void_p, c_char_p, c_char_p, c_char_p, c_size_t)),
    "conf_get": (c_int, (c_void_p, c_char_p, c_char_p, POINTER(c_size_t))),
    "version_str": (c_char_p, ()),
    "conf_set_events": (None, (c_void_p, c_int)),
    "conf_set_stats_cb": (None, (c_void_p, _STATISTICS)),
    "conf_set_log_cb": (None, (c_void_p, _LOG)),
    "new": (c_void_p, (c_int, c_void_p, c_char_p, c_size_t)),
    "name": (c_char_p, (c_void_p,)),
    "poll": (c_int, (c_void_p, c_int)),
    "outq_len": (c_int, (c_void_p,)),
    "flush": (c_int, (c_void_p, c_int)),
    "set_log_queue": (c_int, (c_void_p, c_void_p)),
    "destroy_flags": (None, (c_void_p, c_int)),
    "err2str": (c_char_p, (c_int,)),
    "err2name": (c_char_p, (c_int,)),
    "error_code": (c_int, (c_void_p,)),
    "error_string": (c_char_p, (c_void_p,)),
    "error_is_fatal": (c_int, (c_void_p,)),
    "error_is_retriable": (c_int, (c_void_p,)),
    "error_txn_requires_abort": (c_int, (c_void_p,)),
    "error_destroy": (None, (c_void_p,)),
    "topic_new": (c_void_p, (c_void_p, c_char_p, c_void_p)),
    "topic_destroy": (None, (c_void_p,)),
    "topic_name": (c_char_p, (c_void_p,)),
    "topic_partition_list_new": (c_void_p, (c_int,)),
    "topic_partition_list_add": (POINTER(TopicPartition), (c_void_p, c_char_p, c_int32)),
    "topic_partition_set_leader_epoch": (None, (POINTER(TopicPartition), c_int32)),
    "topic_partition_list_destroy": (None, (c_void_p,)),
    "assign": (c_int, (c_void_p, c_void_p)),
    "incremental_assign": (c_void_p, (c_void_p, c_void_p)),
    "incremental_unassign": (c_void_p, (c_void_p, c_void_p)),
    "commit_queue": (c_int, (c_void_p, c_void_p, c_void_p, COMMITTED, c_void_p)),
    "query_watermark_offsets": (c_int, (c_void_p, c_char_p, c_int32, POINTER(c_int64), POINTER(c_int64), c_int)),
    "poll_set_consumer": (c_int, (c_void_p,)),
    "queue_get_consumer": (c_void_p, (c_void_p,)),
    "queue_get_main": (c_void_p, (c_void_p,)),
    "queue_poll": (c_void_p, (c_void_p, c_int)),
    "event_type": (c_int, (c_void_p,)),
    "event_error": (c_int, (c_void_p,)),
    "event_error_string": (c_char_p, (c_void_p,)),
    "event_log": (c_int, (c_void_p, POINTER(c_char_p), POINTER(c_char_p), POINTER(c_int))),
    "event_stats": (c_char_p, (c_void_p,)),
    "event_message_next": (c_void_p, (c_void_p,)),
    "event_destroy": (None, (c_void_p,)),
    "queue_destroy": (None, (c_void_p,)),
    "consumer_poll": (c_void_p, (c_void_p, c_int)),
    "consume_batch_queue": (c_ssize_t, (c_void_p, c_int, c_void_p, c_size_t)),
    "consumer_close": (c_int, (c_void_p,)),
    "message_errstr": (c_char_p, (c_void_p,)),
    "message_leader_epoch": (c_int32, (c_void_p,)),
    "message_broker_id": (c_int32, (c_void_p,)),
    "queue_new": (c_void_p, (c_void_p,)),
    "event_opaque": (c_void_p, (c_void_p,)),
    "event_DescribeTopics_result": (c_void_p, (c_void_p,)),
    "AdminOptions_new": (c_void_p, (c_void_p, c_int)),
    "AdminOptions_set_request_timeout": (c_int, (c_void_p, c_int, c_char_p, c_size_t)),
    "AdminOptions_set_broker": (c_int, (c_void_p, c_int32, c_char_p, c_size_t)),
    "AdminOptions_set_opaque": (None, (c_void_p, c_void_p)),
    "AdminOptions_destroy": (None, (c_void_p,)),
    "TopicCollection_of_topic_names": (c_void_p, (POINTER(c_char_p), c_size_t)),
    "TopicCollection_destroy": (None, (c_void_p,)),
    "DescribeTopics": (None, (c_void_p, c_void_p, c_void_p, c_void_p)),
    "DescribeTopics_result_topics": (POINTER(c_void_p), (c_void_p, POINTER(c_size_t))),
    "TopicDescription_name": (c_char_p, (c_void_p,)),
    "TopicDescription_topic_id": (c_void_p, (c_void_p,)),
    "TopicDescription_error": (c_void_p, (c_void_p,)),
    "Uuid_base64str": (c_char_p, (c_void_p,)),
    "conf_enable_sasl_queue": (None, (c_void_p, c_int)),
    "conf_set_oauthbearer_token_refresh_cb": (None, (c_void_p, _TOKEN)),
    "sasl_background_callbacks_enable": (c_void_p, (c_void_p,)),
    "oauthbearer_set_token": (
        c_int,
        (c_void_p, c_char_p, c_int64, c_char_p, c_void_p, c_size_t, c_char_p, c_size_t),
    ),
    "oauthbearer_set_token_failure": (c_int, (c_void_p, c_char_p)),
    "sasl_set_credentials": (c_void_p, (c_void_p, c_char_p, c_char_p)),
    "produceva": (c_void_p, (c_void_p, c_void_p, c_size_t)),
    "init_transactions": (c_void_p, (c_void_p, c_int)),
    "begin_transaction": (c_void_p, (c_void_p,)),
    "commit_transaction": (c_void_p, (c_void_p, c_int)),
    "abort_transaction": (c_void_p, (c_void_p, c_int)),
}
# The symbols of an extension include those of the libraries that it is linked with.
_LIBRARY = ctypes.CDLL(cimpl.__file__)


class Functions:
    """Every function of the table, under its name without `rd_kafka_`; none holds the interpreter's lock."""

    def __init__(self) -> None:
        for name, (returns, arguments) in _FUNCTIONS.items():
            function = getattr(_LIBRARY, f"rd_kafka_{name}")
            function.restype, function.argtypes = returns, arguments
            setattr(self, name, function)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"rd_kafka_{name} is not in the table of functions")


rd = Functions()


def address(function: str) -> int:
    """The address of a function, for compiled code."""
    return ctypes.cast(getattr(_LIBRARY, function), c_void_p).value or 0


def raise_for_error(error: int | None) -> None:
    """Raise what a function answered with, if it is an error object.

    Raises:
        KafkaException: with code, text, and what the library says can be done about it.
    """
    if not error:
        return
    cause = KafkaError(
        rd.error_code(error),
        rd.error_string(error).decode(),
        bool(rd.error_is_fatal(error)),
        bool(rd.error_is_retriable(error)),
        bool(rd.error_txn_requires_abort(error)),
    )
    rd.error_destroy(error)
    raise KafkaException(cause)


def raise_for_code(code: int) -> None:
    """Raise an error code, if it is one.

    Raises:
        KafkaException: with the code and its text.
    """
    if code:
        raise KafkaException(KafkaError(code, rd.err2str(code).decode()))


def milliseconds(seconds: float) -> int:
    """Convert seconds to the whole milliseconds that librdkafka takes."""
    return int(seconds * 1000)


class Client:
    """Holds one handle of librdkafka; its log lines and statistics arrive in the thread that polls it.

    Args:
        options: librdkafka's properties; `stats_cb` takes a text of its statistics, and `oauth_cb` makes a token and
            says until when it holds, in seconds since 1970, on a thread of the library's.
        log: Takes its lines.

    Raises:
        KafkaException: a property is unknown or contradicts another one.
    """

    kind: ClassVar[int]
    """`PRODUCER` or `CONSUMER`."""
    events: ClassVar[int] = 0
    """What the library tells as events: `RD_KAFKA_EVENT_…`, added up."""

    def __init__(self, options: Mapping[str, Any], log: logging.Logger) -> None:
        self._handle: int | None = None
        self._callbacks: list[Any] = []  # must live as long as the handle
        properties = {"log.queue": True, **options}
        self._tell: Callable[[str], None] = properties.pop("stats_cb", None) or (lambda _text: None)
        self._token: Callable[[str], tuple[str, float]] | None = properties.pop("oauth_cb", None)
        self._log = log
        conf, why = rd.conf_new(), ctypes.create_string_buffer(_ERROR_BYTES)
        try:
            for name, value in properties.items():
                text = str(value).lower() if isinstance(value, bool) else str(value)
                if rd.conf_set(conf, name.encode(), text.encode(), why, _ERROR_BYTES):
                    raise _invalid(why)
            self._hear(conf)
            rd.conf_set_events(conf, self.events)
            self._handle = rd.new(self.kind, conf, why, _ERROR_BYTES)
            if self._handle is None:
                raise _invalid(why)
            conf = None  # it belongs to the handle now
        finally:
            if conf is not None:
                rd.conf_destroy(conf)
        rd.set_log_queue(self._handle, None)
        if self._token is not None:
            raise_for_error(rd.sasl_background_callbacks_enable(self._handle))

    def _hear(self, conf: int) -> None:
        """Have lines and statistics by callbacks; a queue that is polled for events has them as such (`heard`)."""
        tell, log = self._tell, self._log  # no reference to this object, which must be collected

        def statistics(_handle: int, text: int, size: int, _opaque: int) -> int:
            tell(ctypes.string_at(text, size).decode())
            return 0

        def line(handle: int, level: int, facility: bytes, text: bytes) -> None:
            _say(log, rd.name(handle) if handle else b"", level, facility, text)

        self._callbacks = [_STATISTICS(statistics), _LOG(line)]
        rd.conf_set_stats_cb(conf, self._callbacks[0])
        rd.conf_set_log_cb(conf, self._callbacks[1])
        if self._token is not None:
            self._callbacks.append(_TOKEN(_signing(self._token)))
            rd.conf_enable_sasl_queue(conf, 1)
            rd.conf_set_oauthbearer_token_refresh_cb(conf, self._callbacks[2])

    def heard(self, event: int) -> None:
        """Take an event that is a line or statistics; any other says nothing here."""
        match rd.event_type(event):
            case EventType.STATISTICS:
                self._tell(rd.event_stats(event).decode())
            case EventType.LINE:
                facility, text, level = c_char_p(), c_char_p(), c_int()
                if rd.event_log(event, byref(facility), byref(text), byref(level)) == 0:
                    _say(self._log, rd.name(self.handle), level.value, facility.value or b"", text.value or b"")

    @property
    def handle(self) -> int:
        """The pointer to the client that functions of librdkafka take.

        Raises:
            KafkaException: the client is closed.
        """
        if self._handle is None:
            raise KafkaException(KafkaError(KafkaError._STATE, "the client is closed"))  # noqa: SLF001 - a public code
        return self._handle

    def close(self) -> None:
        """Give everything back; a second time does nothing."""
        if self._handle is not None:
            handle, self._handle = self._handle, None
            self._leave(handle)

    def _leave(self, handle: int) -> None:
        """Give the handle back, and before it what was made of it."""
        raise NotImplementedError

    def __del__(self) -> None:
        self.close()


def _signing(make: Callable[[str], tuple[str, float]]) -> Callable[[int, bytes | None, int], None]:
    """What the library calls when it needs a token; nothing is raised into it."""

    def sign(handle: int, config: bytes | None, _opaque: int) -> None:
        why = ctypes.create_string_buffer(_ERROR_BYTES)
        try:
            token, until_s = make((config or b"").decode())
        except Exception as error:  # noqa: BLE001 - whatever a signer raises: the library asks again
            rd.oauthbearer_set_token_failure(handle, f"no token: {type(error).__name__}".encode())
            return
        until_ms = int(until_s * 1000)
        if rd.oauthbearer_set_token(handle, token.encode(), until_ms, b"", None, 0, why, _ERROR_BYTES):
            rd.oauthbearer_set_token_failure(handle, why.value)

    return sign


def _say(log: logging.Logger, name: bytes, level: int, facility: bytes, text: bytes) -> None:
    log.log(_LEVELS[level], "%s [%s] %s", facility.decode(), name.decode(), text.decode(errors="replace"))


def _invalid(why: "ctypes.Array[ctypes.c_char]") -> KafkaException:
    return KafkaException(KafkaError(KafkaError._INVALID_ARG, why.value.decode()))  # noqa: SLF001 - a public code
