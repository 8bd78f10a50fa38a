"""HTTP over one persistent connection, for the synchronous client.

A request ends by its timeout, whatever the server does: `http.client` alone limits each receive, so
a server that sends a byte now and then could hold a request without end. It ignores proxy settings.
"""

from __future__ import annotations

import http.client
import socket
import time
from collections.abc import Iterator
from typing import Any

from fairwarning.guest.endpoint import EndpointAddress
from fairwarning.guest.session import HttpRequest, HttpResponse

CONNECT_SECONDS = 5.0
RESPONSE_BYTES = 16 * 1024 * 1024  # a document has at most a few hundred kilobytes


class HttpTransport:
    """A connection to the endpoint, opened on use."""

    def __init__(self, address: EndpointAddress) -> None:
        self._address = address
        self._connection: http.client.HTTPConnection | None = None

    def send(self, request: HttpRequest) -> HttpResponse:
        """Send a request and read the complete response within the request's timeout.

        Only the resolution of a host name is not limited.
        """
        deadline = time.monotonic() + request.seconds
        reused = self._connection is not None
        try:
            return self._exchange(request, deadline)
        except socket.timeout:  # `TimeoutError`, but another class before Python 3.10
            raise
        except (OSError, http.client.HTTPException):
            if not reused:
                raise
            return self._exchange(request, deadline)  # the idle connection was closed: retry once

    def _exchange(self, request: HttpRequest, deadline: float) -> HttpResponse:
        try:
            if self._connection is None:
                self._connection = _connect(self._address, deadline)
            connection = self._connection
            assert isinstance(connection.sock, LimitedSocket)
            connection.sock.limit(deadline, RESPONSE_BYTES)
            path = self._address.base + request.path
            connection.request(request.method, path, request.body or None, dict(request.headers))
            response = connection.getresponse()
            body = response.read()
        except BaseException:
            self.close()  # leftover bytes must not be read as the next response
            raise
        headers = {name.lower(): value for name, value in response.getheaders()}
        if response.will_close:
            self.close()
        return HttpResponse(response.status, headers, body)

    def close(self) -> None:
        """Close the connection; the next request opens a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class LimitedSocket(socket.socket):
    """A socket whose operations all end by one deadline, and that receives limited data.

    `http.client` and the files that it makes of a socket use only the methods that are here.
    """

    _deadline = float("inf")
    _bytes_left = 0

    def limit(self, deadline: float, size: int) -> None:
        """Set the deadline, by `time.monotonic`, and how many bytes may be received until then."""
        self._deadline, self._bytes_left = deadline, size

    def connect(self, address: Any) -> None:  # noqa: ANN401  (of any family)
        """Connect before the deadline."""
        self._set_timeout()
        super().connect(address)

    def sendall(self, data: Any, flags: int = 0) -> None:  # noqa: ANN401  (any buffer)
        """Send all data before the deadline."""
        self._set_timeout()
        super().sendall(data, flags)

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:  # noqa: ANN401  (any buffer)
        """Receive before the deadline; raise `OSError` if the response is too large."""
        self._set_timeout()
        count = super().recv_into(buffer, nbytes, flags)
        self._bytes_left -= count
        if self._bytes_left < 0:
            raise OSError("the response is too large")
        return count

    def _set_timeout(self) -> None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise socket.timeout("timed out")
        self.settimeout(left)


def _connect(address: EndpointAddress, deadline: float) -> http.client.HTTPConnection:
    failure = OSError("the host has no address")
    for family, target in _targets(address):
        connected = LimitedSocket(family, socket.SOCK_STREAM)
        connected.limit(min(deadline, time.monotonic() + CONNECT_SECONDS), 0)
        try:
            connected.connect(target)
        except OSError as error:
            connected.close()
            failure = error
            continue
        except BaseException:
            connected.close()
            raise
        connection = http.client.HTTPConnection(address.host or "localhost", address.port)
        connection.auto_open = 0  # it would connect without a deadline
        connection.sock = connected
        return connection
    raise failure


def _targets(address: EndpointAddress) -> Iterator[tuple[int, Any]]:
    """Yield families and addresses to try, one after the other."""
    if not address.socket:
        for family, _, _, _, target in socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM
        ):
            yield family, target
        return
    unix_family = getattr(socket, "AF_UNIX", None)
    if unix_family is None:
        raise OSError("this system does not support Unix sockets")
    yield unix_family, address.socket
