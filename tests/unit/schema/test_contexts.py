"""Contexts: rooms of one registry, in which the same id means different schemas."""

import uuid

import pytest

from aggregator.errors import ConfigError, HoldError
from aggregator.privacy.ids.subjects import Subjects
from aggregator.schema.contexts import SchemaContext, located
from aggregator.schema.registries import open_registry
from aggregator.schema.registry import SchemaOrigin, UnknownSchema

GUID = "0b5b4b4e-3e6c-4f4f-9c5a-2f7f3a1f0d11"


@pytest.fixture
def rooms(double):
    """Id 1 is one schema in the default context and another one in `.eu`; id 2 is in `.us` alone."""
    double.add("orders-value", '"string"')
    double.add("orders-value", '"long"', context=".eu")
    double.add("orders-value", '"int"', context=".us", schema_id=2)
    return double


@pytest.mark.parametrize("how", ["beside", "address"])
@pytest.mark.slow
def test_an_id_means_what_it_means_in_its_context(rooms, how):
    """The context stands beside the address or at its end; subjects have their plain names."""

    def opened(name):
        if how == "beside":
            return open_registry(rooms.address, {"context": name} if name != "." else {})
        return open_registry(rooms.address if name == "." else f"{rooms.address}/contexts/{name}")

    assert [opened(name).schema(1) for name in (".", ".eu")] == ['"string"', '"long"']
    assert opened(".us").schema(2) == '"int"'
    for name, schema_id in ((".", 2), (".eu", 2), (".us", 1)):
        with pytest.raises(UnknownSchema):
            opened(name).schema(schema_id)
    eu = opened(".eu")
    eu.schema(1)
    assert dict(eu.origin(1).versions) == {"orders-value": 1}
    assert [one.text for one in eu.history("orders-value", 1)] == ['"long"']
    assert [one.subject for one in eu.versions("orders-value")] == ["orders-value"]
    assert eu.subjects() == ["orders-value"]


def test_derived_schemas_are_registered_in_the_context(rooms):
    """With ids of that context; what lies in the others stays as it is."""
    eu = open_registry(rooms.address, {"context": ".eu"})
    assert eu.register_compatible("eu.orders-value", '"boolean"') == 2
    assert rooms.contexts[".eu"].subjects["eu.orders-value"] == [2]
    assert list(rooms.subjects) == ["orders-value"]
    with pytest.raises(HoldError, match="subject orders-value"):
        eu.register_compatible("orders-value", '"boolean"')


def test_references_within_a_context_have_plain_names(double):
    """Whether they were registered so or by their whole name."""
    double.add("person", '{"type":"record","name":"P","fields":[]}', context=".eu")
    text = '{"type":"record","name":"R","fields":[{"name":"p","type":"P"}]}'
    for number, name in enumerate(("person", ":.eu:person")):
        referring = [{"name": "P", "subject": name, "version": 1}]
        double.add(f"r{number}", text, references=referring, context=".eu")
        eu = open_registry(double.address, {"context": ".eu"})
        assert [one.subject for one in eu.history(f"r{number}", 1)] == ["person", f"r{number}"]


def test_a_guids_ids_are_those_of_the_context(double):
    """A GUID is one schema in all contexts, whose ids there say nothing of this one's."""
    double.guids[GUID] = double.add("orders-value", '"string"', schema_id=7)
    double.add("mine-value", '"long"', context=".eu", schema_id=7)
    for given, expected in (({}, {"orders-value": 1}), ({"context": ".eu"}, {})):
        registry = open_registry(double.address, given)
        number = registry.number(uuid.UUID(GUID))
        assert registry.schema(number) == '"string"'
        assert dict(registry.origin(number).versions) == expected


def test_no_subject_of_another_context_is_a_topics_own():
    """Even where a policy opens every subject by a pattern."""
    every = Subjects("orders", "value", lambda _: True, ((".*",),))
    with pytest.raises(HoldError, match=r":\.us:orders-value"):
        every.bound(SchemaOrigin({":.us:orders-value": 1}, (), "2"), "")


@pytest.mark.parametrize(
    ("address", "options", "why"),
    [
        ("https://r/contexts/.eu", {"context": ".us"}, "is another context than the one in the address"),
        ("https://r/contexts/.eu,https://s", {}, "name several contexts"),
        ("https://r/contexts/eu", {}, "begins with a dot"),
    ],
)
def test_contexts_that_contradict_are_refused(address, options, why):
    """By what is wrong with them."""
    with pytest.raises(ConfigError, match=why):
        open_registry(address, options)


def test_names_go_there_and_back():
    """The default context has no prefix; what has one already keeps it."""
    eu, default = SchemaContext(".eu"), SchemaContext()
    assert [eu.qualified("a-value"), eu.qualified(":.us:a"), default.qualified("a")] == [":.eu:a-value", ":.us:a", "a"]
    assert [eu.plain(":.eu:a"), eu.plain(":.us:a"), default.plain(":.:a"), default.plain(":.eu:a")] == [
        *("a", ":.us:a", "a", ":.eu:a")
    ]
    assert [eu.plain("a"), eu.referred("a"), eu.referred(":.eu:a"), default.plain("a")] == [":.:a", "a", "a", "a"]
    assert [eu.is_called(name) for name in (".eu", ":.eu:", ".", "")] == [True, True, False, False]
    assert [default.is_called(name) for name in ("", ".", ":.:", ".eu")] == [True, True, True, False]
    assert located("https://r/api/contexts/:.eu:/, https://s/contexts/.eu", "") == ("https://r/api,https://s", eu)
    assert located("https://r/api", ".eu") == ("https://r/api", eu)
