"""`up.json` in the data folder: tells other commands where the running service listens."""

import json
from pathlib import Path
from typing import NotRequired, TypedDict
from urllib.parse import quote

from fairwarning.core.errors import Refused, Unavailable
from fairwarning.service.tokens import Principal, Role

OPERATOR = Principal(name="operator", role=Role.OPERATOR)
READY = "up.json"  # in the data folder while the service is up
_NEW = ".new"  # suffix of the file while it is written


class ReadyLine(TypedDict):
    """The addresses of a running service: what `up --json` prints before the machines."""

    metadata: str
    console: str
    page: str  # URL of the console's page, with its access key
    arm: str
    subscription: str
    token: str  # the start token: an operator's, for the console and the control plane
    ca: str  # path of the CA certificate of the control plane, and of a console with TLS
    certificate: NotRequired[str]  # path of the console's own certificate, from [console]
    sockets: NotRequired[str]  # folder with a socket for each machine, from --sockets


def socket_url(ready: ReadyLine, machine: str) -> str | None:
    """Return the URL of a machine's Unix socket, as the SDK takes it; None if there is none."""
    path = Path(ready.get("sockets", ""), f"{machine}.sock")
    return f"unix:{quote(str(path))}" if "sockets" in ready and path.is_socket() else None


def write_ready(folder: Path, ready: ReadyLine) -> None:
    """Write the addresses of the service to its data folder, readable only by its owner."""
    new = (folder / READY).with_suffix(_NEW)
    new.touch(0o600)
    new.write_text(json.dumps(ready), "utf-8")
    new.replace(folder / READY)


def version_of_ready(folder: Path) -> tuple[int, int] | None:
    """Return what is different once a service has written its addresses; None without the file."""
    try:
        status = (folder / READY).stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def remove_ready(folder: Path, before: tuple[int, int] | None) -> None:
    """Remove the addresses: the service has ended.

    Keep those of another service: `before` is their version when this one took the folder.
    """
    if version_of_ready(folder) != before:
        (folder / READY).unlink(missing_ok=True)
    (folder / READY).with_suffix(_NEW).unlink(missing_ok=True)


def read_ready(folder: Path) -> ReadyLine:
    """Read the addresses of the service that runs in this folder."""
    try:
        ready: ReadyLine = json.loads((folder / READY).read_text("utf-8"))
    except PermissionError as error:
        hint = "run this as the user of the service, or name it by --server"
        text = f"you may not read {folder}; {hint}"
        raise Refused("CannotUseFolder", text) from error
    except (OSError, ValueError) as error:
        raise Unavailable("NotUp", f"no service is running in {folder}") from error
    return ready
