"""Notes of which machines are programs, for the service that comes after this one."""

import json
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from fairwarning.machines.process.program import Key


class Markers:
    """A small file for each machine that is a program, with how many programs it is.

    They outlive the service, as the programs do. A note that cannot be written, or read, costs no
    more than the patience of the next service: it will not wait for that machine.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self) -> Mapping[Key, int]:
        """What the service before this one left."""
        found: dict[Key, int] = {}
        for path in sorted(self._folder.glob("*.json")):
            with suppress(OSError, ValueError, KeyError, TypeError):
                note = json.loads(path.read_text())
                found[str(note["scope"]), str(note["machine"])] = int(note["programs"])
        return found

    def write(self, key: Key, programs: int) -> None:
        """A machine is so many programs now; with none, its note is removed."""
        scope, machine = key
        path = self._folder / (sha256(f"{scope}\0{machine}".encode()).hexdigest() + ".json")
        with suppress(OSError):
            if not programs:
                path.unlink(missing_ok=True)
                return
            self._folder.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps({"scope": scope, "machine": machine, "programs": programs}))
