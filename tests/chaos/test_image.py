"""The image: each step of the Dockerfile is done for real, and what comes out is looked at as its own user.

`IMAGE=1 make chaos ARGS="-k image"`; it takes root, debootstrap, some minutes and 5 GB.
"""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.image import NEEDED, build, forget_lent

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = ROOT / "configs" / "image" / "Dockerfile"
LACKING = [name for name in NEEDED if shutil.which(name) is None]
WANTED = os.environ.get("IMAGE") == "1"
WHY = "the image is not built: " + (
    "say IMAGE=1 to build it" if not WANTED else f"it takes {', '.join(LACKING) or 'root'}"
)
pytestmark = [
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not WANTED or bool(LACKING) or os.getuid() != 0, reason=WHY),
]
WRITABLE = ("/tmp", "/var/cache/aggregator", "/var/lib/aggregator")


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """The last stage, without what this machine has lent to the build."""
    folder = tmp_path_factory.mktemp("image")
    made = build(DOCKERFILE, ROOT, folder)
    forget_lent(made)
    yield made
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def configured(image):
    """The image with a small configuration where it looks for one."""
    etc = image.root / "etc/aggregator"
    (etc / "policies").mkdir(parents=True)
    (etc / "schemas").mkdir()
    shutil.copy(ROOT / "configs/policies/demo.yaml", etc / "policies")
    shipped = (ROOT / "configs/hub.smallest.yaml").read_text(encoding="utf-8")
    here = shipped.replace("directory:../central-schemas", "directory:schemas").replace("../schemas", "schemas")
    (etc / "hub.yaml").write_text(here.replace("../lake", "/var/lib/aggregator/lake"))
    subprocess.run(["chmod", "-R", "a+rX", str(etc)], check=True)
    yield image
    shutil.rmtree(etc)


def test_the_hub_is_its_command_and_tini_its_first_process(image):
    """The user is 10001, the version is that of the package, and tini passes signals on and reaps."""
    assert image.user == "10001:10001"
    done = image.run([*image.entrypoint, "--version"])
    assert (done.returncode, "aggregator" in done.stdout) == (0, True), done.stderr
    assert image.entrypoint == ("/usr/bin/tini", "--", "aggregator")
    first = "import os; print(open('/proc/1/comm').read().strip(), os.getuid(), os.getgid(), os.getgroups())"
    done = image.run([*image.entrypoint[:-1], "python", "-c", first])
    assert done.stdout.split(maxsplit=3)[:3] == ["tini", "10001", "10001"], done.stderr
    done = image.run([*image.entrypoint[:-1], "sh", "-c", "kill -TERM 1; sleep 60"], timeout=30)
    assert done.returncode == 128 + signal.SIGTERM, done.stderr


def test_without_a_configuration_it_says_which_file_it_wants(image):
    """`docker run` of the bare image ends with 78, and one line of JSON or text that names the file."""
    done = image.run([*image.entrypoint, *image.command])
    assert done.returncode == 78, done.stderr
    assert "/etc/aggregator/hub.yaml" in done.stderr


def test_a_small_configuration_is_read(configured):
    """`config lint` finds its policy and its secret."""
    key = {"CUSTOMER_KEY": "kEV2hF0pQ9r7mZ3xT1uY8wB5nC6vL4sD2gJ0aXqPfHo="}
    done = configured.run([*configured.entrypoint, "config", "lint"], key)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_health_check_says_no_without_a_hub(configured):
    """With 1, and a sentence."""
    done = configured.run(configured.healthcheck)
    assert done.returncode == 1
    assert "hub demo is not live: it does not run here, or stands still" in done.stderr


def test_its_user_can_write_in_three_folders_only(image):
    """Not where code lies, nor where Debian lets everybody write."""
    look = ["find", "/", "-xdev", "-path", "/proc", "-prune", "-o", "-path", "/dev", "-prune", "-o"]
    done = image.run([*look, "-writable", "!", "-type", "l", "-print"])
    assert done.stdout, done.stderr
    assert [path for path in done.stdout.splitlines() if not path.startswith(WRITABLE)] == []
    done = image.run(["find", *WRITABLE, "-user", "root", "!", "-path", "/tmp"])
    assert done.stdout == ""


def test_nothing_of_the_build_is_in_it(image):
    """Neither installers nor sources, nor a private key, nor what this machine has lent."""
    names = ["pip", "pip3*", "pip-*", "uv", "uvx", "uv-*", "*.key", "*.whl"]
    look = ["find", "/usr", "/opt", "/root", "/home", "/var", "/etc", "-false", *(f"-o -name {name}" for name in names)]
    found = image.run(" ".join(look).split(), user="0:0")
    assert (found.returncode, found.stdout) == (0, ""), found.stderr
    assert not (image.root / "src").exists()
    assert not (image.root / "opt/build").exists()
    kinds = [f"--include=*.{kind}" for kind in ("pem", "crt", "key", "p12", "conf", "yaml")]
    private = image.run(["grep", "-rlE", "BEGIN [A-Z ]*PRIVATE KEY", *kinds, "/etc", "/opt", "/var"], user="0:0").stdout
    assert private == ""
    assert not (image.root / "etc/pip.conf").exists()
    assert not list((image.root / "var/lib/apt/lists").glob("*"))


def test_what_is_compiled_ahead_is_in_it(image):
    """Python's own code, the hot loops and Spark's class archive; the user cannot write the first."""
    cache = image.root / "var/cache/aggregator/aggregator"
    assert list(cache.glob("kernel-*/**/*.nbc"))
    assert list(cache.glob("classes/*.jsa"))
    package = next((image.root / "opt/aggregator/lib").glob("python3*/site-packages/aggregator"))
    assert list(package.glob("__pycache__/errors.*.pyc"))
    shipped = {path.name for path in (package / "shipped/configs").iterdir()}
    assert shipped >= {"alerts", "grafana", "policies", "systemd", "hub.full.yaml", "hub.smallest.yaml"}
    assert not shipped & {"helm", "image", "site"}, "these are of a checkout, and in no wheel"


def test_it_starts_as_an_executor_of_spark(image):
    """With what a driver on Kubernetes gives to a pod, Spark's own executor starts, and asks for its driver."""
    given = {
        "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@127.0.0.1:1",
        "SPARK_EXECUTOR_ID": "1",
        "SPARK_EXECUTOR_CORES": "1",
        "SPARK_EXECUTOR_MEMORY": "256m",
        "SPARK_APPLICATION_ID": "spark-1",
        "SPARK_EXECUTOR_POD_IP": "127.0.0.1",
        "SPARK_RESOURCE_PROFILE_ID": "0",
        "SPARK_EXECUTOR_POD_NAME": "hub-exec-1",
        "SPARK_JAVA_OPT_0": "-Dspark.rpc.numRetries=1",
        "SPARK_JAVA_OPT_1": "-Dspark.network.timeout=10s",
    }
    done = image.run([*image.entrypoint[:-1], "spark-executor"], given, timeout=120)
    said = done.stdout + done.stderr
    assert done.returncode != 0
    assert "KubernetesExecutorBackend" in said, said
    assert "127.0.0.1:1" in said, said
