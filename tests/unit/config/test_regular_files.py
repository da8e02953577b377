"""Files that configuration names: nothing there makes a command wait or read without end."""

import os
import socket

import pytest

from aggregator.config.load import load_config
from aggregator.errors import ConfigError
from aggregator.lake.storage.store_settings import check_outside
from aggregator.regular_files import MAX_BYTES, read_bytes, read_text

CASES = [
    ('customer: "env:CUSTOMER_KEY"', 'customer: "file:{}"', "keys.customer"),
    ('"127.0.0.1:19292"', '"127.0.0.1:19292", client: {{security.protocol: SSL, ssl.ca.location: {}}}', "central"),
    ("hub: demo", "hub: demo\nui: {{token: 'file:{}'}}", "ui.token"),
]


@pytest.mark.parametrize("case", CASES, ids=["key", "certificate", "token"])
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_pipe_or_a_device_is_no_file_of_a_setting(good, faults, tmp_path, case, kind):
    """Told with its line, before a client opens it, whether anybody writes to it or not."""
    (old, new, place), path = case, "/dev/zero"
    if kind == "pipe":
        path = str(tmp_path / "pipe")
        os.mkfifo(path)
    text = good.replace('  bootstrap_servers: "127.0.0.1:19292"', '  {bootstrap_servers: "127.0.0.1:19292"}')
    (line,) = faults(text.replace(old, new.format(path), 1))
    assert place in line
    assert line.endswith("is a pipe, a socket or a device: name a file")


def test_only_regular_files_up_to_a_size_are_read(tmp_path):
    """A word for each refusal; the text of a file has one kind of line ends."""
    (tmp_path / "text").write_bytes(b"a\r\nb\rc\n")
    assert read_text(tmp_path / "text") == "a\nb\nc\n"
    assert read_bytes(tmp_path / "text") == b"a\r\nb\rc\n"
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "large").open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    heard = socket.socket(socket.AF_UNIX)
    heard.bind(str(tmp_path / "socket"))
    for name, why in {
        "pipe": "Is a pipe, socket or device",
        "/dev/zero": "Is a pipe, socket or device",
        "large": "Larger than 16 MiB",
        ".": "Is a directory",
        "absent": "No such file or directory",
        "socket": "No such device or address",
    }.items():
        with pytest.raises(OSError, match=why):
            read_bytes(tmp_path / name)
    heard.close()


def test_what_cannot_be_checked_is_not_passed_over(tmp_path):
    """A client may read a pipe or a large file to its end; nobody knows what stands there."""
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "large").open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    for name in ("pipe", "large"):
        with pytest.raises(ConfigError, match=f"{name} cannot be checked"):
            check_outside({"AWS_CONFIG_FILE": str(tmp_path / name)})
    check_outside({"AWS_CONFIG_FILE": str(tmp_path / "absent")})


@pytest.mark.parametrize("kind", ["pipe", "device", "large"])
def test_a_configuration_is_a_regular_file_of_a_size(tmp_path, kind):
    """Anything else is refused as a missing file is: it is neither waited for nor read without end."""
    path, why = tmp_path / "hub.yaml", "Is a pipe, socket or device"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.write_bytes(b"#" * (MAX_BYTES + 1))
        why = "Larger than 16 MiB"
    with pytest.raises(ConfigError, match=f"hub.yaml: cannot be read: {why}"):
        load_config(path, {})


@pytest.mark.slow
def test_a_file_of_faults_alone_is_told_in_some_lines(faults):
    """Of 40,000 keys that there are not; the last line says that there is more."""
    lines = faults("hub: demo\n" + "".join(f"k{number}: 1\n" for number in range(40_000)))
    assert len(lines) == 501
    assert "follow once these are corrected" in lines[-1]
