"""Iceberg tables that are registered in a REST catalogue on loopback: rule G holds as it does over SQL, and what the
catalogue says of stores, certificates and code is not heard.
"""

import re

import pytest

from aggregator.config.lake_model import CatalogConfig
from aggregator.errors import ConfigError
from aggregator.lake.storage.folder import Folder
from aggregator.lake.tables.iceberg import IcebergTables
from aggregator.lake.tables.iceberg_files import KeptFiles
from aggregator.lake.tables.port import CommitConflict, TableUnavailable
from aggregator.lake.upkeep.compaction import Compacted, compact
from tests.rest_catalogue import rest_catalogue
from tests.unit.lake.tabling import FIRST, NAME, SECOND, commit, ids, read_ids, staged


def tables_at(address: str, folder) -> IcebergTables:
    options = {"type": "rest", "uri": address}
    return IcebergTables("hub", Folder(str(folder)), catalog=CatalogConfig(options=options))


def test_commits_conflicts_and_a_catalogue_that_is_away(tmp_path):
    """Files and positions are one version, the second of two writers is refused, and what is away is waited for."""
    with rest_catalogue(tmp_path) as address:
        tables = tables_at(address, tmp_path / "lake")
        assert tables.names() == []
        commit(tables, staged(tables, FIRST, 0, 2, ids(1, 2)))
        ours, stale = tables.open(NAME), tables.open(NAME)
        outcome = staged(tables, FIRST, 2, 3, ids(3))
        ours.commit(outcome.files, {FIRST: 3})
        with pytest.raises(CommitConflict):
            stale.commit(outcome.files, {FIRST: 3})
        with pytest.raises(CommitConflict):
            tables.create(NAME, ours.schema())
        commit(tables, staged(tables, SECOND, 0, 1, ids(4)))
        assert compact(tables, tables.folder / NAME, NAME) == Compacted(3, 1)
        handle = tables.open(NAME)
        assert handle.positions([FIRST, SECOND]) == {FIRST: 3, SECOND: 1}
        assert (tables.names(), read_ids(tables)) == ([NAME], [1, 2, 3, 4])
    late = staged(tables, FIRST, 3, 4, ids(5))
    with pytest.raises(TableUnavailable, match="does not answer"):
        handle.commit(late.files, {FIRST: 4})


SIGNED = "which sends the catalogue's credential in clear"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ({"overrides": {"token": "t"}}, f"uri, {SIGNED}"),
        ({"defaults": {"credential": "i:s", "oauth2-server-uri": "http://h"}}, f"oauth2-server-uri, {SIGNED}"),
        ({"overrides": {"rest.sigv4-enabled": "true"}}, f"uri, {SIGNED}"),
        ({"overrides": {"ssl": {"cabundle": False}}}, "ssl, which is more than a text"),
        ({"defaults": {"auth": {"type": "custom", "impl": "os.system"}}}, "auth, which is more than a text"),
        ({"overrides": {"py-io-impl": "tests.x"}}, "py-io-impl, which cannot be set: it loads foreign code"),
        ({"overrides": {"s3.verify-ssl": False}}, "s3.verify-ssl, which cannot be set so"),
        ({"defaults": {"s3.endpoint": "http://h"}}, "s3.endpoint, which sends tables"),
    ],
)
def test_a_catalogue_s_word_opens_nothing(tmp_path, words, told):
    """Neither its own line, before anybody signs in there, nor the store's; and it names no code."""
    with rest_catalogue(tmp_path, **words) as address, pytest.raises(ConfigError, match=re.escape(told)):
        tables_at(address, tmp_path / "lake").names()


def test_a_table_s_word_opens_no_store(tmp_path):
    """Whoever may alter a table's properties, or answers for it, does not say where files go or what writes them."""
    elsewhere = {"py-io-impl": "no.such.Files", "s3.endpoint": "http://127.0.0.1:9"}
    with rest_catalogue(tmp_path, config=elsewhere) as address:
        tables = tables_at(address, tmp_path / "lake")
        commit(tables, staged(tables, FIRST, 0, 2, ids(1, 2)))
        assert read_ids(tables) == [1, 2]
        assert type(tables.open(NAME).table.io) is KeptFiles
