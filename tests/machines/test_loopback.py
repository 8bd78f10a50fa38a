"""The environment and the endpoint of a program that runs without namespaces."""

import os
import socket
import sys
from pathlib import Path

import pytest

from fairwarning.core.errors import Refused
from fairwarning.machines.process import control, isolation, loopback
from fairwarning.machines.process.channel import Channel, close_all
from tests.fixtures.files import short_folder
from tests.machines.process_harness import process_harness

pytestmark = pytest.mark.spec("O12")

URL = "http://127.0.0.1:4711"


@pytest.mark.parametrize(
    "entry",
    [
        "*",
        "169.254.169.254",
        "169.254.169.254:80",
        "169.254.169.254/32",
        "169.254.0.0/16",
        "0.0.0.0/0",
        "169.254.*",
        "169.254.",
        ".254",
        "*.169.254",
        "254",
    ],
)
def test_no_entry_bypasses_the_proxy_for_the_endpoint(entry: str) -> None:
    """Whatever a client may read as 169.254.169.254 is removed; other hosts stay."""
    inherited = {"no_proxy": f"{entry},db.example", "NO_PROXY": f"api.example {entry}"}
    for name in ("no_proxy", "NO_PROXY"):
        direct = loopback.environment(inherited, URL)[name].split(",")
        assert entry not in direct
        assert {"db.example", "api.example", "localhost"} <= set(direct)


@pytest.mark.parametrize("entry", ["10.0.0.4", "db.example:5432", "2001:db8::/32", ".svc.example"])
def test_entries_for_other_hosts_stay(entry: str) -> None:
    """They cannot mean the endpoint."""
    assert entry in loopback.environment({"no_proxy": entry}, URL)["no_proxy"].split(",")


# --- Systems other than Linux ---------------------------------------------------------------------


def test_a_system_without_linux_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    """None are tried, and whoever demands them is refused."""
    monkeypatch.setattr(isolation, "_LINUX", False)
    assert isolation.choose("auto").reason == "only Linux has them"
    with pytest.raises(Refused, match="use --isolation none"):
        isolation.choose("namespaces")


async def test_a_system_without_the_paths_and_flags_of_linux() -> None:
    """A program attaches, passes its endpoint, and is answered as its machine."""
    with short_folder() as folder, pytest.MonkeyPatch.context() as patch:
        for module, name in ((os, "O_PATH"), (socket, "MSG_CMSG_CLOEXEC")):
            patch.delattr(module, name, raising=False)
        code = (
            "import os, socket, sys; del os.O_PATH, socket.MSG_CMSG_CLOEXEC;"
            "from fairwarning.machines.process import isolation; isolation._LINUX = False;"
            "from fairwarning.cli.commands.exec import command; command()"
        )
        async with process_harness(folder) as harness:
            script = 'echo "${FAIRWARNING_ENDPOINT%:*}"'
            patch.setattr("tests.machines.process_harness.EXEC", (sys.executable, "-c", code))
            assert await harness.output("sh", "-c", script) == "http://127.0.0.1\n"
            assert "web_0 runs without namespaces (only Linux has them)" in harness.err()


async def test_a_folder_whose_path_is_too_long_for_a_socket(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Without the paths of Linux, the service starts and says that programs cannot attach."""
    deep = tmp_path / ("long" * 20) / ("long" * 20)
    deep.mkdir(parents=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.delattr(os, "O_PATH", raising=False)
        async with process_harness(deep):
            assert "use a folder with a path of at most 90 bytes" in caplog.text
        with pytest.raises(control.PathTooLongError):
            control.connect(deep / "data")


def test_messages_and_descriptors_stay_apart() -> None:
    """Messages that arrive together are received one by one, each with its descriptors."""
    one, other = Channel.pair()
    reader, writer = os.pipe()
    one.send("first")
    one.send("machine", descriptors=[reader, writer])
    one.send("last", 3, True)
    other.set_nonblocking()
    assert other.receive() == (["first"], [])
    words, descriptors = other.receive()
    assert (words, len(descriptors)) == (["machine"], 2)
    assert not any(os.get_inheritable(descriptor) for descriptor in descriptors)
    assert other.receive() == (["last", 3, True], [])
    assert other.receive() == (["nothing"], [])
    close_all([reader, writer, *descriptors])
    one.close()
    assert other.receive() == ([], [])
    other.close()


def test_the_last_message_of_an_end_that_did_not_read() -> None:
    """An end that is closed with unread messages has still delivered its own."""
    one, other = Channel.pair()
    one.send("signal", 15)
    other.send("exit", 143)
    other.close()
    assert one.receive() == (["exit", 143], [])
    assert one.receive() == ([], [])
    one.close()
