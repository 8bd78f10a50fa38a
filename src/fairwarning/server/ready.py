"""Where a service is: it says so in its data folder while it is up, for the other commands."""

import json
from pathlib import Path
from typing import TypedDict

from fairwarning.core.errors import Unavailable
from fairwarning.service.tokens import Principal, Role

OPERATOR = Principal(name="operator", role=Role.OPERATOR)
START = "start one with `fairwarning up`"
READY = "up.json"  # in the data folder while the service is up


class ReadyLine(TypedDict):
    """Where a service is: what `up --json` prints before the machines."""

    metadata: str
    console: str
    page: str  # the console's page, with the key to it
    arm: str
    subscription: str
    token: str  # an operator's, for the console and the control plane
    ca: str  # the file of the authority that vouches for the control plane


def _write(path: Path, text: str) -> None:
    """All of it or nothing, and for the owner's eyes only."""
    new = path.with_suffix(".new")
    new.touch(0o600)
    new.write_text(text, "utf-8")
    new.replace(path)


def write_ready(folder: Path, ready: ReadyLine) -> None:
    """For the other commands, which look here for the service."""
    _write(folder / READY, json.dumps(ready))


def read_ready(folder: Path) -> ReadyLine:
    """Where the service of this folder is."""
    try:
        ready: ReadyLine = json.loads((folder / READY).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise Unavailable("NotUp", f"no service is up in {folder}; {START}") from error
    return ready
