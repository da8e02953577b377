"""What stands wrong for long is said when it begins and once an hour, with its count."""

from aggregator.repeated_warnings import RepeatedWarnings


def test_a_standing_warning_is_said_once_and_then_hourly_with_its_count():
    """132 lines in twenty minutes told nothing that the first one had not."""
    warnings = RepeatedWarnings()
    looks = [warnings.due({"a": "table orders is held"}, float(at)) for at in range(0, 7201, 10)]
    said = [line for look in looks for line in look.values()]
    assert said == [
        "table orders is held",
        "still so after 1 h, met 361 times: table orders is held",
        "still so after 2 h, met 721 times: table orders is held",
    ]


def test_what_is_over_is_news_when_it_begins_again():
    """And nothing beside it is said again."""
    warnings = RepeatedWarnings()
    assert warnings.due({"a": "one", "b": "two"}, 0.0) == {"a": "one", "b": "two"}
    assert warnings.due({"b": "two"}, 1.0) == {}
    assert warnings.due({"a": "one", "b": "two"}, 2.0) == {"a": "one"}
