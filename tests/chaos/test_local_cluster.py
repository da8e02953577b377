"""A hub's session on a local cluster: its processes know each other by a secret, which nobody else sees."""

import psutil
import pytest

from aggregator.config.model import HubConfig
from aggregator.engine.session import open_session

FALLBACK, VERSION = "spark.network.crypto.saslFallback", "spark.network.crypto.authEngineVersion"
HUB = {"hub": "h", "central": {"bootstrap_servers": "127.0.0.1:1"}, "edges": {}}


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
def test_executors_know_their_driver_by_a_secret_that_nobody_sees(tmp_path):
    """On a local cluster: asked and encrypted, work is done, and no user who lists processes sees the secret. What the
    configuration says beside loosens nothing.
    """
    conf = {"spark.local.dir": str(tmp_path), FALLBACK: "true", VERSION: "1"}
    wanted = {"master": "local-cluster[1,2,1024]", "conf": conf}
    spark = open_session(HubConfig.model_validate(HUB | {"spark": wanted}), "test-ports")
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
