"""Marker files that tell the next service which machines have programs."""

import json
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from fairwarning.machines.process.program import Key


class Markers:
    """A small file for each machine that has programs, with their number.

    The files outlive the service, as the programs do. If a file cannot be written or read, the next
    service does not wait for the programs of that machine; there is no other effect.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self) -> Mapping[Key, int]:
        """Return the number of programs by machine, as the last service left it."""
        counts: dict[Key, int] = {}
        for path in sorted(self._folder.glob("*.json")):
            with suppress(OSError, ValueError, KeyError, TypeError):
                marker = json.loads(path.read_text())
                counts[str(marker["scope"]), str(marker["machine"])] = int(marker["programs"])
        return counts

    def write(self, key: Key, programs: int) -> None:
        """Write the number of programs of a machine; if it is 0, remove the file."""
        scope, machine = key
        path = self._folder / (sha256(f"{scope}\0{machine}".encode()).hexdigest() + ".json")
        with suppress(OSError):
            if not programs:
                path.unlink(missing_ok=True)
                return
            self._folder.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps({"scope": scope, "machine": machine, "programs": programs}))
