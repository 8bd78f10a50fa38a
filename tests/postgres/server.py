"""PostgreSQL servers of the tests' own, on 127.0.0.1: whoever reaches one may do everything.

`database()` gives a new, empty database on the server that all tests of a run share. A test that
stops or kills a server takes one for itself: `with Server() as server: ...`.
"""

import ctypes
import functools
import os
import random
import shutil
import signal
import socket
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

import psycopg
from psycopg import sql

from tests.postgres import programs, room

SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "200",
    "shared_buffers": "64MB",
    # In the data folder, so that a killed server leaves nothing in /dev/shm.
    "dynamic_shared_memory_type": "mmap",
    "timezone": "UTC",
}
# Nothing differs as long as the machine itself stays up.
HASTY = {"fsync": "off", "full_page_writes": "off"}
# Below what systems give to outgoing connections: the port of a server that is down stays free.
PORTS = range(15_000, 32_000)
TRIES = 10
IPC_RMID = 0

Mode = Literal["smart", "fast", "immediate"]


def _free_port() -> int:
    while True:
        port = random.choice(PORTS)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


class Server:
    """One server. It survives `stop` and `kill`: `start` brings it back on the same port."""

    def __init__(self, *, durable: bool = True, settings: Mapping[str, str] | None = None) -> None:
        self.settings = SETTINGS | ({} if durable else HASTY) | dict(settings or {})
        self.folder = room.folder() / uuid.uuid4().hex[:8]
        self.port = 0

    @property
    def data(self) -> Path:
        """The data folder."""
        return self.folder / "data"

    def __enter__(self) -> Self:
        self.make()
        self.create()
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.remove()

    # --- Its life ---

    def make(self) -> None:
        """Make its folder, which is all a standby needs to begin with."""
        self.folder.mkdir(mode=0o700)
        programs.give(self.folder)

    def create(self) -> None:
        """Make the data folder."""
        words = ("--auth=trust", "--username=postgres", "--locale=C", "--encoding=UTF8")
        programs.run(self.folder, "initdb", *words, "--no-sync", "--no-instructions", "-D", "data")
        self.configure(self.settings)

    def configure(self, settings: Mapping[str, str]) -> None:
        """Add settings; they hold from the next start on."""
        with (self.data / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())

    def start(self) -> None:
        """Start it and wait until it takes connections."""
        if self.port:
            self._start()
            return
        for left in reversed(range(TRIES)):
            self.port = _free_port()
            try:
                self._start()
                return
            except OSError:
                if not left or self._is_free():
                    raise

    def _start(self) -> None:
        options = f"-p {self.port}"
        words = ("-D", str(self.data), "-l", "log", "-o", options, "-w", "-t", "60", "start")
        try:
            programs.run(self.folder, "pg_ctl", *words)
        except OSError as error:
            error.add_note((self.folder / "log").read_text()[-2000:])
            raise

    def _is_free(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) != 0

    def stop(self, mode: Mode = "fast") -> None:
        """Stop it in order, or `immediate`ly: as after a crash, it recovers at the next start."""
        programs.run(self.folder, "pg_ctl", "-D", str(self.data), "-m", mode, "-w", "stop")

    def kill(self) -> None:
        """As kill -9 does, and all its children with it."""
        process = self.process()
        assert process, "it does not run"
        os.kill(process, signal.SIGSTOP)  # it must not get to know of its children's end
        family = [*_children(process), process]
        for one in family:
            os.kill(one, signal.SIGKILL)
        while any(map(_runs, family)):
            time.sleep(0.001)
        self._bury()

    def _bury(self) -> None:
        """Forget its number, which stays taken where nobody buries the dead, and its memory."""
        file = self.data / "postmaster.pid"
        segment = int(file.read_text().split("\n")[6].split()[1])
        ctypes.CDLL(None).shmctl(segment, IPC_RMID, None)
        file.unlink()

    def process(self) -> int | None:
        """The number of its process, while it runs."""
        with suppress(OSError, ValueError, IndexError):
            process = int((self.data / "postmaster.pid").read_text().split()[0])
            return process if _runs(process) else None
        return None

    def promote(self) -> None:
        """A standby becomes the primary."""
        programs.run(self.folder, "pg_ctl", "-D", str(self.data), "-w", "promote")

    def remove(self) -> None:
        """End it and remove what it kept."""
        if self.process():
            self.stop("immediate")
        shutil.rmtree(self.folder)

    # --- Its databases ---

    def url(self, database: str = "postgres") -> str:
        """Where to connect."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def execute(self, text: str, *names: str) -> list[tuple[object, ...]]:
        """Run one statement, with names for each `{}` in it; what it returns."""
        with psycopg.connect(self.url(), autocommit=True) as connection:
            statement = sql.SQL(text).format(*map(sql.Identifier, names))
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def database(self, like: str = "") -> str:
        """The URL of a new database: empty, or like another one that nobody is connected to."""
        name = f"test_{uuid.uuid4().hex}"
        template = like.rpartition("/")[2] or "template0"
        self.execute("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy", name, template)
        return self.url(name)

    def drop(self, url: str) -> None:
        """Remove a database, whoever is still connected."""
        self.execute("DROP DATABASE {} WITH (FORCE)", url.rpartition("/")[2])


def _children(process: int) -> list[int]:
    others = (int(one.name) for one in Path("/proc").iterdir() if one.name.isdigit())
    return [one for one in others if _parent(one) == process]


def _stat(process: int) -> list[str]:
    """State, parent and so on; nothing once it is no more."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _parent(process: int) -> int:
    return int((_stat(process) or ["", "0"])[1])


def _runs(process: int) -> bool:
    return (_stat(process) or "Z")[0] not in "ZX"


@functools.cache
def shared() -> Server:
    """The server that all tests of this run share; the first who asks starts it."""
    programs.folder()
    server = Server(durable=False)
    server.folder = room.folder() / "shared"
    with room.locked():
        port = room.folder() / "port"
        if port.exists():
            server.port = int(port.read_text())
        else:
            server.make()
            server.create()
            server.start()
            port.write_text(str(server.port))
    return server


def database() -> str:
    """The URL of a new, empty database on the shared server."""
    return shared().database()
