"""Parses the name of an AWS Glue schema registry in a configuration: `glue:<region>/<registry>`.

Invariant: pure. Any other form is refused, and no part of the name is an address.
"""

import re

SCHEME = "glue"
PROFILE = "profile"
_PLACE = re.compile(r"glue:(?P<region>[a-z0-9-]{1,32})/(?P<name>[A-Za-z0-9_$#-]{1,255})")
_PROFILE = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def is_glue(reference: str) -> bool:
    """Whether a reference names one."""
    return _PLACE.fullmatch(reference) is not None


def glue_place(reference: str) -> tuple[str, str]:
    """The region and the name of a Glue registry.

    Raises:
        ValueError: it names none.
    """
    found = _PLACE.fullmatch(reference)
    if found is None:
        raise ValueError("is glue:<region>/<registry>")
    return found["region"], found["name"]


def profile_refusal(value: object) -> str | None:
    """Why the value is not a profile; None if it is one."""
    if isinstance(value, str) and _PROFILE.fullmatch(value):
        return None
    return "is the name of a profile of AWS's configuration"
