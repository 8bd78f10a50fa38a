"""Contexts: services that the user has given names, with the token and the CA of each.

They are in one file in the user's configuration folder, which only its owner can read.
"""

import fcntl
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairwarning.core.errors import FairwarningError, NotFound, Refused, Unavailable
from fairwarning.service import keyfiles

_OWNER_ONLY = 0o700
_KEYS = {"server", "token", "ca"}


@dataclass(frozen=True)
class NamedService:
    """What a context stores: the URL of a console, a token, and the CA to trust."""

    server: str
    token: str = field(default="", repr=False)
    ca: str = ""  # PEM; empty: trust the certificates that the system trusts


@dataclass
class Contexts:
    """All contexts by name, and the current one; "" if there is none."""

    current: str = ""
    services: dict[str, NamedService] = field(default_factory=dict)

    def get(self, name: str) -> NamedService:
        """Return the service of a context; the error lists the names."""
        if name not in self.services:
            names = ", ".join(sorted(self.services)) or "none"
            text = f"there is no context {name!r}; the contexts are: {names}"
            raise NotFound("UnknownContext", f"{text}. Add one with `fairwarning context add`")
        return self.services[name]


def config_folder() -> Path | None:
    """Return the user's configuration folder; None if the user has no home."""
    base = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    if not base.is_absolute():
        try:
            home = Path.home()
        except RuntimeError:
            return None
        base = home / ("Library/Application Support" if sys.platform == "darwin" else ".config")
    return base / "fairwarning"


def file_path() -> Path:
    """Return the path of the file with the contexts."""
    folder = config_folder()
    if folder is None:
        text = "you have no home folder to keep contexts in; set XDG_CONFIG_HOME to a folder"
        raise Unavailable("NoHome", text)
    return folder / "contexts.json"


def read() -> Contexts:
    """Read the contexts; raise `Refused` if the file is broken or other users can read it."""
    if config_folder() is None:
        return Contexts()
    path = file_path()
    try:
        content = keyfiles.read(path)
    except FileNotFoundError:
        return Contexts()
    try:
        return _parse(json.loads(content))
    except (ValueError, TypeError) as error:
        text = (
            f"{path} is broken ({error}); correct it, or delete it and add the contexts again"
            " with `fairwarning context add`"
        )
        raise Refused("BadContexts", text) from error


def current_name() -> str:
    """Return the name of the current context; "" if there is none or the file is broken."""
    with suppress(FairwarningError):
        return read().current
    return ""


@contextmanager
def changing() -> Iterator[Contexts]:
    """Yield the contexts to change them; they are stored at the end, unless there is an error."""
    path = file_path()
    try:
        path.parent.mkdir(_OWNER_ONLY, parents=True, exist_ok=True)
        lock = os.open(path.with_suffix(".lock"), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        text = f"cannot keep contexts in {path.parent}: {error.strerror}; fix that and try again"
        raise Unavailable("CannotWrite", text) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        contexts = read()
        yield contexts
        keyfiles.write(path, json.dumps(_to_json(contexts), indent=1).encode() + b"\n")
    finally:
        os.close(lock)


def _parse(raw: Any) -> Contexts:  # noqa: ANN401  (JSON)
    """Return the contexts in the JSON of the file; raise `ValueError` at what does not belong."""
    if not isinstance(raw, dict) or not isinstance(raw.get("contexts"), dict):
        raise ValueError('it has no object "contexts"')  # noqa: TRY004  (of a file, not of a type)
    services = {name: _service(name, values) for name, values in raw["contexts"].items()}
    current = raw.get("current", "")
    if current and current not in services:
        raise ValueError(f"its current context {current!r} does not exist")
    return Contexts(current, services)


def _service(name: str, values: Any) -> NamedService:  # noqa: ANN401  (JSON)
    known = isinstance(values, dict) and set(values) <= _KEYS and "server" in values
    if not known or not all(isinstance(value, str) for value in values.values()):
        raise ValueError(f"the context {name!r} must have a server, a token and a ca")
    return NamedService(**values)


def _to_json(contexts: Contexts) -> dict[str, Any]:
    services = {name: vars(service) for name, service in sorted(contexts.services.items())}
    return {"current": contexts.current, "contexts": services}
