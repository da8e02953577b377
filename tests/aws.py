"""S3 and Glue on loopback, as moto speaks them: conditional puts, and a catalogue whose tables have versions.

It is a process of its own, because a client that holds the interpreter's lock would wait for its own server.
"""

import subprocess
import sys
import threading
from pathlib import Path

import boto3

from tests.object_store import BUCKET, REGION, storage_options


class Aws:
    """A running server with a bucket."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.aws"]
        folder = Path(__file__).parents[1]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=folder
        )
        self._address = f"http://127.0.0.1:{self._process.stdout.readline().strip()}"
        keys = {"aws_access_key_id": "x", "aws_secret_access_key": "y", "region_name": REGION}
        boto3.client("s3", endpoint_url=self._address, **keys).create_bucket(Bucket=BUCKET)

    def storage(self, form: str) -> dict[str, str]:
        """How the library of a format reaches the bucket."""
        return storage_options(self._address, form)

    def catalog(self, secret: str) -> dict[str, str]:
        """The options of the Glue catalogue; `secret` refers to its key."""
        where = {"type": "glue", "glue.endpoint": self._address, "glue.region": REGION, "insecure": "loopback"}
        return where | {"glue.access-key-id": "x", "glue.secret-access-key": secret}

    def end(self) -> None:
        """Take it down, with all that it holds."""
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()


def main() -> None:
    """Serve until killed; the first line is the port."""
    from moto.glue.exceptions import GlueClientError  # noqa: PLC0415 - its parent needs nothing of moto
    from moto.glue.responses import GlueResponse  # noqa: PLC0415
    from moto.server import ThreadedMotoServer  # noqa: PLC0415

    update, one = GlueResponse.update_table, threading.Lock()

    def update_of_version(self):
        """AWS refuses an update of another version than the newest; moto reads no `VersionId`."""
        asked = self.parameters
        with one:
            table = self.glue_backend.get_table(asked["DatabaseName"], asked["TableInput"]["Name"])
            if asked.get("VersionId") != table.as_dict()["VersionId"]:
                raise GlueClientError("ConcurrentModificationException", "another version is the newest")
            return update(self)

    GlueResponse.update_table = update_of_version
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    print(server.get_host_and_port()[1], flush=True)
    server._thread.join()


if __name__ == "__main__":
    main()
