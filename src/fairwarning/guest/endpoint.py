"""The endpoint's address (G2): from the caller, from the environment, or Azure's."""

from __future__ import annotations

import os
from dataclasses import dataclass
from urllib.parse import quote, unquote, urlsplit

from fairwarning.core.errors import Refused

LINK_LOCAL = "http://169.254.169.254"
VARIABLE = "FAIRWARNING_ENDPOINT"
_PORT = 80


@dataclass(frozen=True)
class EndpointAddress:
    """The address of an endpoint: a host and a port, or the path of a Unix socket."""

    host: str = ""
    port: int = _PORT
    socket: str = ""

    @property
    def authority(self) -> str:
        """The host and the port, as in a URL; empty for a Unix socket."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}{'' if self.port == _PORT else f':{self.port}'}"

    def next_step(self) -> str:
        """Return what to do when there is no answer at this address."""
        if str(self) == LINK_LOCAL:
            return (
                f"outside Azure, set {VARIABLE} to the URL of a machine: `fairwarning up` prints it"
            )
        return "check that the service runs and that this is the URL of a machine"

    def __str__(self) -> str:
        if self.socket:
            return f"unix:{quote(self.socket)}"
        return f"http://{self.authority}"


def endpoint(configured: str | None = None) -> EndpointAddress:
    """Return the configured endpoint, or the environment's, or Azure's, in this order."""
    text = configured or os.environ.get(VARIABLE) or LINK_LOCAL
    if text.startswith("unix:"):
        path = unquote(text.removeprefix("unix:").removeprefix("//"))
        if path:
            return EndpointAddress(socket=path)
    else:
        try:
            parts = urlsplit(text if "//" in text else f"http://{text}")
            host = (parts.hostname or "").strip()
            if not host.isascii():
                host = host.encode("idna").decode("ascii")
            if parts.scheme == "http" and host and not parts.query and parts.path in {"", "/"}:
                return EndpointAddress(host, parts.port or _PORT)
        except ValueError:
            pass
    shown = f"{text[:80]!r}" + ("" if configured else f" (from {VARIABLE})")
    raise Refused(
        "BadEndpoint", f"{shown} is not an endpoint: use http://HOST[:PORT] or unix:/PATH"
    )
