"""A store on a disk that is filled and freed again. Run as a program: FOLDER CYCLES.

Prints one line of JSON. FOLDER is a small filesystem of its own; `--limit` instead bounds the size
of files (RLIMIT_FSIZE), where none can be mounted.
"""

import asyncio
import json
import resource
import signal
import sys
from contextlib import suppress
from pathlib import Path

from fairwarning.core.commands import CreateScope
from fairwarning.core.errors import Unavailable
from fairwarning.core.model import Machine, Ref, Scope, ScopeKind
from fairwarning.store.files import SqliteConnection
from fairwarning.store.sqlite import SQLiteStore
from tests.store.author import Author

BALLAST = 1 << 20


class Disk:
    """A small filesystem: filled by a file that takes all there is."""

    def __init__(self, folder: Path) -> None:
        self._filler = folder / "filler"

    def fill(self) -> None:
        """Leave not a byte."""
        with suppress(OSError), self._filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))

    def free(self) -> None:
        """Take all of it back."""
        self._filler.unlink()


class Limit:
    """No file may grow beyond what the database's log has just now."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "fleet.db-wal"
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    def fill(self) -> None:
        """From now on."""
        size = self._log.stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    def free(self) -> None:
        """No limit any more."""
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)


class Trial:
    """Commits until it is refused, and knows what was acknowledged."""

    def __init__(self, store: SQLiteStore) -> None:
        self.store = store
        self.author = Author()
        self.kept: list[Ref] = []
        self.refused: list[Ref] = []
        self._count = 0

    async def add(self) -> bool:
        """One more scope; whether it was acknowledged."""
        self._count += 1
        name = f"scope-{self._count}"
        machines = tuple(Machine(name=f"{name}_{i}", host_name="h" * 150) for i in range(20))
        command = CreateScope(scope=name, kind=ScopeKind.CLOUD_SERVICE, machines=machines)
        try:
            await self.store.commit(self.author.batch([command]))
        except Unavailable as error:
            if error.code not in {"StoreFull", "StoreFailed"}:  # the latter where files are limited
                raise
            del self.author.entities[Scope, name]
            self.refused.append((Scope, name))
            return False
        self.kept.append((Scope, name))
        return True

    async def check(self) -> None:
        """Reads go on: nothing acknowledged is missing, nothing refused is there."""
        loaded = await self.store.load([*self.kept, *self.refused])
        assert all(loaded[ref] == self.author.entities[ref] for ref in self.kept)
        assert all(loaded[ref] is None for ref in self.refused)
        assert await self.store.list_ids(Scope, "", 10_000) == sorted(name for _, name in self.kept)


async def cycle(trial: Trial, disk: Disk | Limit) -> int:
    """Fill, be refused, free, go on; how many commits the full disk still took."""
    for _ in range(3):
        assert await trial.add()
    disk.fill()
    taken = 0
    while await trial.add():
        taken += 1
    for _ in range(5):
        assert not await trial.add()
        await trial.check()
    disk.free()
    assert await trial.add()
    await trial.check()
    return taken


def sound(connection: SqliteConnection) -> bool:
    """SQLite itself finds nothing wrong."""
    return connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


async def main(folder: Path, cycles: int, disk: Disk | Limit) -> dict[str, int]:
    """All cycles, then a restart."""
    store = SQLiteStore(folder / "fleet.db", reserved_bytes=BALLAST)
    trial = Trial(store)
    await store.open()
    taken = [await cycle(trial, disk) for _ in range(cycles)]
    disk.fill()
    while await trial.add():
        pass
    await store.close()
    await store.open()  # also on a full disk
    await trial.check()
    disk.free()
    assert await trial.add()
    assert await store._read(sound)
    await trial.check()
    await store.close()
    return {
        "cycles": cycles,
        "kept": len(trial.kept),
        "refused": len(trial.refused),
        "taken_while_full": min(taken),
    }


if __name__ == "__main__":
    place = Path(sys.argv[1])
    kind = Limit if "--limit" in sys.argv else Disk
    counts = asyncio.run(main(place, int(sys.argv[2]), kind(place)))
    sys.stdout.write(json.dumps(counts))
