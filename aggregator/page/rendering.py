"""Renders a view of a frame as named parts of HTML, and the whole page around them.

Invariants: every value in a template is escaped. A name that a template uses and that has no value is an error. Parts
that look the same are rendered once for all readers.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from aggregator.escapes import visible
from aggregator.moments import to_the_second, utc
from aggregator.observe.formatting import ago, per_second, share, size
from aggregator.page.states import badge_of

TEMPLATES = Path(__file__).parent / "templates"
Parts = Mapping[str, Markup]


@lru_cache(maxsize=1)
def environment() -> Environment:
    """The templates with what they know; they are compiled once."""
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        finalize=_printable,
    )
    made.filters |= {
        "ago": ago,
        "share": share,
        "size": size,
        "per_second": per_second,
        "count": lambda value: "-" if value is None else f"{value:,.0f}",
        "clock": clock,
        "date": date,
        "moment": to_the_second,
        "badge": badge_of,
    }
    return made


def _printable(value: object) -> object:
    """Text in signs where a terminal that prints the page would obey it; what is made for HTML already stays."""
    return "\n".join(map(visible, value.split("\n"))) if type(value) is str else value


def clock(milliseconds: int) -> str:
    """Format a time as a UTC time of day, to the second."""
    return f"{utc(milliseconds):%H:%M:%S}"


def date(milliseconds: int) -> str:
    """Format a time as a UTC date."""
    return f"{utc(milliseconds):%Y-%m-%d}"


class Pages:
    """Renders the parts and pages of the application."""

    def __init__(self) -> None:
        self._templates = environment()
        self._kept: dict[str, tuple[object, Parts]] = {}

    def parts(self, place: str, key: object, make: Callable[[], Mapping[str, tuple[str, dict[str, Any]]]]) -> Parts:
        """The parts of one place, by id; render them if the key has changed.

        Args:
            place: Path of the page.
            key: A key that is equal for parts that look the same.
            make: Template and context of each part.
        """
        known = self._kept.get(place)
        if known is None or known[0] != key:
            known = self._kept[place] = (key, {id_: self._part(*one, id_) for id_, one in make().items()})
        return known[1]

    def page(self, template: str, **context: Any) -> str:
        """Render a whole page from a template."""
        return self._templates.get_template(template).render(context)

    def _part(self, template: str, context: dict[str, Any], id_: str) -> Markup:
        return Markup(self._templates.get_template(template).render(context, id=id_))  # noqa: S704 - escaped within
