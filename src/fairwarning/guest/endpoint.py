"""Where the endpoint is (G2): as the caller says, as the environment says, or as on Azure."""

import os
from dataclasses import dataclass
from urllib.parse import quote, unquote, urlsplit

from fairwarning.core.errors import Refused

LINK_LOCAL = "http://169.254.169.254"
VARIABLE = "FAIRWARNING_ENDPOINT"
_PORT = 80


@dataclass(frozen=True, slots=True)
class EndpointAddress:
    """A place to ask at: a host and a port, or the path of a Unix socket."""

    host: str = ""
    port: int = _PORT
    socket: str = ""
    base: str = ""  # a path before every other

    def __str__(self) -> str:
        if self.socket:
            return f"unix:{quote(self.socket)}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}{'' if self.port == _PORT else f':{self.port}'}{self.base}"


def endpoint(given: str | None = None) -> EndpointAddress:
    """The endpoint to use: what is given, else what the environment names, else Azure's."""
    text = given or os.environ.get(VARIABLE) or LINK_LOCAL
    if text.startswith("unix:"):
        path = unquote(text.removeprefix("unix:").removeprefix("//"))
        if path:
            return EndpointAddress(socket=path)
    else:
        try:
            parts = urlsplit(text if "//" in text else f"http://{text}")
            host = (parts.hostname or "").strip()
            if parts.scheme == "http" and host and not parts.query:
                return EndpointAddress(host, parts.port or _PORT, base=parts.path.rstrip("/"))
        except ValueError:
            pass
    shown = f"{text[:80]!r}" + ("" if given else f" (of {VARIABLE})")
    raise Refused("BadEndpoint", f"{shown} is no endpoint: write http://HOST[:PORT] or unix:/PATH")
