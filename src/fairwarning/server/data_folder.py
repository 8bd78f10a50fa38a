"""The data folder of a service, locked while the service is up."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fairwarning.core.errors import Refused, Unavailable
from fairwarning.server.ready import READY

_OWNER_ONLY = 0o700


@contextmanager
def lock(folder: Path, *, memory: bool) -> Iterator[None]:
    """Lock the folder; an in-memory service that created it removes its files again."""
    created = not folder.exists()
    try:
        folder.mkdir(_OWNER_ONLY, parents=True, exist_ok=True)
        descriptor = os.open(folder / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Refused("CannotUseFolder", f"cannot use data folder {folder}: {error}") from error
    try:
        _acquire(descriptor, folder)
        try:
            yield
        finally:  # only with the lock: these are the files of the service that holds it
            (folder / READY).unlink(missing_ok=True)
            if memory and created:
                _clear(folder)
    finally:
        os.close(descriptor)


def _clear(folder: Path) -> None:
    """Remove the files of the service, and the folder if it is then empty."""
    for name in ("lock", "signing.key", "ca.pem", "ca.key", "server.pem"):
        (folder / name).unlink(missing_ok=True)
    for name in ("attached", "machines", "azure-cli"):
        shutil.rmtree(folder / name, ignore_errors=True)
    with suppress(OSError):
        folder.rmdir()


def _acquire(descriptor: int, folder: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        text = f"a service is already running in {folder}; stop it, or use another --data folder"
        raise Unavailable("AlreadyUp", text) from error
