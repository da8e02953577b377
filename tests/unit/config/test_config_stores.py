"""Options of stores and catalogues by class: what opens, takes any certificate or sends elsewhere, by whatever name."""

import json
import re

import pytest

from aggregator.config import stores
from aggregator.config.document import read_document
from aggregator.config.lake_model import CatalogConfig
from aggregator.errors import ConfigError
from aggregator.lake.storage.folder import Folder
from aggregator.lake.tables.formats import lake_folder
from aggregator.lake.tables.iceberg import IcebergTables

LAKE = "lake: {path: lake, format: delta, commit_interval: 30s}\n"
CLEAR = "sends tables, and what the store lets the hub in by, in clear"
ANYBODY = "cannot be set so: whoever is between"
ELSEWHERE = "says where tables or credentials go"

# As object_store 0.13, delta-rs 1.6, pyiceberg 0.12 and Arrow 26 call them, and as the next ones may.
ADDRESSES = [
    "aws_endpoint",
    "aws_endpoint_url",
    "AWS_ENDPOINT_URL",
    "endpoint",
    "endpoint_url",
    "aws_endpoint_url_s3",
    "aws_endpoint_url_sts",
    "AWS_ENDPOINT_URL_STS",
    "endpoint_url_sts",
    "AWS_ENDPOINT_URL_DYNAMODB",
    "aws_metadata_endpoint",
    "metadata_endpoint",
    "aws_container_credentials_full_uri",
    "container_credentials_full_uri",
    "proxy_url",
    "aws_proxy_url",
    "azure_storage_endpoint",
    "azure_endpoint",
    "azure_storage_authority_host",
    "azure_authority_host",
    "authority_host",
    "azure_msi_endpoint",
    "azure_identity_endpoint",
    "identity_endpoint",
    "msi_endpoint",
    "azure_fabric_token_service_url",
    "fabric_workload_host",
    "google_base_url",
    "base_url",
    "gcs_base_url",
    "s3.endpoint",
    "s3.proxy-uri",
    "s3.signer.endpoint",
    "gcs.service.host",
    "adls.account-host",
    "adls.blob-storage-authority",
    "adls.dfs-storage-authority",
    "hf.endpoint",
    "glue.endpoint",
    "dynamodb.endpoint",
    "awsEndpointUrl",
    "S3.Endpoint",
    "client.sts-endpoint",
]
DISGUISES = ["http://h", "HTTP://h", " http://h", "'\tht\ttp://h'", "http:h", "'http:\\\\h'", "ftp://h", "ws://h:80"]
SWITCHES = [
    "aws_allow_http",
    "ALLOW_HTTP",
    "google_allow_http",
    "azure_allow_http",
    "allow-http",
    "s3.allow-http",
    "allowHttp",
    "azure_storage_use_emulator",
    "use_emulator",
    "AZURE_STORAGE_USE_EMULATOR",
    "gcs.emulator",
    "disable_ssl",
    "s3.disable-tls",
    "no_ssl",
]
CLOSINGS = ["use_ssl", "s3.ssl.enabled", "adls.secure", "use_https", "s3.use-tls", "ssl"]
CERTIFICATES = [
    *(f"{name}: 'true'" for name in ("allow_invalid_certificates", "AWS_ALLOW_INVALID_CERTIFICATES")),
    *(f"{name}: '1'" for name in ("azure_allow_invalid_certificates", "google_allow_invalid_certificates")),
    *(f"{name}: 'yes'" for name in ("s3.allow-invalid-certificates", "allow_invalid_hostnames", "tls_insecure")),
    *(f"{name}: 'on'" for name in ("skip_verify", "s3.tls-insecure-skip-verify", "disable_certificate_validation")),
    *(f"{name}: 'true'" for name in ("no_verify_ssl", "accept_self_signed", "trust_all_certificates")),
    *(f"{name}: 'false'" for name in ("verify", "s3.verify-ssl", "ssl.verify", "check_hostname", "verify_certs")),
    *(f"{name}: '0'" for name in ("ssl_verify_peer", "tls.verification.enabled", "validate_certificate")),
]
OPEN = [
    *(f"{name}: 'http://h'" for name in ADDRESSES),
    *(f"aws_endpoint_url: {value}" for value in DISGUISES),
    *(f"{name}: 'true'" for name in SWITCHES),
    *(f"{name}: 'false'" for name in CLOSINGS),
    *(f"{name}: HTTP" for name in ("adls.blob-storage-scheme", "adls.dfs-storage-scheme", "s3.scheme")),
    "x.sslmode: disable",
    # A login is no address of the machine's own link, and what looks like one may be another.
    "azure_authority_host: 'http://login.microsoftonline.com'",
    "metadata_endpoint: 'http://169.254.169.254.example'",
]
CODE = ["s3.retry-strategy-impl: 'false'", "py-io-impl: x.Y", "py_catalog_impl: ''", "credential_source.executable: x"]
IN_CLEAR = [
    "azure_storage_encryption_key",
    "encryption_key",
    "s3.some-key",
    "aws_session_token",
    "gcs.oauth2.token",
    "hf.token",
    "adls.sas-token",
    "client.secret-access-key",
    "bearer_token",
    "azure_client_secret",
    "sse_customer_key_base64",
    "key",
]
NO_ADDRESS = ["aws_region: 'x.example/?'", "account_name: 'h.example/'", "adls.account-name: 'h#'", "bucket: '../b'"]
CLOSED = [
    *(f"{name}: 'https://h'" for name in ("aws_endpoint_url", "s3.endpoint", "azure_endpoint", "google_base_url")),
    *(f"{name}: 'false'" for name in ("aws_allow_http", "use_emulator", "allow_invalid_certificates", "no_verify_ssl")),
    *(f"{name}: 'true'" for name in ("use_ssl", "verify", "aws_virtual_hosted_style_request", "imdsv1_fallback")),
    *(
        f"{name}: x-1"
        for name in ("aws_region", "s3.region", "aws_bucket", "azure_container_name", "adls.account-name")
    ),
    "metadata_endpoint: 'http://169.254.169.254'",
    "container_credentials_full_uri: 'http://169.254.170.23/v1/credentials'",
    "s3.endpoint: 'minio:9000'",
    "adls.blob-storage-authority: '.blob.core.example'",
    "adls.dfs-storage-scheme: https",
    "max_retries: '0'",
    "timeout: 30s",
    "disable_system_certificates: 'true'",
    "use_fabric_endpoint: 'true'",
    "aws_skip_signature: 'true'",
    "s3.anonymous: 'true'",
    "copy_if_not_exists: multipart",
    "proxy_excludes: 'h'",
    *(f"{name}: /run/token" for name in ("aws_web_identity_token_file", "azure_federated_token_file")),
    "container_authorization_token_file: /run/token",
    "azure_credential_type: client_secret",
    "gcs.oauth2.token-expires-at: '1'",
    "aws_sse_kms_key_id: x",
]


def with_storage(setting: str, more: str = "") -> str:
    return f"lake: {{path: 's3://b/l', storage: {{{setting}{more}}}}}\n"


def with_catalogue(setting: str) -> str:
    options = f"{{type: rest, uri: 'https://c', {setting}}}"
    return f"lake: {{path: lake, format: iceberg, catalog: {{options: {options}}}}}\n"


@pytest.mark.parametrize("setting", OPEN)
@pytest.mark.slow
def test_what_opens_a_store_needs_a_reason(changed, setting):
    """By class: an address without TLS, a switch, a scheme; with a reason it stands, and is shown as open."""
    (line,) = changed(LAKE, with_storage(setting))
    assert re.search(f"{CLEAR}: write .*; or say why this may be so", line)
    assert changed(LAKE, with_storage(setting, ", insecure: a lab of ours")) == []


@pytest.mark.parametrize("setting", ["s3.endpoint: 'http://m'", "adls.secure: 'no'", "glue.endpoint: 'http:h'"])
def test_what_opens_a_store_beside_a_catalogue_needs_one_too(changed, setting):
    """A catalogue's client reaches the store by options of its own."""
    (line,) = changed(LAKE, with_catalogue(setting))
    assert f"{CLEAR}: write" in line


@pytest.mark.parametrize("place", [with_storage, with_catalogue])
@pytest.mark.parametrize("setting", CERTIFICATES)
def test_no_reason_excuses_a_certificate_that_nobody_checks(changed, place, setting):
    """Whoever is between would be the store, for records and for keys."""
    assert any(ANYBODY in line for line in changed(LAKE, place(setting)))
    assert any(ANYBODY in line for line in changed(LAKE, place(f"{setting}, insecure: a lab of ours")))


@pytest.mark.parametrize("place", [with_storage, with_catalogue])
@pytest.mark.parametrize(
    ("setting", "told"),
    [
        *((one, "cannot be set: it loads foreign code") for one in CODE),
        *((f"{one}: abc", "is a secret") for one in IN_CLEAR),
    ],
)
def test_no_class_and_no_key_stands_in_the_file(changed, place, setting, told):
    """A client imports the one; the other is a reference."""
    (line,) = changed(LAKE, place(setting))
    assert told in line
    assert "abc" not in line


@pytest.mark.parametrize("setting", NO_ADDRESS)
def test_a_part_of_an_address_is_no_address(changed, setting):
    """A client writes a region or an account into a host's name, and would send its token to another."""
    (line,) = changed(LAKE, with_storage(setting))
    assert "cannot be set so: a part of an address is letters" in line


@pytest.mark.parametrize("row", range(len(stores._KINDS)))
@pytest.mark.slow
def test_each_row_of_the_table_is_needed(monkeypatch, row):
    """Without it, something of the lists above passes, or is told for something else."""
    doubled = ["allow_unsafe_rename: 'true'", "aws_conditional_put: disabled"]
    settings = [read_document(one).data for one in (*OPEN, *CERTIFICATES, *CODE, *NO_ADDRESS, *doubled)]
    before = list(map(judged, settings))
    assert all(before)
    monkeypatch.setattr(stores, "_KINDS", stores._KINDS[:row] + stores._KINDS[row + 1 :])
    assert list(map(judged, settings)) != before


def judged(setting: dict[str, str]) -> str:
    """What is said of it; nothing, where it passes."""
    ((name, value),) = setting.items()
    return stores.storage_refusal(name, value) or "".join(one.what for one in stores.insecure_storage_settings(setting))


@pytest.mark.parametrize("setting", CLOSED)
def test_what_is_closed_is_taken_and_a_reason_for_it_is_none(changed, setting):
    """Also the addresses of a cloud's own machine, which are the same for everybody and never encrypted."""
    assert changed(LAKE, with_storage(setting)) == []
    (line,) = changed(LAKE, with_storage(setting, ", insecure: a lab of ours"))
    assert "insecure: excuses nothing" in line


VARIABLES = [
    *((name, "http://h") for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT", "aws_endpoint_url")),
    *((name, "http://h") for name in ("AWS_ENDPOINT_URL_STS", "AWS_ENDPOINT_URL_SSO", "AWS_ENDPOINT_URL_DYNAMODB")),
    *((name, "https://h") for name in ("AWS_ENDPOINT_URL_STS", "AWS_ENDPOINT_URL", "AZURE_STORAGE_ENDPOINT")),
    *((name, "http://h") for name in ("AWS_METADATA_ENDPOINT", "AWS_EC2_METADATA_SERVICE_ENDPOINT")),
    *(
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"http://{host}/x")
        for host in ("h", "169.254.170.2@h", "10.0.0.1", "h\\@169.254.170.2")
    ),
    ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "@h.example/x"),
    *(
        (name, "http://h")
        for name in ("AZURE_MSI_ENDPOINT", "AZURE_IDENTITY_ENDPOINT", "IDENTITY_ENDPOINT", "MSI_ENDPOINT")
    ),
    *((name, "http://h") for name in ("AZURE_AUTHORITY_HOST", "AZURE_POD_IDENTITY_AUTHORITY_HOST", "AZURE_ENDPOINT")),
    ("AZURE_AUTHORITY_HOST", "http://login.microsoftonline.com"),
    ("AZURITE_BLOB_STORAGE_URL", "http://127.0.0.1:1"),
    ("AZURE_FABRIC_TOKEN_SERVICE_URL", "http://h"),
    *((name, "h:1") for name in ("GCE_METADATA_HOST", "GCE_METADATA_ROOT", "GCE_METADATA_IP")),
    *((name, "http://h") for name in ("GOOGLE_BASE_URL", "CLOUD_STORAGE_EMULATOR_ENDPOINT")),
    *((name, "http://h") for name in ("GOOGLE_CLOUD_UNIVERSE_DOMAIN", "CLOUD_STORAGE_TESTBENCH_ENDPOINT")),
    *((name, "http://h") for name in ("AWS_PROXY_URL", "AZURE_PROXY_URL", "GOOGLE_PROXY_URL", "PROXY_URL")),
    *((name, "http://h") for name in ("ENDPOINT", "ENDPOINT_URL", "ENDPOINT_URL_STS", "METADATA_ENDPOINT")),
]
SAID = [
    *((name, "true", CLEAR) for name in ("AWS_ALLOW_HTTP", "ALLOW_HTTP", "Allow_Http", "AZURE_ALLOW_HTTP")),
    *((name, "1", CLEAR) for name in ("GOOGLE_ALLOW_HTTP", "AZURE_STORAGE_USE_EMULATOR", "AZURE_USE_EMULATOR")),
    *((name, "true", ANYBODY) for name in ("AWS_ALLOW_INVALID_CERTIFICATES", "ALLOW_INVALID_CERTIFICATES")),
    *((name, "on", ANYBODY) for name in ("AZURE_ALLOW_INVALID_CERTIFICATES", "GOOGLE_ALLOW_INVALID_CERTIFICATES")),
    *((name, "x", "whose certificates") for name in ("AWS_PROXY_CA_CERTIFICATE", "PROXY_CA_CERTIFICATE")),
    ("AWS_S3_ALLOW_UNSAFE_RENAME", "true", "two writers"),
    ("AWS_CONDITIONAL_PUT", "disabled", "two writers"),
    ("CONDITIONAL_PUT", "disabled", "two writers"),
    ("AWS_REGION", "x.example/?", "a part of an address"),
    *((name, value, ELSEWHERE) for name, value in VARIABLES),
]
UNHEARD = [
    ("AWS_REGION", "eu-central-1"),
    ("AWS_PROFILE", "hub"),
    ("AWS_ACCESS_KEY_ID", "x"),
    ("AWS_ROLE_ARN", "arn:aws:iam::1:role/hub"),
    ("AWS_WEB_IDENTITY_TOKEN_FILE", "/var/run/secrets/token"),
    ("AWS_STS_REGIONAL_ENDPOINTS", "regional"),
    ("AWS_USE_FIPS_ENDPOINT", "true"),
    ("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://[fd00:ec2::254]"),
    ("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE", "IPv6"),
    ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2/credentials/x"),
    ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://169.254.170.23/v1/credentials"),
    ("AWS_ALLOW_HTTP", "false"),
    ("AWS_EC2_METADATA_DISABLED", "true"),
    ("AZURE_AUTHORITY_HOST", "https://login.microsoftonline.com/"),
    ("AZURE_FEDERATED_TOKEN_FILE", "/var/run/secrets/token"),
    ("IDENTITY_ENDPOINT", "http://localhost:42356/msi/token"),
    ("GCE_METADATA_HOST", "metadata.google.internal"),
    ("GOOGLE_CLOUD_PROJECT", "hub"),
    ("KUBERNETES_SERVICE_HOST", "10.0.0.1"),
    ("DATABASE_URL", "postgres://h"),
    ("HTTPS_PROXY", "http://proxy:3128"),
]


@pytest.fixture
def stored(load, good, monkeypatch, tmp_path):
    """The folder of a lake in a store with some options, as a task gets it; nobody's own profile is read."""
    monkeypatch.setenv("HOME", str(tmp_path))
    return lambda options="": lake_folder(load(good.replace("path: lake", f"path: 's3://b/l', storage: {{{options}}}")))


@pytest.fixture
def store(stored):
    """The folder of a lake in a store of which the file says nothing."""
    return stored()


@pytest.fixture
def both(store, catalogue):
    """What opens a store, and what opens a catalogue."""
    return store.resolved, catalogue({"type": "sql", "uri": "sqlite:///:memory:"}).names


@pytest.fixture
def catalogue(tmp_path):
    """Tables of a catalogue with some options, on a disk."""
    return lambda options: IcebergTables(
        "hub", Folder(str(tmp_path), "iceberg"), catalog=CatalogConfig(options=options)
    )


@pytest.mark.parametrize(("name", "value", "told"), SAID, ids=lambda part: str(part)[:40])
def test_the_environment_opens_no_store(both, monkeypatch, name, value, told):
    """Clients ask it for whatever the file leaves out: refused by name, for tables and a catalogue, and not quoted."""
    monkeypatch.setenv(name, value)
    for opened in both:
        with pytest.raises(ConfigError, match=f"the environment's {name} .*{told}") as refused:
            opened()
        assert value in (*"1x", "on", "true", "disabled") or value not in str(refused.value)


@pytest.mark.parametrize("lake", [with_storage("max_retries: '1'"), with_catalogue("page-size: '1'")])
def test_the_environment_is_looked_at_with_the_file(changed, lake):
    """Each variable is a fault of the lake's line; a lake on a disk has no client that would ask."""
    environ = {"AWS_ALLOW_HTTP": "1", "AWS_ENDPOINT_URL_STS": "https://h", "AWS_REGION": "eu-west-1"}
    lines = changed(LAKE, lake, environ)
    assert [re.search(r": lake: the environment's (\w+) ", line)[1] for line in lines] == list(environ)[:2]
    assert not any("https://h" in line for line in lines)
    assert changed(LAKE, LAKE, environ) == []


@pytest.mark.parametrize(("name", "value"), UNHEARD)
def test_what_a_cloud_sets_by_itself_decides_nothing(store, monkeypatch, name, value):
    """Roles, regions, tokens in files, and the addresses that are the same on each of its machines."""
    monkeypatch.setenv(name, value)
    assert store.resolved() == {}


KEY = {"type": "service_account", "token_uri": "https://oauth2.googleapis.com/token", "private_key": "x"}
HELD = [
    ("google_service_account_key", json.dumps(KEY | {"gcs_base_url": "http://h"})),
    ("google_service_account_key", json.dumps(KEY | {"token_uri": "http://h/token"})),
    ("google_service_account_key", json.dumps(KEY | {"credential_source": {"url": "http://h/"}})),
    ("adls.connection-string", "DefaultEndpointsProtocol=http;AccountName=a;AccountKey=k"),
    ("adls.connection-string", "AccountName=a;AccountKey=k;BlobEndpoint=http://h"),
]


@pytest.mark.parametrize(("name", "content"), HELD)
def test_a_secret_s_content_opens_no_store(stored, tmp_path, name, content):
    """Whoever may write a key's file may not say where the hub signs in."""
    (tmp_path / "key").write_text(content)
    folder = stored(f"{name}: 'file:key'")
    with pytest.raises(ConfigError, match=rf"lake\.storage\.{name} holds .*{CLEAR}") as refused:
        folder.resolved()
    assert "//h" not in str(refused.value)
    (tmp_path / "key").write_text(json.dumps(KEY))
    assert set(folder.resolved()) == {name}


PROFILES = [
    ("AWS_CONFIG_FILE", ".aws/config", "[default]\nservices = x\n[services x]\nsts =\n  endpoint_url = http://h\n"),
    ("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials", "[default]\nendpoint_url=http://h\n"),
    (
        "GOOGLE_APPLICATION_CREDENTIALS",
        ".config/gcloud/application_default_credentials.json",
        json.dumps(KEY | {"token_uri": "http://h"}),
    ),
]


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("profile", PROFILES)
def test_a_profile_opens_no_store(store, monkeypatch, tmp_path, profile, named):
    """The clients read it without being asked; where it lies is told, and what it says is not."""
    variable, place, text = profile
    path = tmp_path / ("elsewhere" if named else place)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    if named:
        monkeypatch.setenv(variable, str(path))
    with pytest.raises(ConfigError, match=f"{path}: .*{CLEAR}") as refused:
        store.resolved()
    assert "http://h" not in str(refused.value)
    path.write_text(text.replace("http://h", "https://h"))
    assert store.resolved() == {}


@pytest.mark.parametrize("query", ["sslmode=disable", "ssl=false", "sslmode=require&verify_ssl=no"])
def test_an_address_s_query_opens_no_catalogue(catalogue, tmp_path, query):
    """A database's driver takes its settings from there, and the address is a reference."""
    (tmp_path / "address").write_text(f"postgresql://u:p@127.0.0.1:9/c?{query}")
    options = {"type": "sql", "uri": f"file:{tmp_path / 'address'}"}
    with pytest.raises(ConfigError, match=r"lake\.catalog\.options\.uri holds .*, which "):
        catalogue(options).names()


def test_a_user_without_a_home_has_no_profile(store, monkeypatch):
    """As in a container, where a number is all that the system knows of him."""
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", _nobody)
    assert store.resolved() == {}


def _nobody(_uid: int) -> None:
    raise KeyError
