"""Key files: written atomically, and readable only by their owner from the start.

`tokens` and the certificates of `arm` define the contents.
"""

import os
import secrets
import shlex
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fairwarning.core.errors import Refused

OWNER_ONLY = 0o600
_FOLDER_OWNER_ONLY = 0o700


def read(path: Path) -> bytes:
    """Return the contents of a key file; refuse a file that other users can read.

    A missing file raises `FileNotFoundError`: only the caller knows how to create it.
    """
    with _refuse_os_errors(path), path.open("rb") as file:
        _check_mode(path, os.fstat(file.fileno()))
        return file.read()


def check(path: Path) -> bool:
    """Whether a key file exists; refuse a file that other users can read, as `read` does."""
    try:
        with _refuse_os_errors(path):
            _check_mode(path, path.stat())
    except FileNotFoundError:
        return False
    return True


def write(path: Path, content: bytes, mode: int = OWNER_ONLY) -> None:
    """Replace a file atomically."""
    with _temporary_file(path, content, mode) as new:
        new.replace(path)
        _sync(path.parent)


def write_first(path: Path, content: bytes, mode: int = OWNER_ONLY) -> bool:
    """Create a file unless it exists; True if this call created it, even among concurrent calls."""
    with _temporary_file(path, content, mode) as new:
        try:
            os.link(new, path)
        except FileExistsError:
            return False
        _sync(path.parent)
        return True


@contextmanager
def _temporary_file(path: Path, content: bytes, mode: int) -> Iterator[Path]:
    """Write the content to a temporary file beside `path`; delete it afterwards."""
    new = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    with _refuse_os_errors(path):
        path.parent.mkdir(_FOLDER_OWNER_ONLY, parents=True, exist_ok=True)
        try:
            handle = os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, OWNER_ONLY)
            with open(handle, "wb") as file:  # noqa: PTH123  (Path.open takes no descriptor)
                os.fchmod(handle, mode)
                file.write(content)
                file.flush()
                os.fsync(handle)
            yield new
        finally:
            new.unlink(missing_ok=True)


def _sync(folder: Path) -> None:
    """Make the directory entries of a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _check_mode(path: Path, status: os.stat_result) -> None:
    if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        protect = shlex.join(["chmod", "600", str(path)])
        text = (
            f"users other than its owner can access {path}; run `{protect}`,"
            " or delete it to get a new one if another user may have read it"
        )
        raise Refused("KeyExposed", text)


@contextmanager
def _refuse_os_errors(path: Path) -> Iterator[None]:
    """Turn an `OSError` into a `Refused` that names the file."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        text = f"cannot use the key file {path}: {error.strerror}; fix that and start again"
        raise Refused("CannotUseKey", text) from error
