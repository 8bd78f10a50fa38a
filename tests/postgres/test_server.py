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

TAKES_ONE = (
    "import sys; from tests.fixtures.postgres.server import database; "
    "print(database(), flush=True); sys.stdin.read()"
)


@pytest.fixture(autouse=True, scope="module")
def _there() -> None:
    skip_without_postgres()


def _count(url: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT count(*) FROM kept").fetchone()
    assert row
    return int(row[0])


def _keep(url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS kept (n int)")
        connection.execute("INSERT INTO kept VALUES (1)")


def test_a_database_is_empty_and_the_tests_own(database_url: str) -> None:
    """Nobody else's tables are in it."""
    with psycopg.connect(database_url) as connection:
        tables = connection.execute("SELECT * FROM pg_tables WHERE schemaname = 'public'")
        assert tables.fetchall() == []


def test_workers_of_a_run_share_a_server_that_ends_with_the_run() -> None:
    """However many ask at once, one is started; and it does not outlive who gave out the tests."""
    run = uuid.uuid4().hex
    # The workers' parent is what the server lives and dies with: here, a process to be killed.
    parent = subprocess.Popen(
        [sys.executable, "-c", _family(run)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert parent.stdout
    urls = [parent.stdout.readline().strip() for _ in range(3)]
    places = {url.rpartition("/")[0] for url in urls}
    assert len(set(urls)) == 3
    assert len(places) == 1, "three servers were started"
    _keep(urls[0])
    os.killpg(parent.pid, signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    wait_until(lambda: not _answers(urls[0]) and not _left(run), "the server ends with its run")


def _family(run: str) -> str:
    return (
        "import os, subprocess, sys\n"
        f"os.environ['PYTEST_XDIST_TESTRUNUID'] = {run!r}\n"
        f"words = [sys.executable, '-c', {TAKES_ONE!r}]\n"
        "workers = [subprocess.Popen(words, stdin=subprocess.PIPE) for _ in range(3)]\n"
        "workers[0].wait()\n"
    )


def _answers(url: str) -> bool:
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError:
        return False
    return True


def _left(run: str) -> bool:
    return run_folder.folder().with_name(f"fairwarning-postgres-{run}").exists()


def test_a_killed_server_comes_back_with_what_was_committed() -> None:
    """A server of one's own: killed, or stopped at once, it recovers on the same port."""
    with Server() as server:
        url = server.database()
        _keep(url)
        server.kill()
        assert not _answers(url)
        server.start()
        _keep(url)
        server.stop("immediate")
        server.start()
        assert _count(url) == 2


def test_a_pair_keeps_what_was_committed_over_two_failovers() -> None:
    """The same URL leads to whichever can be written to."""
    with Pair() as pair:
        url = pair.url
        _keep(url)
        for times in (1, 2):
            pair.kill_primary()
            pair.promote()
            assert _count(url) == times
            pair.rejoin()
            _keep(url)
        assert _count(url) == 3
