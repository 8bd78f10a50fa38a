"""HTTP requests of hooks and notifications. Proxies and redirects are ignored."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from http import HTTPStatus
from urllib.parse import urlsplit

from fairwarning.guest.session import HttpResponse, retry_after

CONNECT_SECONDS = 5.0
FIRST_PAUSE_SECONDS = 0.25
LONGEST_PAUSE_SECONDS = 10.0
_SPARE_SECONDS = 1.0  # added to the timeout of a socket, since the caller enforces the deadline
_BODY_SECONDS = 1.0  # for the body of an error
_BODY_BYTES = 4096


def connect(url: str, seconds: float) -> http.client.HTTPConnection:
    """Return a connection for a URL, not yet open, with a timeout for each step."""
    parts = urlsplit(url)
    if not parts.hostname:
        raise http.client.InvalidURL("it has no host")
    if parts.scheme == "https":
        context = ssl.create_default_context()
        return http.client.HTTPSConnection(
            parts.hostname, parts.port or 443, timeout=seconds, context=context
        )
    # Without a port, the library would take the end of an IPv6 address for one.
    return http.client.HTTPConnection(parts.hostname, parts.port or 80, timeout=seconds)


class HttpPost:
    """A POST, which can be sent again, and cancelled by another thread."""

    def __init__(self, url: str, headers: Mapping[str, str], body: bytes) -> None:
        self._url = url
        self._headers = {**headers, "Content-Length": str(len(body)), "Connection": "close"}
        self._body = body
        self._connection: http.client.HTTPConnection | None = None
        self.cancelled = threading.Event()

    def send(self, connect_seconds: float, deadline: float) -> tuple[HttpResponse, str]:
        """Return the response and its phrase; of a body only a part, and that of an error only.

        Raise `OSError`, `HTTPException` or `ValueError`. The deadline is of the monotonic clock.
        """
        self._connection = connection = connect(self._url, connect_seconds)
        parts = urlsplit(self._url)
        try:
            path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            connection.putrequest("POST", path)
            for name, value in self._headers.items():
                connection.putheader(name, value)
            connection.connect()
            if self.cancelled.is_set():  # a slow name server must not lead to a late request
                raise TimeoutError("it took too long to connect")
            connection.endheaders(self._body)
            left, current = max(0.0, deadline - time.monotonic()), connection.sock
            current.settimeout(left + _SPARE_SECONDS)
            response = connection.getresponse()
            headers = {name.lower(): value for name, value in response.getheaders()}
            body = b"" if is_success(response.status) else _first_part(response, current)
            return HttpResponse(response.status, headers, body), response.reason
        finally:
            connection.close()

    def cancel(self) -> None:
        """Close the connection; send nothing more."""
        self.cancelled.set()
        current: socket.socket | None = getattr(self._connection, "sock", None)
        if current is not None:
            with suppress(OSError):
                current.shutdown(socket.SHUT_RDWR)


def _first_part(response: http.client.HTTPResponse, connection: socket.socket) -> bytes:
    """Return what has arrived of a body; it often says why the server refused the request."""
    connection.settimeout(_BODY_SECONDS)
    try:
        return response.read1(_BODY_BYTES)
    except (OSError, ValueError, http.client.HTTPException):
        return b""


def is_success(status: int) -> bool:
    """Whether a request was accepted."""
    return status // 100 == 2  # noqa: PLR2004  (all 2xx)


def is_transient(status: int) -> bool:
    """Whether the same request may be accepted later."""
    retried = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS}
    return status in retried or status >= HTTPStatus.INTERNAL_SERVER_ERROR


# --- Hooks ----------------------------------------------------------------------------------------


class HookRequest:
    """An HTTP request, retried after transient failures. Proxies and redirects are ignored."""

    grace_seconds = killed_seconds = 0.0

    def __init__(self, url: str, body: bytes, headers: Mapping[str, str], deadline: float) -> None:
        """Prepare a request; `deadline` is of the monotonic clock."""
        self._post = HttpPost(url, headers, body)
        self._deadline = deadline
        self._output = ""  # the response to the last failure, then the failure

    def run(self) -> str:
        """Send the request until a response is final; return the failure or an empty string."""
        pause = FIRST_PAUSE_SECONDS
        while True:
            wait, body = 0.0, ""
            try:
                response, phrase = self._post.send(CONNECT_SECONDS, self._deadline)
            except http.client.InvalidURL as error:
                return f"the URL is invalid: {error}"
            except (OSError, http.client.HTTPException) as error:
                error_message = f"there was no response: {str(error) or type(error).__name__}"
            except ValueError as error:
                return f"the URL is invalid: {error}"
            else:
                self._output = body = response.body.decode("utf-8", "replace")
                if is_success(response.status):
                    return ""
                error_message = f"the response was {response.status} {phrase}"
                wait = retry_after(response)
                if not is_transient(response.status):
                    return error_message
            if not self._post.cancelled.is_set():
                self._output = f"{body}\n{error_message}"
            if self._post.cancelled.wait(min(max(pause, wait), LONGEST_PAUSE_SECONDS)):
                return error_message
            pause *= 2

    def output(self) -> str:
        """Return the last failure and what the server said."""
        return self._output

    def terminate(self) -> None:
        """Close the connection; send nothing more."""
        self._post.cancel()

    def kill(self) -> None:
        """Do nothing: `terminate` has closed the connection."""
