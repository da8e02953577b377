"""Every code that librdkafka knows, taken from the library itself, has one meaning for what is read and one for what
is written.
"""

import ctypes
from collections import Counter

import pytest

from aggregator.kafka.native.library import rd
from aggregator.kafka.readers import codes
from aggregator.kafka.readers.codes import Ignorable, RefusalKind, Retriable, when_reading, when_writing
from aggregator.kafka.readers.reader_events import FaultKind


class _Described(ctypes.Structure):
    """`rd_kafka_err_desc`."""

    _fields_ = (("code", ctypes.c_int), ("name", ctypes.c_char_p), ("text", ctypes.c_char_p))


def known() -> dict[str, int]:
    """Every code of the library by its name; places between its codes have no text."""
    from confluent_kafka import cimpl  # noqa: PLC0415 - the library as it is loaded

    found, count = ctypes.POINTER(_Described)(), ctypes.c_size_t()
    ctypes.CDLL(cimpl.__file__).rd_kafka_get_err_descs(ctypes.byref(found), ctypes.byref(count))
    every = [found[place] for place in range(count.value)]
    return {one.name.decode(): one.code for one in every if one.text and one.name}


def test_every_code_of_the_library_has_one_meaning_when_it_comes_instead_of_records():
    """The table names exactly the library's codes, each once; a library that learns a code fails here."""
    named = Counter(name for names in codes._READING.values() for name in names.split())
    assert named == Counter(known().keys())
    assert len(named) > 140


def test_every_refusal_is_a_code_of_the_library_and_all_others_are_tried_again():
    """The rows name codes that exist, each once."""
    named = Counter(name for names in codes._WRITING.values() for name in names.split())
    assert set(named) <= set(known())
    assert set(named.values()) == {1}
    assert {when_writing(code) for name, code in known().items() if name not in named} == {Retriable.AGAIN}


@pytest.mark.parametrize(
    ("name", "reading", "writing"),
    [
        ("_PARTITION_EOF", Ignorable.END, Retriable.AGAIN),
        ("_AUTO_OFFSET_RESET", FaultKind.POSITION_LOST, Retriable.AGAIN),
        ("UNKNOWN_TOPIC_OR_PART", FaultKind.TOPIC_GONE, RefusalKind.TOPIC_GONE),
        ("TOPIC_AUTHORIZATION_FAILED", FaultKind.DENIED, RefusalKind.DENIED),
        ("_BAD_MSG", FaultKind.DAMAGED, Retriable.AGAIN),
        ("_BAD_COMPRESSION", FaultKind.DAMAGED, Retriable.AGAIN),
        ("MSG_SIZE_TOO_LARGE", FaultKind.DAMAGED, RefusalKind.TOO_LARGE),
        ("INVALID_TIMESTAMP", FaultKind.FAILED, RefusalKind.TIMESTAMP),
        ("INVALID_RECORD", FaultKind.DAMAGED, RefusalKind.INVALID),
        ("NOT_ENOUGH_REPLICAS", FaultKind.FAILED, Retriable.AGAIN),
        ("LEADER_NOT_AVAILABLE", Ignorable.BY_ITSELF, Retriable.AGAIN),
        ("_TRANSPORT", Ignorable.BY_ITSELF, Retriable.AGAIN),
        ("_PURGE_QUEUE", FaultKind.FAILED, Retriable.SHARED),
    ],
)
def test_what_a_code_means(name, reading, writing):
    """By the number that the library gives it."""
    assert (when_reading(known()[name]), when_writing(known()[name])) == (reading, writing)


def test_a_code_that_nobody_knows_is_not_silent():
    """Its flow waits with a sentence, its transaction is begun again."""
    assert when_reading(4711) is FaultKind.FAILED
    assert when_writing(4711) is Retriable.AGAIN


def test_a_code_in_words():
    """The library's words, and the name under which Kafka's documentation has it."""
    assert codes.text_of(known()["MSG_SIZE_TOO_LARGE"]) == "Broker: Message size too large (MSG_SIZE_TOO_LARGE)"
    assert rd.err2name(0) == b"NO_ERROR"
