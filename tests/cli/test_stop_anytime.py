"""SIGTERM and SIGINT end the service within five seconds, at any time, and nothing is left (O2)."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Thread

import psycopg
import pytest

from fairwarning.server.ready import read_ready
from tests.campaigns import split
from tests.cli.test_workers import is_running, workers
from tests.fixtures.forked import ForkedProgram
from tests.fixtures.http import fetch
from tests.fixtures.postgres.database import count_waiting, database_or_skip
from tests.fixtures.programs import ROOT, full_pipe
from tests.fixtures.service import FREE_PORTS, PROGRAM, ServiceProcess
from tests.fixtures.waiting import LIMIT_SECONDS, on_this_machine, wait_until

pytestmark = pytest.mark.spec("O2")

STOP_SECONDS = 5.0
MIGRATION_LOCK = 0x46616972
MOMENTS = 6
SIGNALS = pytest.mark.parametrize("number", split([signal.SIGTERM, signal.SIGINT], 1))
WORKERS = pytest.param(2, id="workers", marks=pytest.mark.campaign)
PROCESSES = pytest.mark.parametrize("count", [pytest.param(1, id="alone"), WORKERS])
Process = subprocess.Popen[bytes] | subprocess.Popen[str] | ForkedProgram
ONE = '[[machine]]\nname = "vm"\n'
LARGE = "".join(f'[[scale_set]]\nname = "set{n}"\ncapacity = 1000\n' for n in range(50))


@contextmanager
def started(
    folder: Path,
    *words: str,
    stdout: int = subprocess.PIPE,
    stderr: int = subprocess.PIPE,
    env: Mapping[str, str] | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """`fairwarning up` on free ports with its files in this folder, from its very start."""
    where = [] if "--data" in words else ["--data", str(folder)]
    process = subprocess.Popen(
        [*PROGRAM, "up", *where, *words, *FREE_PORTS],
        cwd=ROOT,
        env=env,
        stdout=stdout,
        stderr=stderr,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def on_database(url: str, folder: Path, count: int) -> list[str]:
    """The words for a service on a database with this many processes."""
    return ["--data", url, "--run", str(folder), "--workers", str(count)]


def end(process: Process, *numbers: signal.Signals) -> int:
    """Send signals; return the exit code. The process and its workers end in time."""
    family = [process.pid, *children(process.pid)]
    sent_at = time.monotonic()
    for number in numbers:
        process.send_signal(number)
    process.wait(LIMIT_SECONDS)
    assert time.monotonic() - sent_at <= on_this_machine(STOP_SECONDS)
    wait_until(lambda: not any(map(is_running, family)), "the end of the workers")
    return process.returncode


def is_pythons_own(process: subprocess.Popen[bytes]) -> bool:
    """Whether Python itself was interrupted before it could run the program: its exit code is 1."""
    assert process.stderr
    own = b"Fatal Python error: init_", b"Could not import runpy"
    return process.returncode == 1 and process.stderr.read().startswith(own)


def children(process: int) -> list[int]:
    """The workers of a service, if /proc lists them."""
    try:
        return workers(process)
    except FileNotFoundError:
        return []


def leftovers(folder: Path) -> list[str]:
    """Files that say that a service runs."""
    names = {"up.json", "up.new", "control.sock"}
    return [path.name for path in folder.glob("*") if path.name in names or path.is_socket()]


@SIGNALS
def test_a_stop_at_every_moment_of_a_start(tmp_path: Path, number: signal.Signals) -> None:
    """From the first import to the ready line: nothing is left in the folders."""
    data, sockets = tmp_path / "data", tmp_path / "sockets"
    words = ("--sample", "--memory", "--sockets", str(sockets))
    with started(data, *words) as process:
        began = time.monotonic()
        wait_until((data / "up.json").exists, "the service is up")
        duration = time.monotonic() - began
        assert end(process, number) == 0
    for moment in range(MOMENTS):
        with started(data, *words) as process:
            time.sleep(duration * moment / MOMENTS)
            code = end(process, number)
            assert code in {0, -number, 128 + number} or is_pythons_own(process), (moment, code)
        assert not data.exists(), moment
        assert not list(sockets.glob("*")), moment


@SIGNALS
def test_a_stop_during_a_large_import(tmp_path: Path, number: signal.Signals) -> None:
    """The machines created so far stay; the next start has no lock in its way."""
    (tmp_path / "large.toml").write_text(LARGE)
    data = tmp_path / "data"
    with started(data, str(tmp_path / "large.toml")) as process:
        wait_until((data / "fleet.db-wal").exists, "the import begins")
        end(process, number)
    assert leftovers(data) == []
    with ServiceProcess(data, fleet=ONE) as service:
        assert service.poll("vm")["Events"] == []


@pytest.mark.spec("X1")
@SIGNALS
@PROCESSES
def test_a_stop_while_another_process_migrates(
    tmp_path: Path, number: signal.Signals, count: int
) -> None:
    """The service waits for the lock, stops, and leaves no session that waits."""
    url = database_or_skip()
    with psycopg.connect(url, autocommit=True) as other:
        other.execute("SELECT pg_advisory_lock(%s)", (MIGRATION_LOCK,))
        with started(tmp_path, *on_database(url, tmp_path, count)) as process:
            wait_until(lambda: count_waiting(other) == 1, "it waits for the lock")
            assert end(process, number) == 0
            wait_until(lambda: count_waiting(other) == 0, "the end of its session")
    assert leftovers(tmp_path) == []
    with ServiceProcess(tmp_path, fleet=ONE, database=url) as service:
        assert service.poll("vm")["Events"] == []


@pytest.mark.spec("X1")
@SIGNALS
@PROCESSES
def test_a_stop_while_the_database_does_not_answer(
    tmp_path: Path, number: signal.Signals, count: int
) -> None:
    """A connection that is accepted and then silent does not delay the end."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(LIMIT_SECONDS)
        url = f"postgresql://u@127.0.0.1:{silent.getsockname()[1]}/x?connect_timeout=60"
        with (
            started(tmp_path, *on_database(url, tmp_path, count)) as process,
            closing(silent.accept()[0]) as connection,
        ):
            connection.recv(1)
            assert end(process, number) == 0
    assert leftovers(tmp_path) == []


@SIGNALS
@pytest.mark.parametrize("count", [pytest.param(0, id="folder"), WORKERS])
def test_a_stop_while_nobody_reads_the_output(
    tmp_path: Path, number: signal.Signals, count: int
) -> None:
    """The service is ready although its output is stuck, and stops in order."""
    words = on_database(database_or_skip(), tmp_path, count) if count else ["--memory"]
    with (
        full_pipe() as (_, write_end),
        started(tmp_path, "--sample", *words, stdout=write_end) as process,
    ):
        wait_until((tmp_path / "up.json").exists, "the service is up")
        console = read_ready(tmp_path)["console"]
        assert fetch(f"{console}/readyz").status == 200
        assert end(process, number) == 0
    assert leftovers(tmp_path) == []


@SIGNALS
def test_a_stop_while_nobody_reads_the_log(tmp_path: Path, number: signal.Signals) -> None:
    """Its last lines wait only for a moment."""
    data, sockets = tmp_path / "data", tmp_path / ("long" * 30)  # too long for a socket: a warning
    words = ("--sample", "--memory", "--sockets", str(sockets))
    with full_pipe() as (_, write_end), started(data, *words, stderr=write_end) as process:
        wait_until(sockets.exists, "it opens the sockets")
        assert end(process, number) == 0
    assert not data.exists()


@pytest.mark.spec("X1")
@SIGNALS
@PROCESSES
def test_a_second_signal_in_the_middle_of_a_stop(
    tmp_path: Path, number: signal.Signals, count: int
) -> None:
    """A commit that waits for the database delays the stop, but not beyond the limit."""
    url = database_or_skip()
    words = ("--workers", str(count))
    with ServiceProcess(tmp_path / "run", *words, fleet=ONE, database=url) as service:
        service.poll("vm")
        with psycopg.connect(url) as other:
            other.execute("LOCK TABLE fairwarning.head")
            client = Thread(target=restart, args=(service,), daemon=True)
            client.start()
            wait_until(lambda: count_waiting(other) > 0, "the commit waits")
            end(service.process, number, number)
        client.join(LIMIT_SECONDS)
    assert leftovers(tmp_path / "run") == []


def restart(service: ServiceProcess) -> None:
    """Restart a machine; the service may end before it answers."""
    try:
        service.api("POST", "/api/machines/vm/restart")
    except OSError:
        return


@pytest.mark.spec("X1")
@SIGNALS
def test_a_worker_that_hangs_is_killed(tmp_path: Path, number: signal.Signals) -> None:
    """A suspended worker handles no signal; it ends with the others."""
    url = database_or_skip()
    with ServiceProcess(tmp_path / "run", "--workers", "2", fleet=ONE, database=url) as service:
        os.kill(workers(service.process.pid)[0], signal.SIGSTOP)
        end(service.process, number)
    assert leftovers(tmp_path / "run") == []
