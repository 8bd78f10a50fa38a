import os
import signal
import subprocess
import sys
import uuid

import psycopg
import pytest

from tests.fixtures.postgres import run_folder
from tests.fixtures.postgres.database import skip_without_postgres
from tests.fixtures.postgres.pair import Pair
from tests.fixtures.postgres.server import Server
from tests.fixtures.programs import ROOT
from tests.fixtures.waiting import wait_until

TAKE_DATABASE = (
    "import sys; from tests.fixtures.postgres.server import database; "
    "print(database(), flush=True); sys.stdin.read()"
)


@pytest.fixture(autouse=True, scope="module")
def _require_postgres() -> None:
    skip_without_postgres()


def _count(url: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT count(*) FROM kept").fetchone()
    assert row
    return int(row[0])


def _insert(url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS kept (n int)")
        connection.execute("INSERT INTO kept VALUES (1)")


def test_a_database_is_new_and_private(database_url: str) -> None:
    """It has no tables."""
    with psycopg.connect(database_url) as connection:
        tables = connection.execute("SELECT * FROM pg_tables WHERE schemaname = 'public'")
        assert tables.fetchall() == []


def test_workers_of_a_run_share_a_server_that_ends_with_the_run() -> None:
    """Concurrent requests start one server, which ends with the process that runs the tests."""
    run = uuid.uuid4().hex
    # The server lives as long as the workers' parent, here a process that the test kills.
    parent = subprocess.Popen(
        [sys.executable, "-c", _parent(run)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert parent.stdout
    urls = [parent.stdout.readline().strip() for _ in range(3)]
    servers = {url.rpartition("/")[0] for url in urls}
    assert len(set(urls)) == 3
    assert len(servers) == 1, "three servers were started"
    _insert(urls[0])
    os.killpg(parent.pid, signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    wait_until(lambda: not _answers(urls[0]) and not _exists(run), "the server ends with its run")


def _parent(run: str) -> str:
    return (
        "import os, subprocess, sys\n"
        f"os.environ['PYTEST_XDIST_TESTRUNUID'] = {run!r}\n"
        f"command = [sys.executable, '-c', {TAKE_DATABASE!r}]\n"
        "workers = [subprocess.Popen(command, stdin=subprocess.PIPE) for _ in range(3)]\n"
        "workers[0].wait()\n"
    )


def _answers(url: str) -> bool:
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError:
        return False
    return True


def _exists(run: str) -> bool:
    return run_folder.folder().with_name(f"fairwarning-postgres-{run}").exists()


def test_a_killed_server_restarts_with_all_committed_data() -> None:
    """A private server that is killed or stopped immediately recovers on the same port."""
    with Server() as server:
        url = server.database()
        _insert(url)
        server.kill()
        assert not _answers(url)
        server.start()
        _insert(url)
        server.stop("immediate")
        server.start()
        assert _count(url) == 2


def test_a_pair_keeps_committed_data_over_two_failovers() -> None:
    """The same URL always leads to the primary."""
    with Pair() as pair:
        url = pair.url
        _insert(url)
        for times in (1, 2):
            pair.kill_primary()
            pair.promote()
            assert _count(url) == times
            pair.rejoin()
            _insert(url)
        assert _count(url) == 3
