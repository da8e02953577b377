"""Files that nobody should give: refused with a sentence, within bounds, and without a word of what they hold."""

import contextlib
import json
import time

import pytest

from aggregator.errors import ConfigError
from aggregator.mirrormaker.file_reader import MAX_BYTES, MAX_KEYS, read
from aggregator.mirrormaker.translate import translate

PLANTED = "planted-secret"
TWO = b"clusters=a,b\na->b.enabled=true\n"
BOMB = "kind: KafkaMirrorMaker2\na: &a [x, x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join(['*' + chr(97 + n)] * 9)}]\n" for n in range(20)
)
ALIASES = [{"alias": f"c{n}"} for n in range(2_000)]
REFUSED = [
    ("large", b"a=b\n" * MAX_BYTES, "bytes"),
    ("many keys", TWO + b"a=b\n" * (MAX_KEYS + 1), "keys"),
    ("many clusters", b"clusters=" + b",".join(b"c%d" % n for n in range(600)), "clusters"),
    ("a long key", TWO + b"k" * 400 + b"=1", "longer"),
    ("a long value", TWO + b"k=" + b"v" * 70_000, "longer"),
    ("UTF-16", TWO.decode().encode("utf-16"), "UTF-8"),
    ("Latin-1", b"clusters=a,b # \xfc", "UTF-8"),
    ("NUL", TWO + b"a=\0", "mm2.properties:3: holds a control character"),
    ("an escape sequence", TWO + b"a=\x1b[2J", "control character"),
    ("half a character in JSON", b'{"connector.class": "MirrorSourceConnector", "client.id": "\\ud800"}', "half of"),
    ("half a character", TWO + rb"a=\ud800", "half of a character"),
    ("nothing", b"", "holds no key"),
    ("comments", b"# x\n", "holds no key"),
    ("YAML's aliases", BOMB.encode(), "aliases grow without bound"),
    ("YAML that is none", b"kind: [", "is not YAML"),
    ("several documents", b"kind: KafkaMirrorMaker2\n---\nkind: x\n", "several YAML documents"),
    ("another kind", b"kind: Kafka\n", "is no KafkaMirrorMaker2"),
    ("a custom tag", b"kind: KafkaMirrorMaker2\nspec: !!python/object:os.system x\n", "custom tags"),
    ("deep YAML", b"kind: KafkaMirrorMaker2\na: " + b"[" * 20_000, "nested too deep"),
    ("deep JSON", b"[" * 200_000, "nested too deep"),
    ("JSON that is none", b'{"connector.class": ', "mm2.properties:1: is not JSON"),
    ("another connector", b'{"connector.class": "x"}', "holds no connector"),
    ("a long number", b'{"connector.class": "MirrorSourceConnector", "tasks.max": ' + b"9" * 5_000 + b"}", "number"),
    ("many aliases", json.dumps({"kind": "KafkaMirrorMaker2", "spec": {"clusters": ALIASES}}).encode(), "clusters"),
    ("something else", b"hello world\n", "no configuration of MirrorMaker"),
]


@pytest.mark.parametrize(("content", "said"), [one[1:] for one in REFUSED], ids=[one[0] for one in REFUSED])
def test_what_is_no_configuration_is_refused(content, said):
    """With the file's name, the reason and the next step."""
    with pytest.raises(ConfigError) as error:
        translate(read([("mm2.properties", content)]))
    assert error.value.lines[0].startswith("mm2.properties")
    assert said in error.value.message
    assert error.value.hint


@pytest.mark.parametrize(
    "content",
    [
        f"kind: KafkaMirrorMaker2\nspec: {{password: {PLANTED}",
        f"kind: KafkaMirrorMaker2\nspec: *{PLANTED}",
        f'{{"connector.class": "MirrorSourceConnector", "password": "{PLANTED}" x}}',
        f"a={PLANTED}\nb=\\u{PLANTED}",
        f"a={PLANTED}\n",
    ],
)
def test_no_refusal_holds_a_value(content):
    """Whatever is wrong with the text."""
    with pytest.raises(ConfigError) as error:
        translate(read([("x", content.encode())]))
    assert PLANTED not in str(error.value)


def test_two_forms_together_are_refused():
    """One import is of one MirrorMaker."""
    with pytest.raises(ConfigError, match="several forms"):
        read([("a", TWO), ("b", b'{"connector.class": "MirrorSourceConnector"}')])
    with pytest.raises(ConfigError, match="one at a time"):
        translate(read([(one, b"kind: KafkaMirrorMaker2\nspec: {}\n") for one in ("a.yaml", "b.yaml")]))


def test_a_producer_alone_is_refused():
    """Nobody knows what it would read."""
    with pytest.raises(ConfigError, match="none of these is a consumer's"):
        read([("producer.properties", b"bootstrap.servers=a:1\nacks=all\n")])


COSTLY = [
    b"clusters=" + b",".join(b"c%d" % n for n in range(499)) + b"\n"
    + b"".join(b"c%d->c%d.enabled=true\n" % (n, n + 1) for n in range(498)),
    b"clusters=" + b",".join(b"c%d" % n for n in range(450)) + b",t\n"
    + b"".join(b"c%d->t.enabled=true\n" % n for n in range(450))
    + b"topics=" + b",".join(b"t%d(?!x)" % n for n in range(6_000)) + b"\n",
    TWO + b"".join(b"unknown.key.number.%d=1\n" % n for n in range(4_000)),
    TWO + b"a.sasl.jaas.config=" + b"x" * 60_000 + b"\na.security.protocol=SASL_SSL\n",
    TWO + b'a.sasl.jaas.config=X required a="' + b"\\\\" * 20_000 + b"\na.security.protocol=SASL_SSL\n",
    TWO + b"k=" + b"\\" * 200_000 + b"x\n",
    b"clusters=" + b",".join(b"c%d" % n for n in range(499)) + b"\n"
    + b"".join(b"c%d->c%d.enabled=true\n" % (n, n + 1) for n in range(498))
    + b"".join(b"unknown.k%d=1\n" % n for n in range(4_000)),
    TWO + b"a.client.id=" + b"${" * 30_000 + b"\n",
    json.dumps({"kind": "KafkaMirrorMaker2", "spec": {"clusters": ALIASES}}).encode(),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("content", COSTLY, ids=range(len(COSTLY)))
def test_no_file_takes_long(content):
    """What is within the bounds costs seconds of CPU at most."""
    start = time.process_time()
    with contextlib.suppress(ConfigError):
        translate(read([("x", content)]))
    assert time.process_time() - start < 10
