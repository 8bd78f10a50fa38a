"""Storage of a served fleet: an SQLite file, or a PostgreSQL database."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.bench.context import BenchmarkContext
from tests.bench.figures import Figures, Result
from tests.bench.fleets import SCOPE
from tests.bench.generate import build
from tests.fixtures.postgres import server as postgres
from tests.fixtures.postgres.programs import NoPostgreSQL
from tests.fixtures.postgres.server import Server

_SETTINGS = {"shared_buffers": "256MB", "max_wal_size": "4GB"}


class Files:
    """SQLite."""

    def __init__(self, context: BenchmarkContext) -> None:
        self._context = context

    def fresh(self, machines: int, of_scope: int = SCOPE) -> list[str]:
        """The options of `up` to serve a new fleet of this many machines."""
        folder = self._context.folder / f"served-{machines}-{of_scope}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        shutil.copy(self._context.fleet(machines, of_scope=of_scope), folder)
        return ["--data", str(folder)]

    def size(self, machines: int) -> int:
        """Bytes on disk of the new fleet, including indexes and journal."""
        return self._context.fleet(machines).stat().st_size


class Databases:
    """PostgreSQL: databases are copied from a template."""

    def __init__(self, context: BenchmarkContext, server: Server) -> None:
        self._context = context
        self.server = server
        self._made: dict[tuple[int, int], str] = {}
        self._copies: dict[str, str] = {}

    def _fleet(self, machines: int, of_scope: int) -> str:
        """The URL of the fleet, which the first call creates."""
        key = machines, of_scope
        if key not in self._made:
            url = self.server.database()
            self._context.probe(build, data=url, machines=machines, of_scope=of_scope)
            self.server.execute("CHECKPOINT")
            self._made[key] = url
        return self._made[key]

    def copy(self, machines: int, name: str, of_scope: int = SCOPE) -> str:
        """The URL of a copy of a fleet; an earlier copy of that name is dropped."""
        template = _name(self._fleet(machines, of_scope))
        if name in self._copies:
            self.server.drop(self._copies[name])
        copy = f"{template}_{name}"
        self.server.execute("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy", copy, template)
        self._copies[name] = self.server.url(copy)
        return self._copies[name]

    def fresh(self, machines: int, of_scope: int = SCOPE) -> list[str]:
        name = f"served-{machines}-{of_scope}"
        return self.words(self.copy(machines, name, of_scope), name)

    def words(self, url: str, name: str) -> list[str]:
        """The options of `up` to serve this database, with a run folder of this name."""
        return ["--data", url, "--run", str(self._context.folder / f"run-{name}")]

    def clear(self) -> None:
        """Drop all databases."""
        for url in (*self._copies.values(), *self._made.values()):
            self.server.drop(url)

    def size(self, machines: int) -> int:
        name = _name(self._fleet(machines, SCOPE))
        rows = self.server.execute("SELECT datname, pg_database_size(datname) FROM pg_database")
        return next(int(str(size)) for database, size in rows if database == name)


Storage = Files | Databases


def _name(url: str) -> str:
    return url.rpartition("/")[2]


@contextmanager
def databases(context: BenchmarkContext) -> Iterator[Databases]:
    """Databases on a durable server of their own; in a test, on the shared server."""
    if not context.effort.apart:
        storage = Databases(context, postgres.shared())
        try:
            yield storage
        finally:
            storage.clear()
        return
    with Server(settings=_SETTINGS) as server:
        yield Databases(context, server)


def on_postgresql(
    context: BenchmarkContext,
    text: tuple[str, str, str],
    run: Callable[[BenchmarkContext, Databases], Figures],
) -> Result:
    """Measure if PostgreSQL is installed; else return a result with the reason."""
    try:
        with databases(context) as storage:
            return Result(*text, *run(context, storage))
    except NoPostgreSQL as reason:
        return Result(*text, rows={}, notes=(f"Not measured: {reason}.",))
