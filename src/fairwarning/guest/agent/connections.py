"""HTTP connections of hooks, peers and notifications. Proxies and redirects are ignored."""

from __future__ import annotations

import http.client
import ssl
from http import HTTPStatus
from urllib.parse import urlsplit


def connect(url: str, seconds: float) -> http.client.HTTPConnection:
    """Return a connection for a URL, not yet open, with a timeout for each step."""
    parts = urlsplit(url)
    if not parts.hostname:
        raise http.client.InvalidURL("it has no host")
    if parts.scheme == "https":
        context = ssl.create_default_context()
        return http.client.HTTPSConnection(
            parts.hostname, parts.port, timeout=seconds, context=context
        )
    return http.client.HTTPConnection(parts.hostname, parts.port, timeout=seconds)


def request_path(url: str) -> str:
    """Return the path and the query of a URL."""
    parts = urlsplit(url)
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def is_success(status: int) -> bool:
    """Whether a request was accepted."""
    return status // 100 == 2  # noqa: PLR2004  (all 2xx)


def is_transient(status: int) -> bool:
    """Whether the same request may be accepted later."""
    retried = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS}
    return status in retried or status >= HTTPStatus.INTERNAL_SERVER_ERROR
