"""The HTTP request of a hook: a POST, retried after transient failures."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress

from fairwarning.guest.agent.connections import connect, is_success, is_transient, request_path
from fairwarning.guest.session import HttpResponse, retry_after

CONNECT_SECONDS = 5.0
_SPARE_SECONDS = 1.0  # added to the socket timeout, since `hooks` enforces the deadline
_BODY_SECONDS = 1.0  # for the body of an error
_BODY_BYTES = 4096
FIRST_PAUSE_SECONDS = 0.25
LONGEST_PAUSE_SECONDS = 10.0


class HookRequest:
    """An HTTP request, retried after transient failures. Proxies and redirects are ignored."""

    grace_seconds = killed_seconds = 0.0

    def __init__(self, url: str, body: bytes, headers: Mapping[str, str], deadline: float) -> None:
        """Prepare a request; `deadline` is of the monotonic clock."""
        self._url = url
        self._body = body
        self._headers = {**headers, "Content-Length": str(len(body)), "Connection": "close"}
        self._deadline = deadline
        self._output = ""  # the response to the last failure, then the failure
        self._cancelled = threading.Event()
        self._connection: http.client.HTTPConnection | None = None

    def run(self) -> str:
        """Send the request until a response is final; return the failure or an empty string."""
        pause = FIRST_PAUSE_SECONDS
        while True:
            wait, body = 0.0, ""
            try:
                response, phrase = self._post()
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
            if not self._cancelled.is_set():
                self._output = f"{body}\n{error_message}"
            if self._cancelled.wait(min(max(pause, wait), LONGEST_PAUSE_SECONDS)):
                return error_message
            pause *= 2

    def _post(self) -> tuple[HttpResponse, str]:
        self._connection = connection = connect(self._url, CONNECT_SECONDS)
        try:
            connection.putrequest("POST", request_path(self._url))
            for name, value in self._headers.items():
                connection.putheader(name, value)
            connection.connect()
            if self._cancelled.is_set():  # a slow name server must not lead to a late request
                raise TimeoutError("it took too long to connect")
            connection.endheaders(self._body)
            left, current = max(0.0, self._deadline - time.monotonic()), connection.sock
            current.settimeout(left + _SPARE_SECONDS)
            response = connection.getresponse()
            headers = {name.lower(): value for name, value in response.getheaders()}
            body = b"" if is_success(response.status) else _first_part(response, current)
            return HttpResponse(response.status, headers, body), response.reason
        finally:
            connection.close()

    def output(self) -> str:
        """Return the last failure and what the server said."""
        return self._output

    def terminate(self) -> None:
        """Close the connection; send nothing more."""
        self._cancelled.set()
        current: socket.socket | None = getattr(self._connection, "sock", None)
        if current is not None:
            with suppress(OSError):
                current.shutdown(socket.SHUT_RDWR)

    def kill(self) -> None:
        """Do nothing: `terminate` has closed the connection."""


def _first_part(response: http.client.HTTPResponse, connection: socket.socket) -> bytes:
    """Return what has arrived of a body; it often says why the server refused the request."""
    connection.settimeout(_BODY_SECONDS)
    try:
        return response.read1(_BODY_BYTES)
    except (OSError, ValueError, http.client.HTTPException):
        return b""
