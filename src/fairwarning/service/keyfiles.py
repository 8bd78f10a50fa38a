"""Key files: whole or not there, and from their first instant on for their owner's eyes only.

What is in them is the business of whoever keeps a key: `tokens`, and the certificates of `arm`.
"""

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fairwarning.core.errors import Refused

OWNER_ONLY = 0o600
_FOLDER_OWNER_ONLY = 0o700


def read(path: Path) -> bytes:
    """What is in a key file; one that others can read is refused.

    A file that is missing is Python's own error, for only the caller knows how to make it.
    """
    with _refusing(path), path.open("rb") as file:
        _check_mode(path, os.fstat(file.fileno()))
        return file.read()


def check(path: Path) -> bool:
    """Whether a key file is there; as `read`, one that others can read is refused."""
    try:
        with _refusing(path):
            _check_mode(path, path.stat())
    except FileNotFoundError:
        return False
    return True


def write(path: Path, content: bytes, mode: int = OWNER_ONLY) -> None:
    """Put a file in the place of what was there, all of it or nothing."""
    with _written(path, content, mode) as new:
        new.replace(path)
        _sync(path.parent)


def write_first(path: Path, content: bytes, mode: int = OWNER_ONLY) -> bool:
    """Make a file unless there is one; of several who try at once, one is told that it did."""
    with _written(path, content, mode) as new:
        try:
            os.link(new, path)
        except FileExistsError:
            return False
        _sync(path.parent)
        return True


@contextmanager
def _written(path: Path, content: bytes, mode: int) -> Iterator[Path]:
    """The content in a file beside the one that is meant, gone afterwards."""
    new = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    with _refusing(path):
        path.parent.mkdir(_FOLDER_OWNER_ONLY, parents=True, exist_ok=True)
        try:
            handle = os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, OWNER_ONLY)
            with open(handle, "wb") as file:  # noqa: PTH123  (a path cannot be made for us alone)
                os.fchmod(handle, mode)
                file.write(content)
                file.flush()
                os.fsync(handle)
            yield new
        finally:
            new.unlink(missing_ok=True)


def _sync(folder: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _check_mode(path: Path, found: os.stat_result) -> None:
    if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        text = (
            f"others than its owner can use {path}; run `chmod 600 {path}`,"
            " or delete it to get a new one if somebody may have read it"
        )
        raise Refused("KeyExposed", text)


@contextmanager
def _refusing(path: Path) -> Iterator[None]:
    """Say in our words which file the system keeps from us."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        text = f"cannot use the key file {path}: {error.strerror}; mend that and start again"
        raise Refused("CannotUseKey", text) from error
