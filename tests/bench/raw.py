"""The peer of durable commands: plain SQLite with equal durability, one row per transaction."""

import sqlite3
from pathlib import Path
from secrets import token_hex

from tests.bench.measure import Sample, Stopwatch

_ROWS = 200
_FILLING = "0123456789abcdef" * 30


def body(tag: int, number: int) -> str:
    """About 500 bytes, always different, because SQLite does not write unchanged rows."""
    return f"{tag:08x}{number:08x}{_FILLING}"


class Raw:
    """An SQLite file with the settings of our store."""

    def __init__(self, path: Path) -> None:
        self._database = sqlite3.connect(path, isolation_level=None)
        for setting in ("locking_mode = EXCLUSIVE", "journal_mode = WAL", "synchronous = FULL"):
            self._database.execute(f"PRAGMA {setting}")
        self._database.execute("CREATE TABLE thing (id INTEGER PRIMARY KEY, body TEXT NOT NULL)")
        rows = ((row, body(0, 0)) for row in range(_ROWS))
        self._database.execute("BEGIN")
        self._database.executemany("INSERT INTO thing VALUES (?, ?)", rows)
        self._database.execute("COMMIT")

    def load(self, seconds: float) -> Sample:
        """Update one row per transaction for some seconds."""
        update, tag, done = "UPDATE thing SET body = ? WHERE id = ?", int(token_hex(4), 16), 0
        watch = Stopwatch()
        while not done or watch.passed() < seconds:
            self._database.execute(update, (body(tag, done), done * 7 % _ROWS))
            done += 1
        return watch.sample(done)

    def close(self) -> None:
        """Close the file."""
        self._database.close()
