"""A store on a disk that is filled and freed repeatedly. Run as a program: FOLDER CYCLES.

Prints one line of JSON. FOLDER is a small separate filesystem.
"""

import asyncio
import json
import sys
from contextlib import suppress
from pathlib import Path

from fairwarning.core.commands import CreateScope
from fairwarning.core.errors import Unavailable
from fairwarning.core.model import Machine, Ref, Scope, ScopeKind
from fairwarning.store.files import SqliteConnection
from fairwarning.store.sqlite import SQLiteStore
from tests.store.batch_generator import BatchGenerator

RESERVED_BYTES = 1 << 20


class Disk:
    """A small filesystem, filled by a file that takes all its space."""

    def __init__(self, folder: Path) -> None:
        self._filler = folder / "filler"

    def fill(self) -> None:
        with suppress(OSError), self._filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))

    def free(self) -> None:
        self._filler.unlink()


class Trial:
    """Commits until a commit is refused, and knows what was acknowledged."""

    def __init__(self, store: SQLiteStore) -> None:
        self.store = store
        self.generator = BatchGenerator()
        self.kept: list[Ref] = []
        self.refused: list[Ref] = []
        self._count = 0

    async def add(self) -> bool:
        """Commit one more scope; return whether it was acknowledged."""
        self._count += 1
        name = f"scope-{self._count}"
        machines = tuple(Machine(name=f"{name}_{n}", host_name="h" * 150) for n in range(20))
        command = CreateScope(scope=name, kind=ScopeKind.CLOUD_SERVICE, machines=machines)
        try:
            await self.store.commit(self.generator.batch([command]))
        except Unavailable as error:
            if error.code != "StoreFull":
                raise
            del self.generator.entities[Scope, name]
            self.refused.append((Scope, name))
            return False
        self.kept.append((Scope, name))
        return True

    async def check(self) -> None:
        """Check that reads work, with every acknowledged scope and no refused one."""
        loaded = await self.store.load([*self.kept, *self.refused])
        assert all(loaded[ref] == self.generator.entities[ref] for ref in self.kept)
        assert all(loaded[ref] is None for ref in self.refused)
        assert await self.store.list_ids(Scope, "", 10_000) == sorted(name for _, name in self.kept)


async def cycle(trial: Trial, disk: Disk) -> int:
    """Fill the disk, be refused, free it, resume; return how many commits the full disk took."""
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


def is_sound(connection: SqliteConnection) -> bool:
    """Return whether SQLite finds the database consistent."""
    return connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


async def main(folder: Path, cycles: int, disk: Disk) -> dict[str, int]:
    """Run all cycles, then restart."""
    store = SQLiteStore(folder / "fleet.db", reserved_bytes=RESERVED_BYTES)
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
    assert await store._read(is_sound)
    await trial.check()
    await store.close()
    return {
        "cycles": cycles,
        "kept": len(trial.kept),
        "refused": len(trial.refused),
        "taken_while_full": min(taken),
    }


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    counts = asyncio.run(main(folder, int(sys.argv[2]), Disk(folder)))
    sys.stdout.write(json.dumps(counts))
