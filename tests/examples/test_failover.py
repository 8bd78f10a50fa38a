"""examples/failover: a real PostgreSQL pair switches roles before a reboot of the primary."""

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fairwarning.testing import Cloud
from tests.campaigns import split
from tests.examples.copies import AGENT, copy, fill_in
from tests.fixtures.http import free_ports
from tests.fixtures.postgres.programs import find
from tests.fixtures.programs import start_program
from tests.fixtures.requirements import UNPRIVILEGED, needs_unprivileged
from tests.fixtures.waiting import LIMIT_SECONDS, wait_until

PROGRAMS = find("initdb", "pg_ctl", "pg_basebackup", "psql")
AS_USER = UNPRIVILEGED * (os.geteuid() == 0)  # PostgreSQL does not run as root

pytestmark = [
    pytest.mark.skipif(PROGRAMS is None, reason="needs PostgreSQL: apt-get install postgresql"),
    needs_unprivileged,
]


class Pair:
    """Two servers on one machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = os.environ | {"PATH": f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}"}
        self.ports = free_ports(2)
        self.data = [folder / "0", folder / "1"]

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a program of PostgreSQL to its end."""
        with tempfile.TemporaryFile("w+") as output:  # the server would keep a pipe open
            done = subprocess.run(
                [*AS_USER, *command],
                cwd=self.folder,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                text=True,
                timeout=LIMIT_SECONDS,
                check=False,
            )
            output.seek(0)
            done.stdout = output.read().strip()
        return done

    def run_checked(self, *command: str) -> str:
        done = self.run(*command)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def conninfo(self, *servers: int) -> str:
        """Return the connection string for one of these servers."""
        hosts = ",".join("127.0.0.1" for _ in servers)
        ports = ",".join(str(self.ports[server]) for server in servers)
        return f"host={hosts} port={ports} user=postgres dbname=postgres"

    def ask(self, server: int, query: str) -> str:
        return self.run_checked("psql", "-XAtq", "-d", self.conninfo(server), "-c", query)

    def start(self) -> None:
        """Start a primary and a streaming standby."""
        first, second = map(str, self.data)
        self.run_checked("initdb", "-D", first, "-U", "postgres", "-A", "trust", "--no-sync")
        self._set(0, f"primary_conninfo = '{self.conninfo(1)}'")
        self.run_checked("pg_ctl", "-w", "-D", first, "-l", "first.log", "start")
        self.run_checked(
            "pg_basebackup", "-d", self.conninfo(0), "-D", second, "-R", "-c", "fast", "-N"
        )
        self._set(1, f"primary_conninfo = '{self.conninfo(0)}'")
        self.run_checked("pg_ctl", "-w", "-D", second, "-l", "second.log", "start")
        wait_until(lambda: self.followers(0) == "1", "the standby streams")
        self.ask(0, "create table written (number int primary key)")

    def _set(self, server: int, line: str) -> None:
        with (self.data[server] / "postgresql.conf").open("a") as file:
            file.write(f"\nport = {self.ports[server]}\nlisten_addresses = '127.0.0.1'\n")
            file.write(f"unix_socket_directories = ''\nfsync = off\n{line}\n")

    def followers(self, server: int) -> str:
        return self.ask(server, "select count(*) from pg_stat_replication where state='streaming'")

    def stop(self) -> None:
        for data in self.data:
            self.run("pg_ctl", "-D", str(data), "-m", "immediate", "stop")


class Writer(threading.Thread):
    """Writes numbers, each until it is acknowledged, to the server that accepts writes."""

    def __init__(self, started_pair: Pair) -> None:
        super().__init__()
        self._pair = started_pair
        self._ended = threading.Event()
        self.acknowledged = 0

    def run(self) -> None:
        conninfo = self._pair.conninfo(0, 1) + " target_session_attrs=read-write"
        while not self._ended.is_set():
            query = f"insert into written values ({self.acknowledged + 1}) on conflict do nothing"
            done = self._pair.run("psql", "-XAtq", "-d", conninfo, "-c", query)
            self.acknowledged += done.returncode == 0

    def stop(self) -> None:
        self._ended.set()
        self.join()


@contextmanager
def started_pair(folder: Path) -> Iterator[Pair]:
    """A running pair in a folder, with a copy of the example."""
    copy("failover", folder)
    pair = Pair(folder)
    try:
        pair.start()
        yield pair
    finally:
        pair.stop()


def configure(pair: Pair, user: str = "postgres") -> Path:
    """Configure the example on the first machine; this user connects to the other server."""
    folder = pair.folder / "failover"
    fill_in(
        folder / "agent.toml",
        **{
            "/var/lib/postgresql/data": pair.data[0],
            "host=other user=postgres": pair.conninfo(1).replace("postgres", user, 1),
        },
    )
    return folder


@pytest.mark.spec("G4")
def test_writes_continue_on_the_promoted_server(tmp_path: Path) -> None:
    """The standby is promoted before the approval, and no acknowledged write is lost."""
    with started_pair(tmp_path) as pair, Cloud() as cloud:
        folder = configure(pair)
        primary, _ = cloud.machines("db", 2)
        env = primary.env | {"PATH": pair.env["PATH"]}
        with start_program(*AS_USER, *AGENT, folder=folder, env=env) as agent:
            agent.wait_for("watching for db_0")
            writer = Writer(pair)
            writer.start()
            try:
                wait_until(lambda: writer.acknowledged >= 3, "the first writes")
                primary.restart()
                wait_until(lambda: primary.history == ["reboot"], "it is approved")
                assert pair.ask(1, "select pg_is_in_recovery()") == "f"
                before = writer.acknowledged
                wait_until(lambda: writer.acknowledged >= before + 3, "writes on the new primary")
                cloud.settle()
                wait_until(lambda: pair.followers(1) == "1", "the old primary follows")
                wait_until(lambda: agent.output.count("is done after") == 2, "both hooks are done")
            finally:
                writer.stop()
        written = pair.ask(1, "select count(*), min(number), max(number) from written")
        assert written == "|".join(map(str, (writer.acknowledged, 1, writer.acknowledged)))
        wait_until(
            lambda: pair.ask(0, "select count(*) from written") == str(writer.acknowledged),
            "the old primary has them all",
        )
        assert pair.ask(0, "select pg_is_in_recovery()") == "t"


def hook(pair: Pair, phase: str, user: str = "postgres") -> subprocess.CompletedProcess[str]:
    """Run the example's program on the first machine, as the agent does."""
    deadline = (datetime.now(UTC) + timedelta(minutes=2)).strftime("%Y-%m-%dT%H:%M:%SZ")
    settings = (f"FAIRWARNING_PHASE={phase}", f"FAIRWARNING_DEADLINE={deadline}")
    peer = pair.conninfo(1).replace("postgres", user, 1)
    program = (sys.executable, "failover/failover.py", str(pair.data[0]), peer)
    return pair.run("env", *settings, *program)


@pytest.mark.spec("G4")
def test_a_standby_that_refuses(tmp_path: Path) -> None:
    """The server becomes the primary again, and the event is not approved."""
    with started_pair(tmp_path) as pair, Cloud() as cloud:
        pair.ask(0, "create role watcher login")
        wait_until(lambda: pair.ask(1, "select 1 from pg_roles where rolname='watcher'"), "a role")
        folder = configure(pair, "watcher")  # which may not promote it
        primary, _ = cloud.machines("db", 2)
        env = primary.env | {"PATH": pair.env["PATH"]}
        with start_program(*AS_USER, *AGENT, folder=folder, env=env) as agent:
            agent.wait_for("watching for db_0")
            primary.restart()
            agent.wait_for("this server is the primary again")
            assert primary.history == []
        assert pair.ask(0, "select pg_is_in_recovery()") == "f"
        wait_until(lambda: pair.followers(0) == "1", "the standby streams again")
        assert hook(pair, "over").returncode == 0


@pytest.mark.parametrize(
    "interrupted", split(["before the promotion", "before the stop", "stopped"], 1)
)
def test_a_hook_that_is_killed(interrupted: str, tmp_path: Path) -> None:
    """Whatever was done, the hook of phase over leaves one primary, and the other follows it."""
    with started_pair(tmp_path) as pair:
        pair.run_checked("touch", str(pair.data[0] / "handing-over"))
        if interrupted != "before the stop":
            pair.run_checked("pg_ctl", "-w", "-D", str(pair.data[0]), "-m", "fast", "stop")
        if interrupted == "before the promotion":
            pair.run_checked("touch", str(pair.data[0] / "standby.signal"))
        done = hook(pair, "over")
        assert done.returncode == 0, done.stdout
        primary = 1 if interrupted == "before the promotion" else 0
        roles = [pair.ask(server, "select pg_is_in_recovery()") for server in (0, 1)]
        assert roles == [("f" if server == primary else "t") for server in (0, 1)]
        wait_until(lambda: pair.followers(primary) == "1", "the other one streams")
        assert not (pair.data[0] / "handing-over").exists()


@pytest.mark.campaign
def test_over_while_the_other_server_is_down(tmp_path: Path) -> None:
    """It is not known who is the primary: this server only reads, and the hook runs again."""
    with started_pair(tmp_path) as pair:
        other = ("pg_ctl", "-w", "-D", str(pair.data[1]))
        assert hook(pair, "scheduled").returncode == 0
        pair.run_checked(*other, "-m", "fast", "stop")
        assert "the other server is no primary" in hook(pair, "over").stdout
        assert pair.ask(0, "select pg_is_in_recovery()") == "t"
        pair.run_checked(*other, "-l", "second.log", "start")
        assert hook(pair, "over").returncode == 0


@pytest.mark.campaign
@pytest.mark.spec("G4")
def test_without_a_standby_it_stays_the_primary(tmp_path: Path) -> None:
    """The hook fails, so the event is not approved, and the primary keeps running."""
    with started_pair(tmp_path) as pair, Cloud() as cloud:
        folder = configure(pair)
        pair.run_checked("pg_ctl", "-w", "-D", str(pair.data[1]), "-m", "fast", "stop")
        wait_until(lambda: pair.followers(0) == "0", "the end of streaming")
        primary, _ = cloud.machines("db", 2)
        env = primary.env | {"PATH": pair.env["PATH"]}
        with start_program(*AS_USER, *AGENT, folder=folder, env=env) as agent:
            agent.wait_for("watching for db_0")
            primary.restart()
            agent.wait_for("no standby is streaming; this server stays the primary")
            assert primary.history == []
            assert pair.ask(0, "select pg_is_in_recovery()") == "f"
