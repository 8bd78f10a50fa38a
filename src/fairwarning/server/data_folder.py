"""The folder of a service: its own while it is up."""

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
    """Ours alone while we run; a service in memory that made it leaves nothing of its own."""
    made = not folder.exists()
    try:
        folder.mkdir(_OWNER_ONLY, parents=True, exist_ok=True)
        descriptor = os.open(folder / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Refused("CannotUseFolder", f"cannot use the folder {folder}: {error}") from error
    try:
        _take(descriptor, folder)
        yield
    finally:
        (folder / READY).unlink(missing_ok=True)
        if memory and made:
            _clear(folder)
        os.close(descriptor)


def _clear(folder: Path) -> None:
    """Remove what a service puts there, and the folder if nothing else is in it."""
    for name in ("lock", "signing.key", "ca.pem", "ca.key", "server.pem"):
        (folder / name).unlink(missing_ok=True)
    for name in ("attached", "machines", "azure-cli"):
        shutil.rmtree(folder / name, ignore_errors=True)
    with suppress(OSError):
        folder.rmdir()


def _take(descriptor: int, folder: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        text = f"a service is up in {folder} already; stop it, or name another folder with --data"
        raise Unavailable("AlreadyUp", text) from error
