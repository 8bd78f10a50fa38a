"""The service's log on stderr: nobody may read it, and no line of a process that ends is lost."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.test_workers import FLEET, workers
from tests.fixtures.postgres.database import database_or_skip
from tests.fixtures.programs import fill, full_pipe, run_python
from tests.fixtures.service import PROGRAM, ServiceProcess
from tests.fixtures.waiting import wait_until

pytestmark = pytest.mark.spec("O10")

UNREAD = 'log="$1" && shift && exec "$@" 2> "$log"'
"""Runs a program with its stderr on a named pipe."""


@contextmanager
def unread_log(path: Path) -> Iterator[tuple[int, type[ServiceProcess]]]:
    """Yield a pipe that is full, and the service whose stderr it is."""
    os.mkfifo(path)
    pipe = os.open(path, os.O_RDWR)
    fill(pipe)

    class UnreadService(ServiceProcess):
        program = ("sh", "-c", UNREAD, "sh", str(path), *PROGRAM)

    try:
        yield pipe, UnreadService
    finally:
        os.close(pipe)


def revoke_token(service: ServiceProcess) -> str:
    """Issue a token and revoke it, which is logged; return its id."""
    new = {"name": "ci", "role": "reader", "seconds": 3600}
    token: str = service.ok("POST", "/api/tokens", new)["info"]["id"]
    service.ok("POST", "/api/tokens/revoke", {"ids": [token]})
    return token


def test_a_log_that_nobody_reads_stops_nothing(tmp_path: Path) -> None:
    """Polls, commands and events go on; whoever reads later finds the lines in their order."""
    with (
        unread_log(tmp_path / "log") as (pipe, service_class),
        service_class(tmp_path / "data", "--clock", "virtual", fleet=FLEET) as service,
    ):
        tokens = [revoke_token(service) for _ in range(3)]
        service.poll("web_0")
        service.ok("POST", "/api/machines/web_0/restart")
        service.advance(3600)
        assert service.poll("web_0")["DocumentIncarnation"] > 1
        assert service.run("healthcheck").returncode == 0
        log = ""
        while tokens[-1] not in log:
            log += os.read(pipe, 65536).decode()
        assert sorted(tokens, key=log.index) == tokens
        fill(pipe)
        revoke_token(service)
        code, _ = service.stop()
        assert code == 0


@pytest.mark.campaign
@pytest.mark.spec("X1")
def test_a_log_that_nobody_reads_stops_no_worker(tmp_path: Path) -> None:
    """Each worker goes on, and their parent restarts one that was killed."""
    url = database_or_skip()
    with (
        unread_log(tmp_path / "log") as (_, service_class),
        service_class(tmp_path / "run", "--workers", "2", fleet=FLEET, database=url) as service,
    ):
        killed = workers(service.process.pid)[1]
        os.kill(killed, 9)
        wait_until(lambda: killed not in workers(service.process.pid), "its end")
        wait_until(lambda: len(workers(service.process.pid)) == 2, "another worker")
        revoke_token(service)
        assert service.poll("web_0")["Events"] == []


# --- Other text on stderr -------------------------------------------------------------------------

WRITES = """
import logging, sys, threading, warnings
import click
from fairwarning.cli.output import up_text
up_text.log_to_stderr(as_json=False)

def fail():
    raise ValueError("third")

logging.error("first")
warnings.warn("second")
thread = threading.Thread(target=fail)
thread.start()
thread.join()
logging.error("fourth")
click.echo("fifth", err=True)
print("sixth", file=sys.stderr, flush=True)
logging.error("seventh")
raise ValueError("eighth")
"""
"""Writes all that may be on the stderr of a service."""


def test_the_lines_of_a_program_that_ends_are_written() -> None:
    """Tracebacks, warnings and errors are in their order among the lines of the log."""
    done = run_python(WRITES)
    words = ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth"]
    lines = [line for line in done.stderr.splitlines() if line.endswith(tuple(words))]
    assert [line.split()[-1] for line in lines] == words
    assert done.returncode == 1


def test_a_program_that_ends_waits_for_no_reader() -> None:
    """Neither does the program wait before: a traceback, a warning or an error blocks no thread."""
    with full_pipe() as (_, write_end):
        done = run_python(WRITES, stderr=write_end)
    assert done.returncode == 1
