"""Histories of schemas whose records were renamed without an alias, and what a version of them closes."""

import json
from uuid import uuid4

from aggregator.schema.avro import Kind
from aggregator.schema.inherited_tags import with_inherited_tags
from aggregator.schema.registry import SchemaVersion


def record(name, *fields, aliases=()):
    """A record's schema; a field is a name, or a name and a type, or the whole of it."""
    made = [
        {"name": one, "type": "string"} if isinstance(one, str) else one if isinstance(one, dict) else named(*one)
        for one in fields
    ]
    return {"type": "record", "name": name, "fields": made, **({"aliases": [*aliases]} if aliases else {})}


def named(name, kind="string", *aliases, tags=()):
    """A field."""
    return {
        "name": name,
        "type": kind,
        **({"aliases": [*aliases]} if aliases else {}),
        **({"confluent:tags": [*tags]} if tags else {}),
    }


def array(items):
    """An array's schema."""
    return {"type": "array", "items": items}


def enum(name):
    """An enum's schema."""
    return {"type": "enum", "name": name, "symbols": ["s"]}


def map_of(values):
    """A map's schema."""
    return {"type": "map", "values": values}


def closed(versions):
    """The ways of the last version's leaves that are tagged, on themselves or above, and of all."""
    first = {"type": "fixed", "name": f"Unlike{uuid4().hex}", "size": 1}  # no history that was read before begins so
    earlier = [SchemaVersion("other", 1, 1, json.dumps(first), is_referenced=True)]
    earlier += [SchemaVersion("s-value", at, at, json.dumps(text)) for at, text in enumerate(versions[:-1], 2)]
    schema = with_inherited_tags(json.dumps(versions[-1]), (), earlier)
    found, every = set(), set()

    def walk(number, way, is_tagged, above):
        node = schema.nodes[number]
        is_tagged = is_tagged or "PII" in node.tags | node.inherited
        if node.kind is Kind.RECORD:
            if number not in above:
                for item in node.fields:
                    inside = is_tagged or "PII" in item.tags | item.inherited
                    walk(item.node, (*way, item.name), inside, above | {number})
        elif node.children:
            if node.kind is Kind.MAP and (is_tagged or "PII" in node.inherited_keys):
                found.add((*way, "{key}"))
            for child in node.children:
                walk(child, way, is_tagged, above)
        elif node.kind is not Kind.NULL:
            every.add(way)
            if is_tagged:
                found.add(way)

    walk(schema.root, (), False, frozenset())
    return {".".join(way) for way in found}, {".".join(way) for way in every}


def tagged(kind, tag="PII"):
    """A type that is tagged where it stands."""
    of = kind if isinstance(kind, dict) else {"type": kind}
    return {"type": of["type"], **{key: one for key, one in of.items() if key != "type"}, "confluent:tags": [tag]}


def wrapped(kind):
    """The same type beneath another tag of its place."""
    return {"type": kind, "confluent:tags": ["OTHER"]}


ENUM = {"type": "enum", "name": "E", "symbols": ["a"]}
SSN = named("ssn", tags=["PII"])
# Versions, and the leaf of the last one that an earlier one tagged.
STAYS = {
    "renamed by a version that lacked the field": (
        [record("Order", "id", SSN), record("OrderV2", "id"), record("OrderV2", "id", "ssn")], "ssn"),
    "renamed twice by versions that lacked it": (
        [record("A", "id", SSN), record("B", "id"), record("C", "id"), record("C", "id", "ssn")], "ssn"),
    "renamed without it, and the field is renamed by an alias": (
        [record("A", "id", SSN), record("B", "id"), record("B", "id", ("no", "string", "ssn"))], "no"),
    "renamed without it, by a name that an alias of before said": (
        [record("A", "id", named("no", "string", "ssn", tags=["PII"])), record("B", "id"), record("B", "id", "ssn")],
        "ssn"),
    "renamed inside a list by a version that lacked it": (
        [record("R", ("a", array(record("A", "id", SSN)))), record("R", ("a", array(record("B", "id")))),
         record("R", ("a", array(record("B", "id", "ssn"))))], "a.ssn"),
    "a list of what was one, without it": (
        [record("R", ("a", record("A", "id", SSN))), record("R", ("a", array(record("B", "id")))),
         record("R", ("a", record("B", "id", "ssn")))], "a.ssn"),
    "renamed where it also moved": (
        [record("R", ("a", record("A", "id", SSN))), record("R", ("a", record("B", "id"))),
         record("R", ("z", record("B", "id", "ssn")))], "z.ssn"),
    "below what was renamed without it": (
        [record("R", ("a", record("A", "id", ("in", record("I", SSN))))), record("R", ("a", record("B", "id"))),
         record("R", ("a", record("B", "id", ("in", record("J", "ssn")))))], "a.in.ssn"),
    "in a list below what was renamed without it": (
        [record("R", ("a", record("A", ("in", array(record("I", SSN)))))), record("R", ("a", record("B"))),
         record("R", ("a", record("B", ("in", record("J", "ssn")))))], "a.in.ssn"),
    "one that took the place of two": (
        [record("R", ("a", record("A", SSN)), ("b", record("B", "ssn"))),
         record("R", ("c", record("B", "ssn"), "a", "b"))], "c.ssn"),
    "one that took the place of two, of the first one's type": (
        [record("R", ("a", record("B", "ssn")), ("b", record("A", SSN))),
         record("R", ("c", record("B", "ssn"), "a", "b"))], "c.ssn"),
    "one that took the place of two that had been one": (
        [*[record("R", ("a", record("B", "ssn")), ("b", record("A", SSN), "a"))] * 2,
         record("R", ("c", record("B", "ssn"), "b"))], "c.ssn"),
    "what a record had where another took its name": (
        [record("R", ("p", record("A", "x")), ("q", record("B", ("x", record("C", "ssn"))))),
         record("R", ("p", record("A", ("x", record("D", SSN)))), ("q", record("B"))),
         record("R", ("p", record("B"))), record("R", ("p", record("B", ("x", record("C", "ssn")))))], "p.x.ssn"),
    "a list that took the place of two": (
        [record("R", ("a", array(record("A", SSN))), ("b", array(record("B", "ssn")))),
         record("R", ("c", array(record("B", "ssn")), "a", "b"))], "c.ssn"),
    "two that exchanged their names": (
        [record("R", ("a", record("A", SSN)), ("b", record("B", "ssn"))),
         record("R", ("a", record("B", "ssn"), "b"), ("b", "int", "a"))], "a.ssn"),
    "an alias that came a version later": (
        [record("R", ("x", record("T", SSN))), record("R", ("y", record("U", "ssn"))),
         record("R", ("y", record("U", "ssn"), "x"))], "y.ssn"),
    "an alias that came a version later, to a name before it": (
        [record("R", ("x", record("T", SSN))), record("R", ("a", record("U", "ssn"))),
         record("R", ("a", record("U", "ssn"), "x"))], "a.ssn"),
    "of a list, an alias that came a version later": (
        [record("R", ("x", array(record("T", SSN)))), record("R", ("y", array(record("U", "ssn")))),
         record("R", ("y", array(record("U", "ssn")), "x"))], "y.ssn"),
    "of one that is a list now, an alias that came a version later": (
        [record("R", ("x", record("T", SSN))), record("R", ("y", array(record("U", "ssn")))),
         record("R", ("y", array(record("U", "ssn")), "x"))], "y.ssn"),
    "of tagged texts, an alias that came a version later": (
        [record("R", ("x", array({"type": "string", "confluent:tags": ["PII"]}))), record("R", "y"),
         record("R", ("y", "string", "x"))], "y"),
    "an alias of an alias that came a version later": (
        [record("R", ("x", record("T", SSN))), record("R", ("y", record("U", "ssn"))),
         record("R", ("z", record("U", "ssn"), "y")), record("R", ("z", record("U", "ssn"), "x"))], "z.ssn"),
    "a namespace that was there beside the former one": (
        [[record("m.A", SSN)], [record("m.A", SSN), record("n.A")], [record("n.A", "ssn")]], "ssn"),
    "a namespace that follows the former one": (
        [[record("m.A", SSN), record("m.B", "ssn")], [record("n.A", "ssn"), record("n.B", "ssn")]], "ssn"),
    "back under its first name, and what came between had the tag": (
        [record("R", ("x", record("A", "ssn"))), record("R", ("x", record("B", SSN))),
         record("R", ("x", record("A", "ssn")))], "x.ssn"),
    "by a name that an alias said before any tag, of a record that was renamed": (
        [record("A", ("no", "string", "ssn")), record("B", SSN), record("B", "no")], "no"),
    "what its type was tagged with after it was replaced": (
        [record("R", SSN, ("a", record("A", "no")), ("b", "A")),
         record("R", SSN, ("a", record("B")), ("b", record("A", "no"))),
         record("R", SSN, ("a", record("B")), ("b", record("A", named("no", tags=["PII"])))),
         record("R", SSN, ("a", record("B", "no")))], "a.no"),
    "items that were tagged as such, and one of them now": (
        [record("R", ("f", array(tagged([record("A", "x"), "null"])))), record("R", ("f", record("A", "x")))], "f.x"),
    "items of a tagged type, and one of them now": (
        [record("R", ("f", array(tagged(record("A", "x"))))), record("R", ("f", record("A", "x")))], "f.x"),
    "items of a tagged type in items": (
        [record("R", ("f", array(map_of(tagged(record("A", "x")))))), record("R", ("f", map_of(record("A", "x"))))],
        "f.x"),
    "a type that was tagged elsewhere and then replaced": (
        [record("R", ("f", record("A", "x"))), record("R", ("g", tagged(record("A", "x")))),
         record("R", ("f", record("B", "x")))], "f.x"),
    "an enum that was tagged elsewhere and then replaced": (
        [record("R", ("f", {"type": "enum", "name": "E", "symbols": ["a"]})),
         record("R", ("g", tagged({"type": "enum", "name": "E", "symbols": ["a"]}))),
         record("R", ("f", record("B", "x")))], "f.x"),
    "renamed beneath a tag of its place": (
        [record("R", ("f", tagged(record("A", "x")))), record("R", ("f", tagged(record("B", "x"), "OTHER"))),
         record("R", ("g", record("B", "x")))], "g.x"),
    "under its first name, elsewhere, tagged in between": (
        [record("R", ("f", record("A", "x"))), record("R", ("f", record("B", named("x", tags=["PII"])))),
         record("R", ("g", record("A", "x")))], "g.x"),
    "under its second name, tagged under its first one": (
        [record("R", ("f", record("A", "x"))), record("R", ("f", record("B", "x"))),
         record("R", ("f", record("A", named("x", tags=["PII"])))), record("R", ("g", record("B", "x")))], "g.x"),
    "an alias under its first name, a field under its second": (
        [record("R", ("f", record("A", named("x", tags=["PII"])))), record("R", ("f", record("B", "z"))),
         record("R", ("g", record("A", ("y", "string", "x")))), record("R", ("h", record("B", "y")))], "h.y"),
    "an alias under its third name, a field under its second": (
        [record("R", ("f", record("A", named("x", tags=["PII"])))), record("R", ("f", record("B", "y"))),
         record("R", ("f", record("C", ("x", "string", "y")))), record("R", ("g", record("B", "y")))], "g.y"),
    "an alias that another type of the version says": (
        [record("R", ("f", record("A", named("x", tags=["PII"])))),
         record("R", ("f", record("A", "y")), ("g", record("B", ("y", "string", "x"), aliases=["A"])))], "f.y"),
    "an alias that joins two others": (
        [record("R", ("f", record("A", named("x", tags=["PII"])))),
         record("R", ("g", record("B", "x")), ("h", record("D", "k", aliases=["A", "B"])))], "g.x"),
    "an alias of what takes the place": (
        [record("R", ("f", record("A", named("x", tags=["PII"])))),
         record("R", ("g", record("C", "x", aliases=["B"])), ("f", record("B", "x")))], "g.x"),
    "an alias of what takes the place, the other field first": (
        [record("R", ("f", record("A", named("x", tags=["PII"])))),
         record("R", ("f", record("B", "x")), ("g", record("C", "x", aliases=["B"])))], "g.x"),
    "an enum that another type makes one with a tagged one": (
        [record("R", ("k", [{"type": "enum", "name": "E", "symbols": ["a"]},
                            tagged({"type": "enum", "name": "X", "symbols": ["a"]})])),
         record("R", ("k", record("N", "i")), ("f", {"type": "enum", "name": "E", "symbols": ["a"]}))], "f"),
    "a tagged type that is defined beneath another tag": (
        [record("R", ("f", wrapped(tagged(record("B", "x"))))), record("R", ("g", record("B", "x")))], "g.x"),
    "such an enum in a list": (
        [record("R", ("f", array(wrapped(tagged(ENUM))))), record("R", ("g", ENUM))], "g"),
    "an enum beneath a tag, where it takes a tagged one's place elsewhere": (
        [record("R", ("g", tagged({**ENUM, "name": "G"}))), record("R", ("g", ENUM), ("f", wrapped("E")))], "f"),
    "a record that took an enum's place beside its fields": (
        [record("R", ("f", record("A", named("x", tags=["PII"])))),
         record("R", ("f", ENUM), ("g", wrapped("E")))], "g"),
    "an enum whose record is tagged later": (
        [record("R", ("f", record("A", "x"))), record("R", ("f", ENUM)),
         record("R", ("f", ENUM), ("g", record("A", named("x", tags=["PII"])))), record("R", ("f", ENUM))], "f"),
    "one of a name that still stands there, for what is gone": (
        [record("R", ("f", [record("m.A", "y"), record("Z", named("x", tags=["PII"]))])),
         record("R", ("f", [record("m.A", "y"), record("n.A", "x")]))], "f.x"),
    "the same text as before, of names that were joined": (
        [record("R", ("f", record("A", "x"))), record("R", ("f", record("B", "x"))),
         record("R", ("f", [record("A", "x"), record("B", "x")])),
         record("R", ("g", record("B", named("x", tags=["PII"])))), record("R", ("f", record("A", "x")))], "f.x"),
    "a text that is gone, where the record is elsewhere too": (
        [record("R", ("f", [record("A", "x"), tagged("string")])), record("R", ("f", record("B", "x")), ("g", "B"))],
        "f.x"),
    "the same, the other field first": (
        [record("R", ("g", [record("A", "x"), tagged("string")]), ("f", "A")),
         record("R", ("g", record("B", "x")), ("f", "B"))], "g.x"),
    "a text for a list of the record that stays": (
        [record("R", ("f", [record("B", named("x", tags=["PII"])), array("B")])),
         record("R", ("f", [record("B", "x"), "string"]))], "f"),
    "a record for a list of the text that stays": (
        [record("R", ("f", ["string", array(tagged("string"))])), record("R", ("f", ["string", record("B", "y")]))],
        "f.y"),
    "another namespace, beside a record that took its place elsewhere": (
        [record("R", ("f", record("m.A", named("x", tags=["PII"]))), ("g", "m.A")),
         record("R", ("f", [record("B", "i"), record("n.A", "x")]), ("g", "B"))], "f.x"),
    "null that was tagged": ([record("R", ("f", tagged("null"))), record("R", "f")], "f"),
    "one of two that an alias elsewhere made one": (
        [record("R", ("f", [record("A", "i"), record("B", named("x", tags=["PII"]))])),
         record("R", ("h", record("Z", "k", aliases=["A", "B"]))),
         record("R", ("f", [record("A", "i"), record("N", "x")]))], "f.x"),
    "two that were renamed at once, and then one": (
        [record("R", ("f", [record("A", named("x", tags=["PII"])), record("B", "i")])),
         record("R", ("f", [record("C", "x"), record("D", "i")])),
         record("R", ("f", [record("E", "x"), record("D", "i")]))], "f.x"),
    "keys of a map that are items now": (
        [record("R", ("x", array(record("C", SSN, "n")))), record("R", ("x", map_of(record("C", "n")))),
         record("R", ("x", array(record("E", "key", ("value", record("C", "n"))))))], "x.key"),
    "another namespace and an enum, beside a record": (
        [record("R", ("f", [record("m.A", SSN), "null"])),
         record("R", ("f", [enum("n.A"), record("n.B", "ssn"), "null"]))],
        "f.ssn"),
    "a name of two versions ago, in another namespace": (
        [record("R", ("f", [record("m.A", SSN), "null"])), record("R", ("f", [record("m.B", "i"), "null"])),
         record("R", ("f", [record("m.B", "i"), record("n.A", "ssn"), "null"]))], "f.ssn"),
    "such a name, beside what may have come instead": (
        [record("R", ("f", [record("m.A", SSN), "null"])), record("R", ("f", [record("m.B", "i"), "null"])),
         record("R", ("f", [record("n.A", "i"), record("X", "ssn"), "null"]))], "f.ssn"),
    "such a name of many versions ago": (
        [record("R", ("f", [record("m.A", SSN), "null"])),
         *[record("R", ("f", [record(f"m.B{at}", "i"), "null"])) for at in range(9)],
         record("R", ("f", [record("m.B8", "i"), record("n.A", "ssn"), "null"]))], "f.ssn"),
    "a former name that comes back, for another record": (
        [record("R", ("f", [record("m.A", "x"), record("o.A", named("x", tags=["PII"]))])),
         record("R", ("f", [record("n.A", "x"), record("o.A", "x")])),
         record("R", ("f", [record("m.A", "x"), "null"]))], "f.x"),
    "the same, with other names": (
        [record("R", ("f", [record("m.B", "x"), record("o.B", named("x", tags=["PII"]))])),
         record("R", ("f", [record("m.A", "x"), record("o.B", "x")])),
         record("R", ("f", [record("m.B", "x"), "null"]))], "f.x"),
    "the name of an enum, for a record": (
        [record("R", ("f", [record("o.A", named("x", tags=["PII"])), enum("m.A")])),
         record("R", ("f", [record("m.A", "x"), "null"]))], "f.x"),
    "the same, where both exchange their names": (
        [record("R", ("f", [record("o.A", named("x", tags=["PII"])), enum("m.A")])),
         record("R", ("f", [record("m.A", "x"), enum("o.A")]))], "f.x"),
    "the name of an enum, for a record of another short name": (
        [record("R", ("f", [record("o.B", named("x", tags=["PII"])), enum("m.A")])),
         record("R", ("f", [record("m.A", "x"), "null"]))], "f.x"),
    "a record, a map, a list of pairs": (
        [record("R", ("x", record("A", SSN))), record("R", ("x", map_of("string"))),
         record("R", ("x", array(record("E", "key", "value"))))], "x.key"),
}  # fmt: skip

# Versions, and the leaf of the last one that stays open.
APART = {
    "a branch that stood beside the tagged one": (
        [record("R", ("c", [record("A", SSN), record("B", "ssn")])), record("R", ("c", [record("B", "ssn"), "int"]))],
        "c.ssn"),
    "such a branch, renamed field": (
        [record("R", ("c", [record("A", SSN), record("B", "ssn")])),
         record("R", ("d", [record("B", "ssn"), "int"], "c"))], "d.ssn"),
    "such a branch, renamed field, later": (
        [record("R", ("c", [record("A", SSN), record("B", "ssn")])),
         record("R", ("d", [record("A", SSN), record("B", "ssn")], "c")),
         record("R", ("d", [record("B", "ssn"), "int"], "c"))], "d.ssn"),
    "such a branch in a list": (
        [record("R", ("c", array([record("A", SSN), record("B", "ssn")]))),
         record("R", ("c", array([record("B", "ssn"), "int"])))], "c.ssn"),
    "another branch of the same name elsewhere": (
        [record("R", ("c", [record("m.A", SSN), record("n.A", "ssn")])),
         record("R", ("c", [record("n.A", "ssn"), "int"]))], "c.ssn"),
    "a new branch beside the tagged one": (
        [record("R", ("c", [record("A", SSN)])), record("R", ("c", [record("A", SSN), record("B", "no")]))], "c.no"),
    "a field beside the one that was named after it": (
        [record("R", ("x", record("A", "ssn")), SSN),
         *[record("R", ("x", record("A", "ssn")), ("y", record("B", SSN), "x"))] * 2], "x.ssn"),
    "the type of the tagged field elsewhere": (
        [record("R", named("f", record("A", "x"), tags=["PII"]), ("g", "A"))] * 2, "g.x"),
    "a name that an alias brings back": (
        [record("R", ("f", [record("m.A", "x"), record("o.B", named("x", tags=["PII"]))])),
         record("R", ("f", [record("n.A", "x"), record("o.B", "x")])),
         record("R", ("f", [record("m.A", "x", aliases=["n.A"]), "null"]))], "f.x"),
    "another field of what was renamed": (
        [record("A", "id", SSN), record("B", "id"), record("B", "id", "ssn")], "id"),
    "a type that replaces one without tags": (
        [record("R", ("a", record("A", "id")), SSN), record("R", ("a", record("B", "id")), SSN),
         record("R", ("a", record("B", "id", "no")), SSN)], "a.no"),
}  # fmt: skip
