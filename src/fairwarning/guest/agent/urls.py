"""URLs in the agent's configuration: checked and made ASCII when the configuration is read.

Credentials leave the URL, which may be logged, and become the value of an Authorization header.
"""

from __future__ import annotations

import base64
import re
from urllib.parse import quote, unquote, urlsplit

ALLOWED = "http://HOST:PORT/PATH or https://USER:PASSWORD@HOST/PATH"

_HOST = re.compile(r"[a-z0-9_.-]{1,253}|[0-9a-f]*:[0-9a-f:.]*(%[A-Za-z0-9_.-]+)?")
"""A name, or an address without its brackets, perhaps with a zone."""
_PATH_CHARACTERS = "/:@!$&'()*+,;=~%"
_BARE_PERCENT = re.compile("%(?![0-9A-Fa-f]{2})")


def parse_url(text: str) -> tuple[str, str]:
    """Return a URL in ASCII and the value of its Authorization header, which may be empty.

    Raise `ValueError` with the reason, which never contains credentials.
    """
    if any(ord(char) < ord(" ") or char == "\x7f" for char in text):
        raise ValueError("it has a control character")
    try:
        parts = urlsplit(text)
        port = parts.port
        host = (parts.hostname or "").encode("idna").decode("ascii")
    except ValueError:  # also of the encoding of names
        raise ValueError("its host or its port is not valid") from None
    if parts.scheme not in {"http", "https"}:
        raise ValueError("it does not begin with http:// or https://")
    if "#" in text:
        raise ValueError("it has a fragment; write # as %23")
    if not _HOST.fullmatch(host) or port == 0:
        raise ValueError("its host or its port is not valid")
    user_info, at, _ = parts.netloc.rpartition("@")
    host = f"[{host}]" if ":" in host else host
    query = f"?{_escape(parts.query, '?')}" if parts.query else ""
    url = f"{parts.scheme}://{host}{f':{port}' if port else ''}{_escape(parts.path)}{query}"
    return url, _authorization(user_info) if at else ""


def _authorization(user_info: str) -> str:
    user, _, password = user_info.partition(":")
    user, password = unquote(user), unquote(password)
    if not user or ":" in user or any(not char.isprintable() for char in user + password):
        raise ValueError("write credentials as USER:PASSWORD@, without colons in USER")
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode("ascii")


def _escape(text: str, more: str = "") -> str:
    """Percent-encode what a request line must not have; keep what is encoded."""
    return quote(_BARE_PERCENT.sub("%25", text), safe=_PATH_CHARACTERS + more)
