"""The set-up of docs/high-availability.md on this machine, from its files in deploy/postgresql.

Three database hosts with etcd and Patroni, and one host of the service with HAProxy and PgBouncer.
Each has an address of its own in 127.0.0.0/8, so that the ports are those of the files.
"""

import json
import os
import pwd
import re
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request
import uuid
from contextlib import suppress
from pathlib import Path
from random import SystemRandom
from typing import Any, Self

import psycopg

from tests.docs.pages import DOCS, blocks
from tests.fixtures.postgres import programs, run_folder
from tests.fixtures.postgres.server import children
from tests.fixtures.programs import ROOT
from tests.fixtures.waiting import wait_until

PAGE = DOCS / "high-availability.md"
FILES = ROOT / "deploy" / "postgresql"
PACKAGES = "patroni python3-etcd etcd-server haproxy pgbouncer postgresql"
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
PROGRAMS = ("patroni", "etcd", "haproxy", "pgbouncer", "setpriv")
HOSTS = 3
LOOK_SECONDS = 0.2  # between two looks: a request costs Patroni milliseconds
WHOLE_SECONDS = 600.0  # more than copying the data takes, on a busy machine
REQUEST_SECONDS = 3.0
RUNNING = ("running", "streaming")  # the word for a standby depends on Patroni's version


def missing_packages() -> str:
    """Why the set-up cannot run here; empty if it can."""
    missing = [name for name in PROGRAMS if not shutil.which(name, path=PATH)]
    if not programs.find("initdb", "pg_rewind", "pg_basebackup"):
        missing.append("pg_rewind")
    return f"{', '.join(missing)} not installed: apt-get install {PACKAGES}" if missing else ""


class Program:
    """A program in the foreground, as an unprivileged account; it ends with this process."""

    def __init__(self, folder: Path, *words: str, env: dict[str, str] | None = None) -> None:
        self._folder = folder
        self._words = words
        self._env = {"PATH": PATH, "HOME": str(folder), "LC_ALL": "C.UTF-8"} | (env or {})
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; call this in the main thread, as it ends with the thread."""
        account = programs.account()
        with (self._folder / f"{self._words[0]}.output").open("ab") as log:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *self._words],
                cwd=self._folder,
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                user=account.pw_uid if account else None,
                group=account.pw_gid if account else None,
                extra_groups=[] if account else None,
            )

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        assert self._process
        self._process.send_signal(number)

    def end(self, number: signal.Signals = signal.SIGKILL) -> None:
        """End it with this signal, and wait for its end."""
        if self._process:
            self._process.send_signal(number)
            self._process.wait()
            self._process = None


class DatabaseHost:
    """A host with etcd, Patroni and PostgreSQL."""

    def __init__(self, setup: "HighAvailability", number: int) -> None:
        self.address = f"{setup.network}{number}"
        self.name = f"db-{self.address}"
        self.folder = setup.folder.with_name(f"{setup.folder.name}-{number}")
        self.folder.mkdir(mode=0o700)
        programs.give(self.folder)
        self.data = self.folder / "data"  # where the watchdog of the run expects it
        setup.install("patroni.yml", self.folder, self.address)
        lines = setup.text("etcd", self.folder, self.address).splitlines()
        values = (line.split("=", 1) for line in lines if not line.startswith("#"))
        environment = {name: value.strip('"') for name, value in values}
        self.etcd = Program(self.folder, "etcd", env=environment)
        self.patroni = Program(self.folder, "patroni", "patroni.yml")

    def start(self) -> None:
        """Start what is not running: Patroni starts PostgreSQL."""
        self.etcd.start()
        self.patroni.start()

    def postgres(self) -> list[int]:
        """The processes of PostgreSQL, the server first."""
        with suppress(OSError, ValueError, IndexError):
            server = int((self.data / "postmaster.pid").read_text().split()[0])
            return [server, *children(server)]
        return []

    def signal_postgres(self, number: signal.Signals) -> None:
        """Send a signal to all processes of PostgreSQL."""
        for process in self.postgres():
            with suppress(ProcessLookupError):
                os.kill(process, number)

    def kill_postgres(self) -> None:
        """Kill PostgreSQL at once: its server must not notice that its children end."""
        if processes := self.postgres():
            os.kill(processes[0], signal.SIGSTOP)
        self.signal_postgres(signal.SIGKILL)

    def pause(self) -> None:
        """Suspend everything, as when the host hangs."""
        self.patroni.send(signal.SIGSTOP)
        self.etcd.send(signal.SIGSTOP)
        self.signal_postgres(signal.SIGSTOP)

    def resume(self) -> None:
        """Continue everything, in no particular order."""
        self.signal_postgres(signal.SIGCONT)
        self.etcd.send(signal.SIGCONT)
        self.patroni.send(signal.SIGCONT)

    def lose(self) -> None:
        """Kill everything, as when the host loses power."""
        self.patroni.end()
        self.etcd.end()
        self.kill_postgres()

    def request(self, path: str, content: object = None) -> Any:  # noqa: ANN401  (any JSON)
        """Send a request to Patroni; None if it does not answer with success."""
        body = None if content is None else json.dumps(content).encode()
        url = f"http://{self.address}:8008/{path}"
        try:
            seconds = REQUEST_SECONDS if content is None else 10 * REQUEST_SECONDS
            with urllib.request.urlopen(url, body, timeout=seconds) as response:
                text = response.read()
        except (OSError, urllib.error.URLError):
            return None
        with suppress(ValueError):
            return json.loads(text)
        return text


class HighAvailability:
    """All hosts. The service uses `url`."""

    def __init__(self) -> None:
        random = SystemRandom()
        self.network = f"127.{random.randrange(1, 255)}.{random.randrange(1, 255)}."
        self.folder = run_folder.folder() / uuid.uuid4().hex[:8]
        self.password = uuid.uuid4().hex
        self.hosts: list[DatabaseHost] = []

    @property
    def url(self) -> str:
        """The database, through PgBouncer and HAProxy."""
        return f"postgresql://fairwarning:{self.password}@{self.network}9:6432/fairwarning"

    def text(self, name: str, folder: Path, address: str) -> str:
        """A file of the set-up, for this host; paths, addresses and passwords are replaced."""
        binaries = programs.find("initdb", "pg_rewind", "pg_basebackup")
        account = programs.account() or pwd.getpwuid(os.getuid())
        text = (FILES / name).read_text()
        for old, new in (
            ("127.0.0.1", f"{self.network}9"),
            ("10.0.0.", self.network),
            ("ADDRESS", address),
            ("/usr/lib/postgresql/15/bin", str(binaries)),
            ("/var/lib/postgresql/15/fairwarning", str(folder / "data")),
            ("/var/lib/etcd", str(folder / "etcd")),
            ("/var/run/postgresql", str(folder)),
            ("/var/log/postgresql", str(folder)),
            ("/etc/pgbouncer", str(folder)),
            ("user haproxy", f"user {account.pw_name}"),
            ("group haproxy", f"gid {account.pw_gid}"),
        ):
            text = text.replace(old, new)
        return self._with_passwords(text)

    def _with_passwords(self, text: str) -> str:
        return re.sub(r"[A-Z]+-PASSWORD", self.password, text)

    def install(self, name: str, folder: Path, address: str = "") -> None:
        """Write a file of the set-up into the folder of a host."""
        (folder / name).write_text(self.text(name, folder, address))
        programs.give(folder / name)

    def __enter__(self) -> Self:
        self.folder.mkdir(mode=0o700)
        programs.give(self.folder)
        for name in ("haproxy.cfg", "pgbouncer.ini", "userlist.txt"):
            self.install(name, self.folder)
        self.haproxy = Program(self.folder, "haproxy", "-db", "-f", "haproxy.cfg")
        self.pgbouncer = Program(self.folder, "pgbouncer", "pgbouncer.ini")
        self.hosts = [DatabaseHost(self, number + 1) for number in range(HOSTS)]
        try:
            self._start()
        except BaseException as error:
            for log in self.folder.parent.glob(f"{self.folder.name}*/*.output"):
                error.add_note(f"{log}: {log.read_text()[-3000:]}")
            self.remove()
            raise
        return self

    def _start(self) -> None:
        for host in self.hosts:
            host.start()
        self.wait_until_whole()
        superuser = f"host={self.primary().address} user=postgres password={self.password}"
        (statements,) = (block.text for block in blocks(PAGE) if block.language == "sql")
        with psycopg.connect(superuser, autocommit=True) as connection:
            for statement in self._with_passwords(statements).split(";\n"):
                connection.execute(statement.encode())
        self.haproxy.start()
        self.pgbouncer.start()
        wait_until(self._is_reachable, "the database is reachable through PgBouncer")

    def __exit__(self, *_: object) -> None:
        self.remove()

    def remove(self) -> None:
        """End everything, and delete the files."""
        self.pgbouncer.end()
        self.haproxy.end()
        for host in self.hosts:
            host.lose()
        for folder in (self.folder, *(host.folder for host in self.hosts)):
            shutil.rmtree(folder)

    def _is_reachable(self) -> bool:
        with suppress(psycopg.Error), psycopg.connect(self.url, connect_timeout=3):
            return True
        return False

    def primary(self, other_than: DatabaseHost | None = None) -> DatabaseHost:
        """The host that has the lock and the primary."""
        hosts = [host for host in self.hosts if host is not other_than]
        found = wait_until(lambda: self._find_primary(hosts), "there is a primary")
        assert found
        return found

    def _find_primary(self, hosts: list[DatabaseHost]) -> DatabaseHost | None:
        time.sleep(LOOK_SECONDS)
        return next((host for host in hosts if host.request("primary") is not None), None)

    def wait_until_whole(self) -> None:
        """Wait for a primary, a synchronous standby and another one, on one timeline."""
        wait_until(self._is_whole, "all database hosts run", limit_seconds=WHOLE_SECONDS)

    def _is_whole(self) -> bool:
        primary = self._find_primary(self.hosts)
        members = (primary.request("cluster") or {}).get("members", []) if primary else []
        return (
            sorted(member["role"] for member in members) == ["leader", "replica", "sync_standby"]
            and all(member["state"] in RUNNING for member in members)
            and len({member.get("timeline") for member in members}) == 1
        )
