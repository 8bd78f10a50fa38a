"""The data folder of a service, locked while the service is up."""

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fairwarning.core.errors import Refused, Unavailable
from fairwarning.server.ready import remove_ready

_OWNER_ONLY = 0o700


@contextmanager
def lock(folder: Path, *, memory: bool) -> Iterator[Callable[[], None]]:
    """Lock the folder; yield a function that removes what no other process may find afterwards.

    The context calls it at the end. An in-memory service that created the folder removes it too.
    """
    check_access(folder)
    created = not folder.exists()
    try:
        folder.mkdir(_OWNER_ONLY, parents=True, exist_ok=True)
        descriptor = os.open(folder / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _cannot_use(folder, error) from error
    held = False

    def remove_files() -> None:
        if held:  # only with the lock: these are the files of the service that holds it
            remove_ready(folder)
            if memory and created:
                _clear(folder)

    try:
        _acquire(descriptor, folder)
        held = True
        try:
            yield remove_files
        finally:
            remove_files()
            held = False
    finally:
        os.close(descriptor)


def check_access(folder: Path) -> None:
    """Raise `Refused` if this user may not look into the folder."""
    try:
        if folder.exists():
            os.scandir(folder).close()
    except OSError as error:
        raise _cannot_use(folder, error) from error


def _cannot_use(folder: Path, error: OSError) -> Refused:
    text = f"cannot use data folder {folder}: {error.strerror}"
    hint = "; use another with --data, or run as the user that owns it"
    return Refused("CannotUseFolder", text + (hint if isinstance(error, PermissionError) else ""))


def _clear(folder: Path) -> None:
    """Remove the files of the service, and the folder if it is then empty."""
    for name in ("lock", "signing.key", "ca.pem", "ca.key", "server.pem"):
        (folder / name).unlink(missing_ok=True)
    for name in ("attached", "impacts", "machines", "azure-cli"):
        shutil.rmtree(folder / name, ignore_errors=True)
    with suppress(OSError):
        folder.rmdir()


def _acquire(descriptor: int, folder: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        text = f"a service is already running in {folder}; stop it, or use another --data folder"
        raise Unavailable("AlreadyUp", text) from error
