"""The .sql files of a store: statements by name, and the steps of its schema by number."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files

from fairwarning.core.errors import InvariantViolated, Unavailable

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_NEEDS = re.compile(r"^-- needs: (\d+)$", re.MULTILINE)


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

    @property
    def needs(self) -> int:
        """The oldest step that a program must know to run beside this one; mostly, this one."""
        told = _NEEDS.search(self.text)
        return int(told[1]) if told else self.number


def queries(package: str) -> dict[str, str]:
    """The statements of a package's sql/queries.sql by their names."""
    _, *parts = _NAME.split((files(package) / "sql" / "queries.sql").read_text("utf-8"))
    return dict(zip(parts[::2], (part.strip() for part in parts[1::2]), strict=True))


def migrations(package: str) -> list[Migration]:
    """All steps of a package's schema, in order."""
    folder = files(package) / "sql"
    found = sorted(file.name for file in folder.iterdir() if file.name[:4].isdigit())
    return [Migration(int(name[:4]), name, (folder / name).read_text("utf-8")) for name in found]


def check(done: Iterable[tuple[int, str, str, int]], steps: Sequence[Migration]) -> None:
    """Refuse a database that these steps were not made for.

    Of each step that it has: its number, name, checksum, and what a program must know.
    """
    known = {step.number: step for step in steps}
    newest = max(known, default=0)
    for number, name, checksum, needs in done:
        if number not in known and needs > newest:
            raise Unavailable(
                "StoreNewer",
                f"the database has step {name} of a newer version of Fairwarning; "
                "install that version, or use another database",
            )
        if number in known and known[number].checksum != checksum:
            raise InvariantViolated(
                "StoreChanged",
                f"the database was made with another text of step {name} than this version has; "
                "install the version that made it",
            )
