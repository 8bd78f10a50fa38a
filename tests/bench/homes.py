"""Where a fleet that is served is kept: an SQLite file, or a database of PostgreSQL."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from tests.bench.figures import Result
from tests.bench.fleets import SCOPE
from tests.bench.stage import Stage
from tests.fixtures.postgres import server as postgres
from tests.fixtures.postgres.programs import NoPostgreSQL
from tests.fixtures.postgres.server import Server

_SETTINGS = {"shared_buffers": "256MB", "max_wal_size": "4GB"}


class Home(Protocol):
    """Gives out copies of fleets."""

    def fresh(self, machines: int, of_scope: int = SCOPE) -> list[str]:
        """What `up` is told, to serve a fleet of so many machines, none of which has asked yet."""

    def size(self, machines: int) -> int:
        """Bytes on the disk of the fleet as it was made, indexes and journal included."""


class Files:
    """SQLite."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def fresh(self, machines: int, of_scope: int = SCOPE) -> list[str]:
        folder = self._stage.folder / f"served-{machines}-{of_scope}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        shutil.copy(self._stage.fleet(machines, of_scope=of_scope), folder)
        return ["--data", str(folder)]

    def size(self, machines: int) -> int:
        return self._stage.fleet(machines).stat().st_size


class Databases:
    """PostgreSQL: a database is copied as a template."""

    def __init__(self, stage: Stage, server: Server) -> None:
        self._stage = stage
        self.server = server
        self._made: dict[tuple[int, int], str] = {}
        self._copies: dict[str, str] = {}

    def _fleet(self, machines: int, of_scope: int) -> str:
        """The URL of the fleet, made the first time."""
        key = machines, of_scope
        if key not in self._made:
            url = self.server.database()
            self._stage.probe("build", data=url, machines=machines, of_scope=of_scope)
            self.server.execute("CHECKPOINT")
            self._made[key] = url
        return self._made[key]

    def copy(self, machines: int, name: str, of_scope: int = SCOPE) -> str:
        """The URL of a copy of a fleet; the copy of that name before is gone."""
        made = _name(self._fleet(machines, of_scope))
        if name in self._copies:
            self.server.drop(self._copies[name])
        copy = f"{made}_{name}"
        self.server.execute("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy", copy, made)
        self._copies[name] = self.server.url(copy)
        return self._copies[name]

    def fresh(self, machines: int, of_scope: int = SCOPE) -> list[str]:
        name = f"served-{machines}-{of_scope}"
        return self.words(self.copy(machines, name, of_scope), name)

    def words(self, url: str, name: str) -> list[str]:
        """What `up` is told, to serve this database with a folder of this name."""
        return ["--data", url, "--run", str(self._stage.folder / f"run-{name}")]

    def clear(self) -> None:
        """Remove them all."""
        for url in (*self._copies.values(), *self._made.values()):
            self.server.drop(url)

    def size(self, machines: int) -> int:
        name = _name(self._fleet(machines, SCOPE))
        rows = self.server.execute("SELECT datname, pg_database_size(datname) FROM pg_database")
        return next(int(str(size)) for found, size in rows if found == name)


def _name(url: str) -> str:
    return url.rpartition("/")[2]


@contextmanager
def databases(stage: Stage) -> Iterator[Databases]:
    """On a server of its own that loses nothing; in a test, on the one that tests share."""
    if not stage.effort.apart:
        home = Databases(stage, postgres.shared())
        try:
            yield home
        finally:
            home.clear()
        return
    with Server(settings=_SETTINGS) as server:
        yield Databases(stage, server)


def on_postgresql(
    stage: Stage, name: str, title: str, about: str, run: Callable[[Stage, Databases], Result]
) -> Result:
    """Measure where there is a PostgreSQL; else a result that says why there are no figures."""
    try:
        with databases(stage) as home:
            return run(stage, home)
    except NoPostgreSQL as reason:
        stage.expect(0)
        return Result(name, title, about, rows={}, notes=(f"Not measured: {reason}.",))
