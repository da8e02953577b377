"""Makes the settings that a store's or a catalogue's client gets, and checks what that client reads besides.

Invariant: a store that the configuration file leaves protected cannot be opened by anything else. That holds for a
secret's content, for variables of the environment, and for profiles that a client reads by itself. A refusal names the
setting, comes before any connection, and holds no value.
"""

import os
from collections.abc import Iterator, Mapping

from aggregator.config.secrets import SecretRef
from aggregator.config.stores import (
    insecure_catalog_settings,
    insecure_environment_settings,
    insecure_profile_settings,
    insecure_storage_settings,
)
from aggregator.config.transport import INSECURE, InsecureSetting, properties
from aggregator.errors import ConfigError
from aggregator.regular_files import UNBOUNDED, read_bytes

# Files that AWS's and Google's clients read by default, and the variables that name another place for them.
_PROFILES = {
    "AWS_CONFIG_FILE": "~/.aws/config",
    "AWS_SHARED_CREDENTIALS_FILE": "~/.aws/credentials",
    "GOOGLE_APPLICATION_CREDENTIALS": "~/.config/gcloud/application_default_credentials.json",
}
_GOOGLE = ("service_account", "service_account_path", "application_credentials")


def store_settings(options: Mapping[str, str | SecretRef], environ: Mapping[str, str]) -> dict[str, str]:
    """The options of a store's client, with their secrets and without our reason.

    Args:
        options: As `lake.storage` has them.
        environ: What the client would ask beside them.

    Raises:
        ConfigError: a secret is not there, or something that is not in the file opens the store.
    """
    found = resolved(options)
    _check("lake.storage", options, insecure_storage_settings(found))
    named = [value for name, value in found.items() if name.lower().removeprefix("google_") in _GOOGLE]
    check_outside(environ, named)
    return found


def catalog_settings(options: Mapping[str, str | SecretRef], environ: Mapping[str, str]) -> dict[str, str]:
    """The options of a catalogue's client, with their secrets and without our reason.

    Args:
        options: As `lake.catalog.options` has them.
        environ: What the client would ask beside them.

    Raises:
        ConfigError: a secret is not there, or something that is not in the file opens the catalogue or the store.
    """
    found = resolved(options)
    _check("lake.catalog.options", options, insecure_catalog_settings(found))
    check_outside(environ)
    return found


def resolved(options: Mapping[str, str | SecretRef]) -> dict[str, str]:
    """Options with their secrets, and without our reason.

    Raises:
        ConfigError: a secret is not there.
    """
    return {
        name: value.resolve() if isinstance(value, SecretRef) else value for name, value in properties(options).items()
    }


def check_outside(environ: Mapping[str, str], files: list[str] | None = None) -> None:
    """Refuse what the environment, or a file that clients read by themselves, would open.

    Args:
        environ: The environment.
        files: Further ones that options name.

    Raises:
        ConfigError: the list of it.
    """
    said = [f"the environment's {one.setting} {one.what}" for one in insecure_environment_settings(environ)]
    said += [f"{one.setting} {one.what}" for one in _profiled(environ, files or [])]
    if said:
        raise ConfigError(
            said,
            hint="take it out there; what is meant stands in `lake.storage` or `lake.catalog.options`, and what is open"
            " has its reason beside it",
        )


def _check(block: str, options: Mapping[str, str | SecretRef], settings: tuple[InsecureSetting, ...]) -> None:
    for one in settings:
        if not one.instead or INSECURE not in options:
            raise ConfigError(
                f"{block}.{one.setting} {one.what}",
                hint=f"{one.instead or 'take it out'}; what is open stands in the file, with its reason beside it",
            )


def _profiled(environ: Mapping[str, str], files: list[str]) -> Iterator[InsecureSetting]:
    named = [environ.get(variable) or place for variable, place in _PROFILES.items()]
    for path in (os.path.expanduser(name) for name in [*named, *files]):  # noqa: PTH111 - a user may have no home
        try:
            text = read_bytes(path).decode("utf-8", "replace")
        except OSError as error:
            if error.errno in UNBOUNDED:  # nobody knows what the client would find there
                yield InsecureSetting(path, f"cannot be checked: {error.strerror}", "name a file")
            continue  # any other file the client cannot read either, and reports that itself
        except ValueError:
            continue
        yield from insecure_profile_settings(path, text)
