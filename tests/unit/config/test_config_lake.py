"""The lake's settings: what is refused, what becomes absolute, and what is shown."""

import pytest

from aggregator.config.secrets import SecretRef
from aggregator.config.show import shown

LAKE = "lake: {path: lake, format: delta, commit_interval: 30s}\n"
ICEBERG = "lake: {path: lake, format: iceberg, catalog: {options: {type: rest, uri: 'https://c', %s}}}\n"

REFUSED = [
    pytest.param(ICEBERG % "token: abc", "lake.catalog.options.token: is a secret", id="secret in clear"),
    pytest.param(
        ICEBERG.replace("https://c", "postgresql://u:pw@db/c") % "x: y",
        "lake.catalog.options.uri: holds a user or a password in clear",
        id="password in an address",
    ),
    pytest.param("lake: {path: lake, format: csv}\n", "lake.format: is `delta` or `iceberg`", id="format"),
    pytest.param(
        "lake: {path: lake, catalog: {options: {type: sql}}}\n",
        "lake.catalog: is for `format: iceberg`",
        id="idle catalogue",
    ),
    pytest.param(
        "lake: {path: lake, format: iceberg, catalog: {name: 'a b'}}\n", "lake.catalog.name: ", id="catalogue's name"
    ),
    pytest.param(
        "lake: {path: lake, format: iceberg, catalog: {optoins: {}}}\n",
        "lake.catalog.optoins: is not known; did you mean `options`?",
        id="unknown key of the catalogue",
    ),
    pytest.param(
        "lake: {path: 's3://b/l', storage: {aws_secret_access_key: abc}}\n",
        "lake.storage.aws_secret_access_key: is a secret",
        id="a store's key in clear",
    ),
    pytest.param(
        "lake: {path: 'abfss://c@a.dfs.core.windows.net/l', storage: {azure_storage_account_key: abc}}\n",
        "lake.storage.azure_storage_account_key: is a secret",
        id="an account's key in clear",
    ),
    pytest.param(
        "lake: {path: 's3://b/l', storage: {AWS_S3_ALLOW_UNSAFE_RENAME: 'true'}}\n",
        "lake.storage.AWS_S3_ALLOW_UNSAFE_RENAME: cannot be set so: two writers",
        id="unsafe renames",
    ),
    pytest.param(
        "lake: {path: lake, format: iceberg, catalog: {options: {type: rest, uri: 'http://c', credential: 'env:C'}}}\n",
        "lake.catalog.options.uri: sends the catalogue's credential in clear",
        id="a credential without TLS",
    ),
    pytest.param(
        "lake: {path: lake, format: iceberg, catalog: {options: {type: rest, uri: 'http://c', token: 'env:C'}}}\n",
        "lake.catalog.options.uri: sends the catalogue's credential in clear",
        id="a token without TLS",
    ),
    *(
        pytest.param(
            ICEBERG % f"{secret}: 'env:C', {name}: {address}",
            f"lake.catalog.options.{name}: {told}",
            id=f"{name} {address}",
        )
        for secret, name in (("credential", "oauth2-server-uri"), ("token", "s3.signer.uri"), ("token", "x.auth-url"))
        for address, told in (
            ("'http://idp/token'", "sends the catalogue's credential in clear"),
            ("'HTTP://idp/token'", "sends the catalogue's credential in clear"),
            ("'env:WHERE'", "is no secret, and decides how safe"),
        )
    ),
    *(
        pytest.param(
            ICEBERG.replace("https://c", uri) % f"{name}: '{value}'",
            f"lake.catalog.options.{place}: {told}",
            id=told_id,
        )
        for uri, name, value, place, told, told_id in (
            ("https://c", "s3.endpoint", "http://m", "s3.endpoint", "sends tables", "a store beside a catalogue"),
            ("https://c", "glue.endpoint", "http://m", "glue.endpoint", "sends tables", "glue"),
            ("https://c", "adls.blob-storage-scheme", "http", "adls.blob-storage-scheme", "sends tables", "a scheme"),
            ("https://c", "header.X-Api-Key", "abc", "header.X-Api-Key", "is a secret", "a header in clear"),
            ("http://c", "header.X-Api-Key", "env:K", "uri", "sends the catalogue's credential", "a header over http"),
            ("postgresql://u:p/w@db/c", "x", "y", "uri", "holds a user or a password", "a slash in a password"),
            ("postgresql://db/c?user=u&password=pw", "x", "y", "uri", "holds a user or a password", "a query"),
        )
    ),
    pytest.param(
        "lake: {path: lake, format: iceberg, catalog: {options: {type: rest, uri: 'https://c', insecure: a lab}}}\n",
        "lake.catalog.options.insecure: excuses nothing",
        id="a reason for nothing",
    ),
    pytest.param(
        "lake: {path: lake, format: iceberg, catalog: {options: {py-catalog-impl: os.system}}}\n",
        "lake.catalog.options.py-catalog-impl: cannot be set: it loads foreign code",
        id="a catalogue's class",
    ),
    pytest.param(
        "lake: {path: lake, format: iceberg, catalog: {options: {write.py-location-provider.impl: x.Y}}}\n",
        "lake.catalog.options.write.py-location-provider.impl: cannot be set",
        id="a provider's class",
    ),
    pytest.param(
        "lake: {path: 's3://b/l', storage: {py-io-impl: x.Y}}\n",
        "lake.storage.py-io-impl: cannot be set",
        id="a store's class",
    ),
    pytest.param(
        "lake: {path: 's3://b/l', storage: {AWS_ALLOW_INVALID_CERTIFICATES: 'true'}}\n",
        "lake.storage.AWS_ALLOW_INVALID_CERTIFICATES: cannot be set so: whoever is between",
        id="any certificate of a store",
    ),
    *(
        pytest.param(
            f"lake: {{path: 's3://b/l', storage: {{{name}: '{value}'{more}}}}}\n",
            f"lake.storage.{place or name}: {told}",
            id=f"{name} {value}{more}",
        )
        for name, value, more, place, told in (
            ("aws_allow_http", "true", "", "", "sends tables"),
            ("ALLOW_HTTP", "1", "", "", "sends tables"),
            ("allow_http", "yes", "", "", "sends tables"),
            ("aws_endpoint_url", "http://minio:9000", "", "", "sends tables"),
            ("s3.endpoint", "HTTP://minio:9000", "", "", "sends tables"),
            ("gcs.service.host", "http://gcs", "", "", "sends tables"),
            ("s3.endpoint", "env:WHERE", "", "", "is no secret, and decides how safe"),
            ("aws_allow_http", "env:WHETHER", "", "", "is no secret, and decides how safe"),
            ("adls.blob-storage-scheme", "http", "", "", "sends tables"),
            ("adls.dfs-storage-scheme", "env:S", "", "", "is no secret, and decides how safe"),
            ("azure_storage_use_emulator", "true", "", "", "sends tables"),
            ("use_emulator", "1", "", "", "sends tables"),
            ("aws_endpoint_url", "https://h/?sig=abc", "", "", "holds a user or a password in clear"),
            ("azure_storage_access_key", "abc", "", "", "is a secret"),
            ("access_key", "abc", "", "", "is a secret"),
            ("azure_storage_master_key", "abc", "", "", "is a secret"),
            ("aws_sse_customer_key_base64", "abc", "", "", "is a secret"),
            ("azure_user_delegation_sas", "abc", "", "", "is a secret"),
            ("gcs.session-kwargs", "abc", "", "", "is a secret"),
            ("aws_allow_http", "false", ", insecure: a lab", "insecure", "excuses nothing"),
            ("aws_endpoint_url", "https://minio", ", insecure: a lab", "insecure", "excuses nothing"),
            ("aws_allow_http", "true", ", insecure: 'true'", "insecure", "is the reason why"),
        )
    ),
    pytest.param(
        "lake: {path: lake, storage: {aws_region: x}}\n",
        "lake.storage: is for an address",
        id="idle options",
    ),
    pytest.param(
        "lake: {path: 's3://b/l', format: iceberg}\n",
        "lake.path: is an object store, where no SQLite file can lie",
        id="no catalogue",
    ),
    pytest.param("lake: {path: lake, commit_records: 0}\n", "lake.commit_records: ", id="no records"),
    pytest.param(
        "lake: {path: lake, tables: {orders: {partition_by: [day, Day]}}}\n",
        "lake.tables.orders.partition_by: names each column once",
        id="a column twice",
    ),
    pytest.param(
        "lake: {path: lake, tables: {ordres: {current_state: true}}}\n",
        "lake.tables.ordres: is a table that no rule under `topics` feeds",
        id="a table that nothing feeds",
    ),
]


@pytest.mark.parametrize(("lake", "told"), REFUSED)
def test_what_the_lake_refuses(changed, lake, told):
    """Each by its place, with what to write instead, and without the value."""
    lines = changed(LAKE, lake)
    assert any(told in line for line in lines), lines
    assert not any("abc" in line or "pw@" in line for line in lines)


def test_a_rule_does_not_write_into_a_current_state(changed):
    """Two writers of one table would undo each other."""
    (line,) = changed('lake: "{topic}"', 'lake: "{topic}__current"')
    assert "the hub keeps current states there" in line


def test_a_catalogue_s_secret_travels_as_a_reference(good, load, tmp_path):
    """`file:` is seen from the configuration's folder; what is shown is the reference."""
    config = load(good.replace(LAKE, ICEBERG % "credential: 'file:secret'"))
    assert config.lake is not None
    assert config.lake.catalog.options["credential"] == SecretRef("file", str(tmp_path / "secret"))
    options = shown(config)["lake"]["catalog"]["options"]
    assert options["credential"] == f"file:{tmp_path / 'secret'}"
    assert options["uri"] == "<hidden>"
