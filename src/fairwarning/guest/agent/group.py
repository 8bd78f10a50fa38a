"""How machines that share an event tell each other that they are alive and ready (G5)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Protocol, TypeVar
from urllib.parse import quote

from fairwarning.guest.agent.actions import GroupMembers
from fairwarning.guest.agent.config import GroupSettings
from fairwarning.guest.events import Event, normalize_name

ALIVE_SECONDS = 10.0  # a machine without a sign of life for this long is not alive
_FOLDER_SECONDS = 2.0  # a shared folder usually takes milliseconds
_DELETED_SECONDS = 7 * 24 * 3600.0  # a machine that is silent for so long was probably deleted
_CLEAN_SECONDS = 3600.0  # between two searches for such machines

T = TypeVar("T")


class PeerDirectory(Protocol):
    """The other machines of a group."""

    def heartbeat(self) -> None:
        """Show that this machine is alive; called about once a second."""

    def signal(self, event: Event, *, ready: bool) -> None:
        """Tell the group that this machine is ready for the event, or that a required hook failed.

        The last signal counts.
        """

    def members(self, event: Event) -> GroupMembers:
        """Return the machines that are alive, ready and failed, by normalized name."""

    def forget(self, event: str) -> None:
        """Remove what was stored for an event that is over."""


def create_peers(group: GroupSettings, name: str) -> PeerDirectory:
    """Return the peer directory that the configuration selects."""
    if group.folder:
        return SharedFolder(Path(group.folder), name)
    from fairwarning.guest.agent.kubernetes import KubernetesNodes  # noqa: PLC0415  (an optional dependency)

    return KubernetesNodes(name)


class _Silence:
    """How long the machines of an event have been silent, by the clock of this machine.

    The time counts from the last sign of life, or from the first query. A pause between queries
    proves nothing: it starts again.
    """

    def __init__(self) -> None:
        self._signs: dict[str, dict[str, tuple[object, float]]] = {}  # by event and machine
        self._asked_at = float("-inf")

    def alive(self, event: str, signs: Mapping[str, object], began: float) -> set[str]:
        """Return the machines that are alive. A sign of life differs from None and the last."""
        if began - self._asked_at > ALIVE_SECONDS:
            self.restart()
        last = self._signs.setdefault(event.upper(), {})
        for name, sign in signs.items():
            if name not in last or (sign is not None and sign != last[name][0]):
                last[name] = (sign, began)
        self._asked_at = time.monotonic()
        return {name for name in signs if began - last[name][1] < ALIVE_SECONDS}

    def restart(self) -> None:
        """Count the silence of all machines from the next query."""
        self._signs = {}

    def forget(self, event: str) -> None:
        """Drop an event."""
        self._signs.pop(event.upper(), None)


class _Wish(Enum):
    """What the files of this machine are to say about an event."""

    READY = "ready"
    FAILED = "failed"
    FORGOTTEN = "forgotten"


class SharedFolder:
    """A shared folder with one file for a machine's heartbeat and one for its readiness or failure.

    They are in the subfolders `alive` and `events/ID`; anything else in it is not ours.
    Only changes of modification times count, so the machines' clocks may differ. `signal` and
    `forget` only store the wish. The file work follows with the next heartbeat, in its own thread,
    because a network folder may hang.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._alive = folder / "alive"
        self._events = folder / "events"
        self._name = normalize_name(name)
        self._lock = threading.Lock()
        self._wishes: dict[str, _Wish] = {}  # by event
        self._silence = _Silence()
        self._working: threading.Thread | None = None
        self._cleaned_at = float("-inf")

    def heartbeat(self) -> None:
        """Write this machine's files; raise `OSError` if the folder fails or hangs."""
        self._call(self._write_files)

    def signal(self, event: Event, *, ready: bool) -> None:
        """Have the next heartbeat create the file that says so."""
        self._wish(event.id, _Wish.READY if ready else _Wish.FAILED)

    def _wish(self, event: str, wish: _Wish) -> None:
        with self._lock:
            self._wishes[event.upper()] = wish

    def members(self, event: Event) -> GroupMembers:
        """Read the files of all machines; raise `OSError` if the folder fails or hangs."""
        began = time.monotonic()
        try:
            signs, ready, failed = self._call(lambda: self._read_files(event))
        except OSError:
            self._silence.restart()  # the other machines may have failed to write as well
            raise
        alive = self._silence.alive(event.id, signs, began)
        return GroupMembers(frozenset(alive | {self._name}), frozenset(ready), frozenset(failed))

    def forget(self, event: str) -> None:
        """Have the next heartbeat delete this machine's files of an event."""
        self._wish(event, _Wish.FORGOTTEN)
        self._silence.forget(event)

    def _call(self, work: Callable[[], T]) -> T:
        """Return the result of file work; do not begin it while earlier work hangs."""
        results: list[T] = []
        errors: list[OSError] = []

        def run() -> None:
            try:
                results.append(work())
            except OSError as error:
                errors.append(error)

        if not self._is_working():
            thread = threading.Thread(target=run, name="shared folder", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                raise OSError(f"cannot start a thread: {error}") from error
            self._working = thread
            thread.join(_FOLDER_SECONDS)
        if errors:
            raise errors[0]
        if not results:
            raise TimeoutError(f"the shared folder {self._folder} does not respond")
        return results[0]

    def _is_working(self) -> bool:
        if self._working is not None:
            self._working.join(_FOLDER_SECONDS)
        return self._working is not None and self._working.is_alive()

    def _write_files(self) -> None:
        self._alive.mkdir(parents=True, exist_ok=True)
        own = self._alive / _file_name(self._name)
        own.touch()
        if time.monotonic() - self._cleaned_at > _CLEAN_SECONDS:
            self._cleaned_at = time.monotonic()
            self._remove_machines(own.stat().st_mtime - _DELETED_SECONDS)
        with self._lock:
            wishes = dict(self._wishes)
        errors = [error for item in wishes.items() if (error := self._try_to_fulfil(*item))]
        if errors:
            raise errors[0]

    def _try_to_fulfil(self, event: str, wish: _Wish) -> OSError | None:
        """Write the files of one event; return the error, which concerns no other event."""
        try:
            self._fulfil(self._event_folder(event), wish)
        except OSError as error:
            return error
        with self._lock:
            if wish is self._wishes[event] is _Wish.FORGOTTEN:
                del self._wishes[event]
        return None

    def _remove_machines(self, before: float) -> None:
        """Remove the files of machines that are silent since then, by the clock of the folder.

        They were probably deleted. One that comes back writes its files again.
        """
        for sign in self._alive.iterdir():
            modified = _modified(sign)
            if modified is None or modified >= before:
                continue
            for folder in self._events.glob("*"):  # none if there never was an event
                (folder / sign.name).unlink(missing_ok=True)
                (folder / f"{sign.name}.failed").unlink(missing_ok=True)
                with suppress(OSError):  # it has files of other machines
                    folder.rmdir()
            sign.unlink(missing_ok=True)

    def _fulfil(self, folder: Path, wish: _Wish) -> None:
        """Create this machine's file for an event, and delete the other, or delete both."""
        files = {
            _Wish.READY: folder / _file_name(self._name),
            _Wish.FAILED: folder / _failed_name(self._name),
        }
        if wish in files:
            folder.mkdir(parents=True, exist_ok=True)
            files[wish].touch()
        for kind, path in files.items():
            if kind is not wish:
                path.unlink(missing_ok=True)
        with suppress(OSError):  # it has files, or never existed
            folder.rmdir()

    def _read_files(self, event: Event) -> tuple[dict[str, float | None], set[str], set[str]]:
        names = [normalize_name(resource) for resource in event.resources]
        folder = self._event_folder(event.id)
        signs = {name: _modified(self._alive / _file_name(name)) for name in names}
        ready = {name for name in names if _modified(folder / _file_name(name)) is not None}
        failed = {name for name in names if _modified(folder / _failed_name(name)) is not None}
        return signs, ready, failed

    def _event_folder(self, event: str) -> Path:
        return self._events / _file_name(event.upper())


def _file_name(name: str) -> str:
    return quote(name, safe="").replace(".", "%2E")  # a name may be `..`


def _failed_name(name: str) -> str:
    return f"{_file_name(name)}.failed"  # no machine's own file name has a dot


def _modified(path: Path) -> float | None:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return None
