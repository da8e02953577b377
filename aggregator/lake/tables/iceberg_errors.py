"""Translates errors of pyiceberg, SQLAlchemy and the storage below them into the hub's own.

Invariant: the libraries' texts are not passed on, because they may quote a value, or an address with a password. A
failure whose commit may have happened is never reported as a conflict.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NoSuchTableError,
    RESTError,
    TableAlreadyExistsError,
    ValidationError,
    ValidationException,
)
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from aggregator.errors import HoldError
from aggregator.lake.storage.folder import reason
from aggregator.lake.tables.port import CommitConflict, TableUnavailable


@contextmanager
def iceberg_errors(place: object, *, sent: bool = False) -> Iterator[None]:
    """Translate what pyiceberg, its catalogue and its storage raise inside.

    Args:
        place: The table's folder.
        sent: A commit is under way: what is no definite refusal may have happened all the same.

    Raises:
        CommitConflict: another writer was first; nothing of ours is in the table.
        TableUnavailable: the catalogue or the storage does not answer, or its answer was lost.
        HoldError: the table is not what the hub takes it for.
    """
    try:
        yield
    except (CommitFailedException, TableAlreadyExistsError, NoSuchTableError, IntegrityError):
        raise CommitConflict(f"table {place}: another writer came first") from None
    except (SQLAlchemyError, RESTError, CommitStateUnknownException, OSError) as error:
        why = reason(error) if isinstance(error, OSError) else type(error).__name__
        raise TableUnavailable(
            f"table {place}: its catalogue or its storage does not answer: {why}",
            hint="is the catalogue up, and is there space and the right to write?",
        ) from None
    except (ValueError, ValidationError, ValidationException, pa.ArrowException) as error:
        if sent:
            raise TableUnavailable(
                f"table {place}: its commit was not answered ({type(error).__name__})",
                hint="nothing is lost: the next attempt finds out from the table whether it was applied",
            ) from None
        raise HoldError(
            f"table {place}: pyiceberg refuses it ({type(error).__name__})",
            hint="were its columns, its partitions or its metadata altered by hand? undo that, or send the topic to"
            " another table (`lake:`)",
        ) from None
