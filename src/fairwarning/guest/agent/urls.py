"""URLs in the agent's configuration: checked and made ASCII when the configuration is read.

Credentials leave the URL, which may be logged, and become the value of an Authorization header.
"""

from __future__ import annotations

import base64
import re
from urllib.parse import SplitResult, quote, unquote, urlsplit

ALLOWED = "http://HOST:PORT/PATH or https://USER:PASSWORD@HOST/PATH"

_HOST_CHARACTERS = 253  # of DNS
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_PATH_CHARACTERS = "/:@!$&'()*+,;=~%"
_BARE_PERCENT = re.compile("%(?![0-9A-Fa-f]{2})")


def parse_url(text: str) -> tuple[str, str]:
    """Return a URL in ASCII and the value of its Authorization header, which may be empty.

    Raise `ValueError` with the reason, which never contains credentials.
    """
    if any(ord(char) < ord(" ") or char == "\x7f" for char in text):
        raise ValueError("it has a control character")
    parts = _split(text)
    if parts.scheme not in {"http", "https"}:
        raise ValueError("it does not begin with http:// or https://")
    if "#" in text:
        raise ValueError("it has a fragment; write # as %23")
    user_info, at, address = parts.netloc.rpartition("@")
    host, port = _host(parts), _port(parts)
    if address.endswith(":"):
        raise ValueError("the port is missing after the colon")
    query = f"?{_escape(parts.query, '?')}" if parts.query else ""
    url = f"{parts.scheme}://{host}{port}{_escape(parts.path)}{query}"
    return url, _authorization(user_info) if at else ""


def _split(text: str) -> SplitResult:
    try:
        return urlsplit(text)
    except ValueError:
        raise ValueError("the host is not a valid name or address") from None


def _host(parts: SplitResult) -> str:
    host = parts.hostname or ""
    if not host:
        raise ValueError("it has no host")
    if "[" in parts.netloc.rpartition("@")[2]:
        import ipaddress  # noqa: PLC0415  (few agents need it)

        try:
            ipaddress.IPv6Address(host)
        except ValueError:
            raise ValueError("the host is not a valid name or address") from None
        return f"[{host}]"
    try:
        name = host.encode("ascii" if host.isascii() else "idna").decode("ascii").lower()
    except UnicodeError:
        raise ValueError("the host is not a valid international name") from None
    labels = name.removesuffix(".").split(".")
    if len(name) > _HOST_CHARACTERS or not all(map(_LABEL.fullmatch, labels)):
        raise ValueError("the host may have only letters, digits, hyphens and dots")
    return name


def _port(parts: SplitResult) -> str:
    try:
        port = parts.port
    except ValueError:
        port = 0
    if port == 0:
        raise ValueError("the port is not a number from 1 to 65535")
    return "" if port is None else f":{port}"


def _authorization(user_info: str) -> str:
    user, _, password = user_info.partition(":")
    user, password = unquote(user), unquote(password)
    if not user or ":" in user or any(not char.isprintable() for char in user + password):
        raise ValueError("write credentials as USER:PASSWORD@, without colons in USER")
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode("ascii")


def _escape(text: str, more: str = "") -> str:
    """Percent-encode what a request line must not have; keep what is encoded."""
    return quote(_BARE_PERCENT.sub("%25", text), safe=_PATH_CHARACTERS + more)
