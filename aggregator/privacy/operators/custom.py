"""`custom`: a function from another package, found through the entry points of the group `aggregator.operators`.

    def shout(values: Sequence[Value], *, mark: str) -> list[str]: ...

The function gets the distinct values of a batch (str, int, float, or bytes; an enum as its symbol), and the rule's
parameters by name. It returns one result for every value, in the same order, and the same result each time. It runs in
every worker.
Invariant: a record fails if its result is missing or does not have the declared type. Nothing is converted.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import entry_points
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StringConstraints

from aggregator.errors import ConfigError
from aggregator.privacy.fields.field_types import Name
from aggregator.privacy.fields.leaf import Leaf, Value
from aggregator.privacy.operators import number
from aggregator.privacy.operators.descriptor import Descriptor, Operator, PrivacyClass
from aggregator.privacy.operators.parameters import Justified
from aggregator.schema.avro import Kind

OutputType = Literal["boolean", "int", "long", "float", "double", "string", "bytes"]
Scalar = bool | int | float | Annotated[str, StringConstraints(max_length=1000)]

GROUP = "aggregator.operators"
_TYPES: Mapping[str, type] = {
    "boolean": bool,
    "int": int,
    "long": int,
    "float": float,
    "double": float,
    "string": str,
    "bytes": bytes,
}


def _pairs(value: Any) -> Any:
    return tuple(sorted(value.items(), key=lambda pair: str(pair[0]))) if isinstance(value, dict) else value


class Custom(Justified):
    """A function from the entry points of group `aggregator.operators`, by name, with the type that it answers."""

    operator: Literal["custom"] = "custom"
    name: Name
    type: OutputType
    parameters: Annotated[
        tuple[tuple[Annotated[str, StringConstraints(pattern=r"^[a-z_][a-z0-9_]*$")], Scalar], ...],
        BeforeValidator(_pairs),
        Field(max_length=100),
    ] = ()


def result(rule: Custom, leaf: Leaf) -> Leaf | None:
    """The declared type; a boolean has two values, for which nobody needs foreign code."""
    return None if leaf.kind is Kind.BOOLEAN else Leaf(Kind(rule.type))


def build(rule: Custom, leaf: Leaf, *_: object) -> Operator:
    """The function, with its answers checked.

    Raises:
        ConfigError: no such entry point, or it cannot be loaded.
    """
    function, made, parameters = _loaded(rule.name), Leaf(Kind(rule.type)), dict(rule.parameters)

    def answers(values: Sequence[Value]) -> list[Value | None]:
        given = [number.floating(leaf, value) for value in values] if number.is_floating(leaf) else list(values)
        found = list(function(given, **parameters))
        if len(found) != len(values):
            raise ValueError("a custom operator answers every value once")
        return [_checked(made, answer) for answer in found]

    return answers


def _loaded(name: str) -> Callable[..., Any]:
    found = entry_points(group=GROUP, name=name)
    if not found:
        raise ConfigError(
            f"no custom operator is called {name}",
            hint=f"install the package with the entry point `{name}` in group `{GROUP}`, on every worker",
        )
    try:
        function = next(iter(found)).load()
    except Exception as error:  # noqa: BLE001 - importing foreign code can raise anything
        raise ConfigError(
            f"custom operator {name} cannot be loaded: {type(error).__name__}", hint="import its module by hand"
        ) from None
    if not callable(function):
        raise ConfigError(f"custom operator {name} is no function", hint="point its entry point at a function")
    checked: Callable[..., Any] = function
    return checked


def _checked(made: Leaf, answer: Any) -> Value:
    """An answer of exactly the declared type: a bool is no int here.

    Raises:
        TypeError: it is another.
    """
    value: Any = answer  # `type(…) is` would narrow it to nothing
    if type(answer) is not _TYPES[made.kind]:
        raise TypeError(f"a custom operator answered no {made.kind}")
    if made.kind is Kind.BOOLEAN:
        return b"\1" if value else b"\0"
    if number.is_floating(made):
        return number.packed(made, value)
    checked: Value = value
    return checked


CUSTOM = Descriptor(
    parameters=Custom, strongest=PrivacyClass.CLEAR, result=result, build=build, is_sampled=False, may_grow=True
)
