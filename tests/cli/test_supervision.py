"""What supervises the service: systemd, and the parent of several workers (IB6)."""

import os
import resource
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from fairwarning.core.errors import Unavailable
from fairwarning.server import worker
from fairwarning.server.progress import PERIOD_SECONDS, ServiceManager
from fairwarning.server.workers import _WorkerPool
from tests.cli.test_stop_anytime import MIGRATION_LOCK, end, on_database, started
from tests.cli.test_workers import FLEET, is_running, poll, workers
from tests.fixtures.files import short_folder
from tests.fixtures.postgres.database import database_or_skip
from tests.fixtures.service import FREE, ServiceProcess, run_command
from tests.fixtures.waiting import LIMIT_SECONDS, wait_until, wait_until_async

WATCHDOG_MICROSECONDS = 600_000


class NotifySocket:
    """The socket on which systemd listens."""

    def __init__(self, address: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.settimeout(LIMIT_SECONDS)
        self._socket.bind("\0" + address[1:] if address.startswith("@") else address)
        watchdog = {"WATCHDOG_USEC": str(WATCHDOG_MICROSECONDS)}
        self.env = os.environ | {"NOTIFY_SOCKET": address} | watchdog

    def wait_for(self, line: str) -> list[str]:
        """Receive messages up to one that has this line; return its lines."""
        while True:
            lines = self._socket.recv(4096).decode().split("\n")
            if line in lines:
                return lines

    def received(self) -> list[str]:
        """Return the messages that have arrived."""
        self._socket.setblocking(False)
        messages = []
        with suppress(BlockingIOError):
            while True:
                messages.append(self._socket.recv(4096).decode())
        return messages

    def close(self) -> None:
        """Listen no more."""
        self._socket.close()


@pytest.fixture(params=["path", "abstract"])
def notify(request: pytest.FixtureRequest) -> Iterator[NotifySocket]:
    """A socket of each kind that systemd uses."""
    with short_folder() as folder:
        prefix = "@" if request.param == "abstract" else ""
        receiver = NotifySocket(f"{prefix}{folder}/notify")
        yield receiver
        receiver.close()


def check_reports(notify: NotifySocket, service: ServiceProcess) -> None:
    """The service is ready, feeds the watchdog for as long as it runs, and stops."""
    notify.wait_for("READY=1")
    for _ in range(3):
        notify.wait_for("WATCHDOG=1")
    service.process.send_signal(signal.SIGTERM)
    notify.wait_for("STOPPING=1")
    assert service.process.wait(LIMIT_SECONDS) == 0


@pytest.mark.spec("O2")
def test_systemd_is_told_how_the_service_is(notify: NotifySocket, tmp_path: Path) -> None:
    """IB6: over a socket in a folder, or an abstract one."""
    with ServiceProcess(tmp_path / "data", "--sample", env=notify.env) as service:
        check_reports(notify, service)


@pytest.mark.parametrize("notify", ["path"], indirect=True)
def test_systemd_is_not_told_that_a_start_that_fails_is_ready(
    notify: NotifySocket, tmp_path: Path
) -> None:
    """IB6: `systemctl start` fails as well."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        console = f"127.0.0.1:{other.getsockname()[1]}"
        words = ("--metadata", FREE, "--console", console, "--data", str(tmp_path / "data"))
        assert run_command("up", *words, env=notify.env).returncode == 1
    assert not [message for message in notify.received() if "READY=1" in message]


@pytest.mark.spec("X1")
@pytest.mark.parametrize("notify", ["path"], indirect=True)
def test_systemd_is_told_how_the_workers_are(notify: NotifySocket, tmp_path: Path) -> None:
    """IB6: their parent speaks for all of them; they do not inherit the socket."""
    url, words = database_or_skip(), ("--workers", "2")
    with ServiceProcess(
        tmp_path / "run", *words, fleet=FLEET, database=url, env=notify.env
    ) as service:
        for process in workers(service.process.pid):
            assert b"NOTIFY_SOCKET" not in Path(f"/proc/{process}/environ").read_bytes()
        check_reports(notify, service)


@pytest.mark.parametrize("notify", ["path"], indirect=True)
@pytest.mark.parametrize(
    "count",
    [pytest.param(1, id="alone"), pytest.param(2, id="workers", marks=pytest.mark.campaign)],
)
def test_systemd_is_told_what_a_start_waits_for(
    notify: NotifySocket, tmp_path: Path, count: int
) -> None:
    """IB6: a start that waits for another process asks for more time, and logs why."""
    url = database_or_skip()
    with psycopg.connect(url, autocommit=True) as other:
        other.execute("SELECT pg_advisory_lock(%s)", (MIGRATION_LOCK,))
        words = on_database(url, tmp_path, count)
        with started(tmp_path, *words, env=notify.env) as process:
            what = "the store to open" if count == 1 else "the workers"
            for _ in range(3):
                lines = notify.wait_for(f"STATUS=starting: waiting for {what}")
                assert any(line.startswith("EXTEND_TIMEOUT_USEC=") for line in lines)
            assert process.stderr
            if count == 1:
                while b"waiting for the store to open since" not in process.stderr.readline():
                    assert process.poll() is None
            assert end(process, signal.SIGTERM) == 0


@pytest.mark.parametrize("limit", ["0", "1", "9" * 400, "x"])
def test_a_watchdog_that_is_off(monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    """IB6: a limit of 0, or one that nobody can mean, does not make the service report all day."""
    monkeypatch.setenv("WATCHDOG_USEC", limit)
    assert ServiceManager().period_seconds == PERIOD_SECONDS


# --- Workers ---


@pytest.mark.spec("X1")
def test_a_worker_is_restarted_when_its_parent_has_descriptors_again(tmp_path: Path) -> None:
    """IB6: EMFILE, as any error of the system, delays a restart and does not prevent it."""
    url = database_or_skip()
    with ServiceProcess(tmp_path / "run", "--workers", "2", fleet=FLEET, database=url) as service:
        parent = service.process.pid
        before = workers(parent)
        limits = resource.prlimit(parent, resource.RLIMIT_NOFILE)
        resource.prlimit(parent, resource.RLIMIT_NOFILE, (1, limits[1]))
        os.kill(before[0], signal.SIGKILL)
        service.wait_for_log("cannot start worker 0: Too many open files; trying again")
        assert poll(service)["Events"] == []
        resource.prlimit(parent, resource.RLIMIT_NOFILE, limits)
        wait_until(lambda: len(set(workers(parent)) - {before[0]}) == 2, "another worker")
        assert service.stop()[0] == 0


SILENT = """
import json, os, signal, sys, time
from pathlib import Path
signal.signal(signal.SIGTERM, signal.SIG_IGN)
folder, reports = Path(sys.argv[1]), json.loads(os.environ["FAIRWARNING_WORKER"])["reports"]
folder.joinpath(str(os.getpid())).touch()
if len(list(folder.iterdir())) == 1:
    os.write(reports, sys.argv[2].encode())
    time.sleep(1000)
while True:
    os.write(reports, b"r")
    time.sleep(0.01)
"""


@pytest.fixture
def launch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Replace the worker by a program that hangs after these reports, and then by one that works.

    Both ignore SIGTERM. The function returns a folder with a file for each that was started.
    """
    (folder := tmp_path / "launched").mkdir()
    (program := tmp_path / "worker.py").write_text(SILENT)
    monkeypatch.setattr(worker, "SILENT_SECONDS", 0.5)
    monkeypatch.setattr(worker, "STOP_SECONDS", 0.1)

    def replaced(reports: str) -> Path:
        monkeypatch.setattr(sys, "argv", [str(program), str(folder), reports])
        return folder

    return replaced


@asynccontextmanager
async def pool() -> AsyncIterator[_WorkerPool]:
    """A pool of workers; none is left at the end."""
    read_end, write_end = os.pipe()
    hosted = _WorkerPool((1, 2, 3), read_end, "")
    try:
        yield hosted
    finally:
        await hosted.close()
        os.close(read_end)
        os.close(write_end)


async def test_a_worker_that_reports_no_progress_is_restarted(
    launch: Callable[[str], Path], caplog: pytest.LogCaptureFixture
) -> None:
    """IB6: it is killed after a while, and so is one that ignores SIGTERM when all stop."""
    launched = launch("r")
    async with pool() as hosted:
        await hosted.start(1)
        await wait_until_async(lambda: len(list(launched.iterdir())) > 1, "another worker")
    assert "worker 0 has reported no progress for 0.5 s; killing it" in caplog.text
    assert "worker 0 exited with code -9; restarting it" in caplog.text
    assert not any(is_running(int(path.name)) for path in launched.iterdir())


async def test_an_unexpected_error_while_a_worker_is_restarted(
    launch: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """IB5: it is logged, and the next attempt restarts the worker."""
    launched, run_worker = launch("r"), worker._run_program

    def fail_once(*_: object) -> None:
        monkeypatch.setattr(worker, "_run_program", run_worker)
        raise KeyError("bug")

    async with pool() as hosted:
        await hosted.start(1)
        monkeypatch.setattr(worker, "_run_program", fail_once)
        await wait_until_async(lambda: len(list(launched.iterdir())) > 1, "another worker")
    assert "cannot start worker 0; trying again in 1 s" in caplog.text


async def test_a_worker_that_is_not_ready_in_time_ends_the_start(
    launch: Callable[[str], Path],
) -> None:
    """IB6: the reason is in the error, and no process is left."""
    launched = launch(".")
    async with pool() as hosted:
        with pytest.raises(Unavailable, match="worker 0 did not start"):
            await hosted.start(1)
    assert not any(is_running(int(path.name)) for path in launched.iterdir())
