"""The .sql files of a store: statements by name, and migrations by number."""

import re
from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path

from fairwarning.core.errors import StoreDamaged, Unavailable
from fairwarning.core.record import short_record

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_NEEDS = re.compile(r"^-- needs: (\d+)$", re.MULTILINE)
_OF_CANDIDATES = frozenset(
    {
        "df30dfc6d9bec81c702dac3020782e77cdd15623cc8c92292738bf85fac6fbd2",
        "e1ab1a9d0c7c7a61c19b2a03680a6b0abb09e450489d1a55993e731c8d9c63e9",
    }
)
"""The checksums of the first migration of the release candidates of 1.0.0."""


@short_record
class Migration:
    """A change of the schema. Its text never changes after release; add a migration instead."""

    number: int
    name: str
    text: str

    @property
    def checksum(self) -> str:
        """Identifies the text that a database was created with."""
        return sha256(self.text.encode()).hexdigest()

    @property
    def needs(self) -> int:
        """The oldest migration that a process must know to use this schema; by default, this."""
        match = _NEEDS.search(self.text)
        return int(match[1]) if match else self.number


def queries(folder: Path) -> dict[str, str]:
    """Return the statements of a folder's queries.sql by name."""
    _, *parts = _NAME.split((folder / "queries.sql").read_text("utf-8"))
    return dict(zip(parts[::2], (part.strip() for part in parts[1::2]), strict=True))


def migrations(folder: Path) -> list[Migration]:
    """Return all migrations of a folder, in order."""
    files = sorted(folder.glob("[0-9]*.sql"))
    return [Migration(int(file.name[:4]), file.name, file.read_text("utf-8")) for file in files]


def check(applied: Iterable[tuple[int, str, str, int]], migrations: Sequence[Migration]) -> None:
    """Reject a database that these migrations do not fit.

    `applied` holds number, name, checksum and required migration of each applied migration.
    """
    known = {migration.number: migration for migration in migrations}
    newest = max(known, default=0)
    for number, name, checksum, needs in applied:
        if checksum in _OF_CANDIDATES:
            raise Unavailable(
                "StoreOfCandidate",
                "the data was written by a release candidate of 1.0.0, which this version does "
                "not read; start with a new data folder or an empty database, or install that "
                "candidate",
            )
        if number not in known and needs > newest:
            raise Unavailable(
                "StoreNewer",
                f"the database has migration {name} of a newer version of Fairwarning; "
                "install that version, or use another database",
            )
        if number in known and known[number].checksum != checksum:
            raise StoreDamaged(
                "StoreChanged",
                f"migration {name} of the database differs from the one in this version; "
                "install the version that created the database",
            )
