"""The .sql files: statements by name, and migrations by number."""

import re
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from time import time

from fairwarning.core.errors import Broken, Unavailable
from fairwarning.store.files import Connection

_FOLDER = files(__package__) / "sql"
_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_KNOWN = """
CREATE TABLE IF NOT EXISTS migration (
    number INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL, at REAL NOT NULL
)
"""


@dataclass(frozen=True, slots=True)
class Migration:
    """A step of the schema. Once released its text never changes; a change is a new step."""

    number: int
    name: str
    text: str

    @property
    def checksum(self) -> str:
        """Tells whether the text is the one that a database was made with."""
        return sha256(self.text.encode()).hexdigest()


def queries() -> dict[str, str]:
    """The statements of queries.sql by their names."""
    _, *parts = _NAME.split((_FOLDER / "queries.sql").read_text("utf-8"))
    return dict(zip(parts[::2], (part.strip() for part in parts[1::2]), strict=True))


def migrations() -> list[Migration]:
    """All steps of the schema, in order."""
    found = sorted(file.name for file in _FOLDER.iterdir() if file.name[:4].isdigit())
    return [Migration(int(name[:4]), name, (_FOLDER / name).read_text("utf-8")) for name in found]


def migrate(connection: Connection, steps: list[Migration]) -> None:
    """Bring the database to the newest step, inside the caller's transaction.

    Raises and changes nothing when the database is not ours, newer than this program, or was made
    with other steps than these.
    """
    done = _done(connection)
    known = {step.number: step for step in steps}
    for number, name, checksum in done:
        if number not in known:
            raise Unavailable(
                "StoreNewer",
                f"the database has step {name} of a newer version of Fairwarning; "
                "install that version, or use another database",
            )
        if known[number].checksum != checksum:
            raise Broken(
                "StoreChanged",
                f"the database was made with another text of step {name} than this version has; "
                "install the version that made it",
            )
    for step in steps[len(done) :]:
        for statement in _statements(step.text):
            connection.execute(statement)
        connection.execute(
            "INSERT INTO migration (number, name, checksum, at) VALUES (?, ?, ?, ?)",
            (step.number, step.name, step.checksum, time()),
        )


def _done(connection: Connection) -> list[tuple[int, str, str]]:
    tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    if tables and ("migration",) not in tables:
        raise Unavailable("NotAStore", "the database belongs to another program; use another file")
    if not tables:
        connection.execute(_KNOWN)
    return connection.execute(
        "SELECT number, name, checksum FROM migration ORDER BY number"
    ).fetchall()


def _statements(text: str) -> Iterator[str]:
    """A script's statements one by one: Python's own way to run a script commits first."""
    statement = ""
    for line in text.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
