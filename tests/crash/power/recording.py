"""Records what SQLite does to its files, and derives the states that a power loss could leave.

The simulated disk is the worst allowed: unsynced data of each file may be there or not; the last
write may be torn at a sector boundary; a created or removed file may be missing or present.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw

SECTOR = 512
LOGS = apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_WAL
Image = dict[str, bytes]


@dataclass(frozen=True, slots=True)
class Step:
    """A change of a file, or the acknowledgement of the batch before it."""

    what: str  # open, write, truncate, sync, delete, acknowledge
    name: str = ""
    offset: int = 0
    data: bytes = b""


class RecordingVFS(apsw.VFS):
    """The default VFS, which records every change of its files."""

    def __init__(self, name: str) -> None:
        super().__init__(name, "unix")
        self.name = name
        self.steps: list[Step] = []

    def xOpen(self, name: Any, flags: list[int]) -> "RecordingFile":  # noqa: ANN401, N802
        file = RecordingFile(self.steps, name, flags)
        self.steps.append(Step("open", file.name, flags[0] & LOGS))
        return file

    def xDelete(self, name: str, syncdir: bool) -> None:  # noqa: N802
        super().xDelete(name, syncdir)
        self.steps.append(Step("delete", Path(name).name, int(syncdir)))


class RecordingFile(apsw.VFSFile):
    def __init__(self, steps: list[Step], name: Any, flags: list[int]) -> None:  # noqa: ANN401
        super().__init__("unix", name, flags)
        self._steps = steps
        self.name = Path(name if isinstance(name, str) else name.filename()).name

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        super().xWrite(data, offset)
        self._steps.append(Step("write", self.name, offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        super().xTruncate(newsize)
        self._steps.append(Step("truncate", self.name, newsize))

    def xSync(self, flags: int) -> None:  # noqa: N802
        super().xSync(flags)
        self._steps.append(Step("sync", self.name))


@dataclass
class Disk:
    """Files as the program sees them, and as they are durable."""

    seen: dict[str, bytearray] = field(default_factory=dict)
    durable: dict[str, bytes] = field(default_factory=dict)
    unsynced_logs: set[str] = field(default_factory=set)  # not synced since they were opened
    before: bytes = b""  # the file last written to, as it was before that write

    def apply(self, step: Step) -> None:
        if step.what == "write":
            self.before = bytes(self.seen.get(step.name, b""))
            _put(self.seen.setdefault(step.name, bytearray()), step.offset, step.data)
        elif step.what == "truncate":
            del self.seen.setdefault(step.name, bytearray())[step.offset :]
        elif step.what == "open" and step.offset:
            self.unsynced_logs.add(step.name)
        elif step.what == "sync":
            self.durable[step.name] = bytes(self.seen.setdefault(step.name, bytearray()))
            if step.name in self.unsynced_logs:
                # At a log's first sync, SQLite syncs the folder as well.
                self.unsynced_logs.remove(step.name)
                self._sync_folder()
        elif step.what == "delete":
            self.seen.pop(step.name, None)
            if step.offset:
                self._sync_folder()

    def _sync_folder(self) -> None:
        """Make removals durable."""
        self.durable = {name: self.durable[name] for name in self.durable if name in self.seen}

    def images(self, step: Step, main: str) -> Iterator[Image]:
        """Yield the files that may be found after a power loss right after this step."""
        seen = {name: bytes(content) for name, content in self.seen.items()}
        yield seen
        yield dict(self.durable)
        yield _mixed(seen, self.durable, main)
        yield _mixed(self.durable, seen, main)
        if step.what == "write" and len(step.data) > SECTOR:
            torn = bytearray(self.before)
            _put(torn, step.offset, step.data[:SECTOR])
            yield {**seen, step.name: bytes(torn)}


def _mixed(main_from: Image, rest_from: Image, main: str) -> Image:
    image = {name: content for name, content in rest_from.items() if name != main}
    return {**image, main: main_from[main]} if main in main_from else image


def _put(content: bytearray, offset: int, data: bytes) -> None:
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


def crash_images(steps: list[Step], main: str) -> Iterator[tuple[int, Image]]:
    """Yield every distinct image after every step, with the number of acknowledged batches."""
    disk = Disk(durable={main: b""}, seen={main: bytearray()})
    acknowledged = 0
    known: set[tuple[int, int]] = set()
    for step in steps:
        if step.what == "acknowledge":
            acknowledged += 1
            continue
        disk.apply(step)
        for image in disk.images(step, main):
            key = (acknowledged, hash(tuple(sorted(image.items()))))
            if key not in known:
                known.add(key)
                yield acknowledged, image
