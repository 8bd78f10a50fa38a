"""What a service needs to start: a place for its data, free ports; errors say what to do next."""

import os
import socket
from pathlib import Path

import psycopg
import pytest

from fairwarning.cli.commands import healthcheck
from fairwarning.server import data_folder
from tests.fixtures.http import fetch
from tests.fixtures.postgres.database import migrated_database_or_skip
from tests.fixtures.programs import run_python
from tests.fixtures.requirements import needs_ordinary_user, needs_root_namespaces
from tests.fixtures.service import (
    FREE_PORTS,
    PROGRAM,
    BackgroundCommand,
    ServiceProcess,
    run_command,
)
from tests.fixtures.waiting import wait_until

ONE = '[[machine]]\nname = "vm"\n'
MOUNTS = r"""
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:25 / /home rw shared:2 - nfs4 server:/home rw,vers=4.2
31 30 254:1 / /home/local rw - xfs /dev/vdb rw
32 22 0:26 / /mnt/with\040space rw - cifs //server/share rw
33 22 0:27 / /mnt/ssh rw - fuse.sshfs host: rw
34 22 8:1 / /mnt/stick rw - fuseblk /dev/sda1 rw
35 22 0:28 / /data rw - nfs server:/data rw
36 22 254:2 / /data rw - ext4 /dev/vdc rw
""".lstrip()

# Mounts a FUSE file system whose server has ended, in its own namespace, and runs a command there.
ON_FUSE = """
import ctypes, os, subprocess, sys
folder, *command = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)
def check(failed):
    if failed:
        sys.exit(77)
check(libc.unshare(0x20000))
check(libc.mount(b"none", b"/", None, 0x44000, None))
try:
    device = os.open("/dev/fuse", os.O_RDWR)
except OSError:
    sys.exit(77)
options = f"fd={device},rootmode=40000,user_id=0,group_id=0".encode()
check(libc.mount(b"test", folder.encode(), b"fuse.test", 0, options))
os.close(device)
sys.exit(subprocess.run(command).returncode)
"""
UNAVAILABLE = 77


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/lib/fairwarning", "ext4"),
        ("/home", "nfs4"),
        ("/home/user/.fairwarning", "nfs4"),
        ("/homework", "ext4"),
        ("/home/local/data", "xfs"),
        ("/mnt/with space/data", "cifs"),
        ("/mnt/ssh/data", "fuse.sshfs"),
        ("/data/fleet", "ext4"),
    ],
)
def test_the_file_system_of_a_path(path: str, kind: str) -> None:
    """The innermost and last mount counts."""
    assert data_folder.file_system(path, MOUNTS) == kind


@needs_root_namespaces
def test_a_network_file_system_is_refused(tmp_path: Path) -> None:
    """At once, even if it does not respond; the error says what to use instead."""
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    link = tmp_path / "link"
    link.symlink_to(mounted / "data")
    for data in (mounted, mounted / "data", link):
        done = run_python(ON_FUSE, str(mounted), *PROGRAM, "up", *FREE_PORTS, "--data", str(data))
        if done.returncode == UNAVAILABLE:
            pytest.skip("needs /dev/fuse: load the kernel module `fuse`")
        assert done.returncode == 1
        assert f"{data} is on a network file system (fuse.test)" in done.stderr
        assert "use a local disk, --memory, or a database" in done.stderr
    words = ("up", *FREE_PORTS, "--data", str(mounted), "--allow-network-folder")
    done = run_python(ON_FUSE, str(mounted), *PROGRAM, *words)
    assert "Transport endpoint is not connected" in done.stderr  # it was tried


@pytest.mark.spec("X1")
def test_the_database_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    """The error says what to install; the database stays as it is."""
    url = migrated_database_or_skip()
    with psycopg.connect(url, autocommit=True) as other:
        other.execute(
            "INSERT INTO fairwarning.migration (number, name, checksum, needs)"
            " VALUES (9999, '9999_future.sql', '', 9999)"
        )
    done = run_command("up", *FREE_PORTS, "--data", url, "--run", str(tmp_path))
    assert done.returncode == 1
    assert "migration 9999_future.sql of a newer version of Fairwarning" in done.stderr
    assert "install that version, or use another database" in done.stderr


def test_a_data_file_that_is_removed_under_a_running_service_is_noticed(tmp_path: Path) -> None:
    """Nobody has to send a command: it is logged and not ready, polls go on, and it recovers."""
    data = tmp_path / "data"
    often = os.environ | {"WATCHDOG_USEC": "600000"}  # check the store every 0.2 s
    with ServiceProcess(data, fleet=ONE, env=often) as service:
        service.poll("vm")  # the first poll writes
        (data / "fleet.db").rename(tmp_path / "fleet.db")
        text = f"{data / 'fleet.db'} was moved, removed or replaced while the service uses it"
        service.wait_for_log(text)
        answer = fetch(f"{service.ready['console']}/readyz")
        assert (answer.status, "StoreLost" in answer.text) == (503, True)
        service.assert_refused(("machine", "restart", "vm"), 1, text)
        assert service.poll("vm")["Events"] == []
        (tmp_path / "fleet.db").rename(data / "fleet.db")
        assert service.run("healthcheck", "--wait").returncode == 0
        service.ok("POST", "/api/machines/vm/restart")


def test_a_log_that_is_shortened_under_a_running_service_is_noticed(tmp_path: Path) -> None:
    """A command would be acknowledged, and gone after a kill; polls go on."""
    log = tmp_path / "data" / "fleet.db-wal"
    with ServiceProcess(tmp_path / "data", fleet=ONE) as service:
        service.poll("vm")

        def is_refused() -> bool:
            os.truncate(log, 0)  # again, if the service was writing at the first time
            token = {"name": "ci", "role": "reader", "seconds": 3600}
            answer = service.api("POST", "/api/tokens", token)
            return answer.status == 503 and f"{log} was shortened by another" in answer.text

        wait_until(is_refused, "it is noticed")
        ready = f"{service.ready['console']}/readyz"
        wait_until(lambda: fetch(ready).status == 503, "it says so")
        assert "StoreLost" in fetch(ready).text
        assert service.poll("vm")["Events"] == []


def test_a_start_that_is_refused_leaves_the_running_service_its_files(tmp_path: Path) -> None:
    """Also if the lock was removed, and the database alone refuses: commands find the service."""
    data = tmp_path / "data"
    with ServiceProcess(data, fleet=ONE) as service:
        (data / "lock").unlink()
        for _ in range(2):
            done = run_command("up", *FREE_PORTS, "--data", str(data))
            assert done.returncode == 1
            assert "another process uses" in done.stderr
            assert service.run("healthcheck").returncode == 0
        assert service.stop()[0] == 0
        assert not (data / "up.json").exists()


# --- Ports, other users, and looking for a service ----------------------------------------------


@pytest.mark.spec("O10", "O14")
@pytest.mark.parametrize("option", ["--metadata", "--console", "--arm"])
def test_a_port_in_use(tmp_path: Path, option: str) -> None:
    """The error names the option of that port."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        ports = [*FREE_PORTS]
        ports[ports.index(option) + 1] = address
        done = run_command("up", "--memory", "--data", str(tmp_path / "data"), *ports)
    assert done.returncode == 1
    assert f"cannot listen on {address}: Address already in use" in done.stderr
    assert f"choose another address with {option}; port 0 is any free one" in done.stderr
    assert "ERROR" not in done.stderr  # about anything else
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "data").exists()


@pytest.mark.spec("O10", "O14")
def test_waiting_for_a_service(tmp_path: Path) -> None:
    """`healthcheck --wait` ends well once the service is ready, and fails after its time."""
    data = tmp_path / "data"
    late = run_command("healthcheck", "--data", str(data), "--wait", "0.3")
    assert late.returncode == 1
    assert "no service is running" in late.stderr
    with BackgroundCommand("healthcheck", "--data", str(data), "--wait", "2m") as waiting:
        assert waiting.is_running()
        with ServiceProcess(data, "--memory"):
            assert waiting.wait()[:2] == (0, "The service is ready.\n")


@pytest.mark.spec("O10")
@needs_ordinary_user
def test_a_folder_of_another_user(tmp_path: Path) -> None:
    """Every command says that it may not use the folder."""
    folder = tmp_path / "theirs"
    folder.mkdir(0)
    for words in (("up", *FREE_PORTS), ("machine", "list"), ("healthcheck",)):
        done = run_command(*words, "--data", str(folder))
        assert done.returncode != 0
        assert str(folder) in done.stderr
        assert "Traceback" not in done.stderr
    folder.chmod(0o700)


@pytest.mark.spec("O10")
def test_a_health_check_does_not_wait_for_a_silent_service(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says after seconds that there was no answer."""
    monkeypatch.setattr(healthcheck, "_ANSWER_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        done = run_command("healthcheck", "--server", url)
    assert done.returncode == 1
    assert f"Error: no answer from the service at {url} within " in done.stderr
