"""One persistent connection to the endpoint, for the synchronous client.

A request ends by its timeout, whatever the server does. Proxy settings are ignored.
"""

from __future__ import annotations

import os
import socket
import time
from typing import Any

from fairwarning.guest.endpoint import EndpointAddress
from fairwarning.guest.http_message import RECEIVE_BYTES, ResponseParser, serialize
from fairwarning.guest.session import HttpRequest, HttpResponse

CONNECT_SECONDS = 5.0


class EndpointConnection:
    """A socket that is opened on use, by the process that uses it."""

    def __init__(self, address: EndpointAddress) -> None:
        self._address = address
        self._socket: socket.socket | None = None
        self._process = 0

    def close(self) -> None:
        """Close the connection; the next request opens a new one."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _set_socket(self, connected: socket.socket) -> None:
        self._socket, self._process = connected, os.getpid()

    def _is_open(self) -> bool:
        """Whether there is a connection that can be used again.

        After a fork there is none, as two processes would read each other's responses; that of the
        parent stays open. A server that has closed it, or has sent more than a response, ended it.
        """
        if self._socket is not None and (self._process != os.getpid() or _has_input(self._socket)):
            self.close()
        return self._socket is not None


def _has_input(connected: socket.socket) -> bool:
    """Whether there are bytes to receive, or the end of the connection."""
    connected.setblocking(False)  # noqa: FBT003  (as the standard library has it)
    try:
        connected.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


class HttpTransport(EndpointConnection):
    """Sends requests, one after the other."""

    def send(self, request: HttpRequest) -> HttpResponse:
        """Send a request and read the complete response within the request's timeout.

        Raise `OSError`. Only the resolution of a host name is not limited.
        """
        deadline = time.monotonic() + request.seconds
        is_reused, parser = self._is_open(), ResponseParser()
        try:
            return self._exchange(request, parser, deadline)
        except socket.timeout:  # `TimeoutError`, but another class before Python 3.10
            raise
        except OSError:
            if not is_reused or parser.has_data:
                raise
            # The idle connection was closed: retry once.
            return self._exchange(request, ResponseParser(), deadline)

    def _exchange(
        self, request: HttpRequest, parser: ResponseParser, deadline: float
    ) -> HttpResponse:
        try:
            if self._socket is None:
                self._set_socket(_connect(self._address, deadline))
            assert self._socket is not None
            data, response = serialize(self._address, request), None
            while data:
                _limit(self._socket, deadline)
                data = data[self._socket.send(data) :]
            while response is None:
                _limit(self._socket, deadline)
                response = parser.feed(self._socket.recv(RECEIVE_BYTES))
        except BaseException:
            self.close()  # leftover bytes must not be read as the next response
            raise
        if not parser.is_reusable:
            self.close()
        return response


def _connect(address: EndpointAddress, deadline: float) -> socket.socket:
    failure = OSError("the host has no address")
    for family, target in targets(address):
        connected = socket.socket(family, socket.SOCK_STREAM)
        try:
            _limit(connected, min(deadline, time.monotonic() + CONNECT_SECONDS))
            connected.connect(target)
        except OSError as error:
            connected.close()
            failure = error
        except BaseException:
            connected.close()
            raise
        else:
            return connected
    raise failure


def targets(address: EndpointAddress) -> list[tuple[int, Any]]:
    """Return the addresses to try, one after the other, each with its family."""
    if address.socket:
        family = getattr(socket, "AF_UNIX", None)
        if family is None:
            raise OSError("this system does not support Unix sockets")
        return [(family, address.socket)]
    try:
        addresses = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except ValueError as error:  # of the encoding of names
        raise OSError(f"{address.host!r} is not a host name") from error
    return [(family, target) for family, _, _, _, target in addresses]


def _limit(connected: socket.socket, deadline: float) -> None:
    """Let the next operation end by a deadline of `time.monotonic`."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise socket.timeout("timed out")
    connected.settimeout(left)
