"""Spark's own connections: processes that are not one know each other by a secret, which nobody else sees."""

import psutil
import pytest

from aggregator.config.load import load_config
from aggregator.config.model import HubConfig, SparkConfig
from aggregator.engine.session import open_session
from aggregator.errors import ConfigError

FALLBACK, VERSION = "spark.network.crypto.saslFallback", "spark.network.crypto.authEngineVersion"
HUB = {"hub": "h", "central": {"bootstrap_servers": "127.0.0.1:1"}, "edges": {}}


def session(tmp_path, **spark):
    """A session as a hub has it."""
    conf = {"spark.local.dir": str(tmp_path), **spark.pop("conf", {})}
    return open_session(HubConfig.model_validate(HUB | {"spark": {"conf": conf, **spark}}), "test-ports")


@pytest.mark.spark
@pytest.mark.timeout(300)
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
def test_executors_know_their_driver_by_a_secret_that_nobody_sees(tmp_path):
    """On a local cluster: asked and encrypted, work is done, and no user who lists processes sees the secret. What the
    configuration says beside loosens nothing.
    """
    spark = session(tmp_path, master="local-cluster[1,2,1024]", conf={FALLBACK: "true", VERSION: "1"})
    try:
        known = dict(spark.sparkContext.getConf().getAll())
        assert (known[FALLBACK], known[VERSION]) == ("false", "2")
        manager = spark.sparkContext._jvm.org.apache.spark.SparkEnv.get().securityManager()
        assert manager.isAuthenticationEnabled()
        assert manager.isEncryptionEnabled()
        secret = manager.getSecretKey()
        assert len(secret) == 64
        executors = spark.range(0, 4, 1, 2).mapInArrow(lambda batches: batches, "id long").count()
        assert executors == 4
        ours = [psutil.Process(), *psutil.Process().children(recursive=True)]
        lines = [" ".join(one.cmdline()) for one in ours if one.status() != psutil.STATUS_ZOMBIE]
        assert any("CoarseGrainedExecutorBackend" in line for line in lines), "there are executors to look at"
        assert not [line for line in lines if secret in line]
        assert secret not in str(spark.sql("set").collect())
        written = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
        assert not any(secret.encode() in content for content in written)
    finally:
        spark.stop()


def test_a_standalone_cluster_asks_for_its_secret(tmp_path):
    """By reference, told with its line; a secret that nothing asks for is told, too."""
    file = tmp_path / "hub.yaml"
    head = 'hub: h\ncentral: {bootstrap_servers: "c:1"}\nedges: {eu: {bootstrap_servers: "e:1"}}\n'
    file.write_text(f'{head}spark: {{master: "spark://m:7077"}}\n')
    with pytest.raises(ConfigError, match=r"hub\.yaml:4: spark: a standalone cluster is told from others by a secret"):
        load_config(file, {})
    file.write_text(f'{head}spark: {{master: "spark://m:7077", secret: "file:s"}}\n')
    assert load_config(file, {}).spark.secret.target == str(tmp_path / "s")
    file.write_text(f'{head}spark: {{master: "spark://m:7077", conf: {{spark.authenticate: false}}}}\n')
    assert load_config(file, {}).spark.secret is None
    file.write_text(f'{head}spark: {{master: "k8s://m", secret: "file:s"}}\n')
    with pytest.raises(ConfigError, match="a `secret` that nothing asks for"):
        load_config(file, {})
    file.write_text(f'{head}spark: {{master: "spark://m:7077", secret: "in-clear"}}\n')
    with pytest.raises(ConfigError, match="never a value in clear"):
        load_config(file, {})


def test_a_master_from_the_command_line_asks_as_well():
    """Before Spark starts."""
    hub = HubConfig.model_validate(HUB)
    hub = hub.model_copy(update={"spark": SparkConfig().model_copy(update={"master": "spark://127.0.0.1:1"})})
    with pytest.raises(ConfigError, match="asks for the secret of its cluster"):
        open_session(hub, "test-ports")
