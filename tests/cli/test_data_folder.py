"""Where the data may be: local disks, and databases of this or an older version."""

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from fairwarning.server.data_folder import file_system
from tests.fixtures.http import fetch
from tests.fixtures.postgres.database import (
    count_waiting,
    database_or_skip,
    migrated_database_or_skip,
)
from tests.fixtures.programs import run_python
from tests.fixtures.requirements import needs_root_namespaces
from tests.fixtures.service import FREE_PORTS, PROGRAM, ServiceProcess, run_command
from tests.fixtures.waiting import wait_until

MIGRATION_LOCK = 0x46616972
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
    assert file_system(path, MOUNTS) == kind


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
def test_processes_that_start_on_an_empty_database_at_once(tmp_path: Path) -> None:
    """One creates the schema while the others wait; all of them serve."""
    url = database_or_skip()
    with ExitStack() as stack, ThreadPoolExecutor() as pool:
        other = stack.enter_context(psycopg.connect(url, autocommit=True))
        other.execute("SELECT pg_advisory_lock(%s)", (MIGRATION_LOCK,))
        services = [
            ServiceProcess(tmp_path / str(number), fleet=ONE, database=url) for number in range(2)
        ]
        starts = [pool.submit(service.start) for service in services]
        wait_until(lambda: count_waiting(other) == 2, "both wait for the lock")
        other.execute("SELECT pg_advisory_unlock(%s)", (MIGRATION_LOCK,))
        for start in starts:
            service = start.result()
            stack.push(service)
            assert service.poll("vm")["Events"] == []


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
