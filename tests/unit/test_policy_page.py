"""`docs/policy.md` tells the operators as they are, and its examples are policies."""

import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from aggregator import budgets
from aggregator.errors import Reason
from aggregator.privacy.operators.keep import Keep
from aggregator.privacy.operators.parameters import Justified
from aggregator.privacy.operators.registry import DESCRIPTORS
from aggregator.privacy.policy.file import parse_policy
from aggregator.privacy.policy.rules import operator_names

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "policy.md").read_text(encoding="utf-8")
HEAD = "policy: p\nversion: 1\ntopics:\n  orders:\n"


def operators():
    """One row for each operator: its parameters with their defaults, what it leaves, what its model says it does."""
    rows = ["| operator | parameters | leaves | what happens |", "|---|---|---|---|"]
    for one in DESCRIPTORS:
        kind = one.parameters
        hidden = {"operator"} if kind is Keep else {"operator", *Justified.model_fields}
        fields = [_parameter(name, field) for name, field in kind.model_fields.items() if name not in hidden]
        text = " ".join((kind.__doc__ or "").split())
        left = one.strongest.name.lower()
        left += ", or less" if one.privacy_class is not None else ""
        rows.append(f"| `{one.name}` | {' '.join(fields)} | {left} | {text} |")
    return "\n".join(rows)


def _parameter(name, field):
    if field.is_required() or field.default is None:
        return f"`{name}`"
    default = field.default
    return f"`{name}={'[' + ', '.join(map(str, default)) + ']' if isinstance(default, tuple) else default}`"


def test_the_table_of_operators_is_the_codes():
    """Every operator of this version, and no other; the text is that of its parameters."""
    (table,) = re.findall(r"<!-- operators: begin -->\n(.*?)\n<!-- operators: end -->", PAGE, re.DOTALL)
    assert table == operators(), f"put this between the marks:\n{operators()}"
    assert set(re.findall(r"^\| `(\w+)`", table, re.MULTILINE)) == set(operator_names())


def budgeted():
    """One row for each budget."""
    rows = ["| of a | at most | beyond |", "|---|---|---|"]
    for one in budgets.TABLE:
        beyond = f"dead letter `{one.beyond}`" if isinstance(one.beyond, Reason) else one.beyond
        rows.append(f"| {one.of} | {one.limit:,} {one.unit} | {beyond} |")
    return "\n".join(rows)


def test_the_table_of_budgets_is_the_codes():
    """Every budget of the code is in its table, and the table on the page."""
    assert {one for one in vars(budgets).values() if isinstance(one, budgets.Budget)} == set(budgets.TABLE)
    (table,) = re.findall(r"<!-- budgets: begin -->\n(.*?)\n<!-- budgets: end -->", PAGE, re.DOTALL)
    assert table == budgeted(), f"put this between the marks:\n{budgeted()}"


def examples():
    """The page's blocks of YAML, each as a whole policy."""
    blocks = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    return [HEAD + block if block.startswith("    ") else block for block in blocks if not block.startswith("keys:")]


@pytest.mark.parametrize("text", examples(), ids=range(len(examples())))
def test_the_examples_are_policies(text):
    """Nobody pastes what is refused."""
    assert parse_policy(text).topics


def test_the_rules_in_the_text_are_rules():
    """Operators with parameters that stand in a sentence are read as they are written."""
    found = re.findall(r"`(\{(?:keep|mask|custom): \{.*?\}\})`", PAGE.replace("\n", " "))
    assert found
    for written in found:
        rule = written.replace("…", "x")
        assert parse_policy(f"{HEAD}    fields: {{x: {rule}}}\n").topics
        assert YAML(typ="safe").load(rule)


def test_nothing_denies_that_data_is_personal():
    """Neither a module nor a page has the word: what is left after a strip is still personal data."""
    root = Path(__file__).resolve().parents[2]
    texts = [*root.glob("aggregator/**/*.py"), *root.glob("docs/*.md"), root / "README.md"]
    assert not [path for path in texts if re.search("anonymi[sz]", path.read_text(encoding="utf-8"), re.IGNORECASE)]
