"""One persistent connection to the endpoint, for the asyncio client.

The socket is known to the event loop only during an operation, so that a connection belongs to no
loop, and a process that was forked can close its copy.
"""

from __future__ import annotations

import asyncio
import socket

from fairwarning.guest.async_timeout import timeout
from fairwarning.guest.http_message import RECEIVE_BYTES, ResponseParser, serialize
from fairwarning.guest.session import HttpRequest, HttpResponse
from fairwarning.guest.transport import CONNECT_SECONDS, EndpointConnection, Target, unix_target


class AsyncHttpTransport(EndpointConnection):
    """Sends requests, one after the other. Each can be cancelled."""

    async def send(self, request: HttpRequest) -> HttpResponse:
        """Send a request and read the complete response within the request's timeout.

        Raise `OSError`.
        """
        is_reused, parser = self._is_open(), ResponseParser()
        async with timeout(request.seconds):
            try:
                return await self._exchange(request, parser)
            except TimeoutError:
                raise
            except OSError:
                if not is_reused or parser.has_data:
                    raise
                # The idle connection was closed: retry once.
                return await self._exchange(request, ResponseParser())

    async def _exchange(self, request: HttpRequest, parser: ResponseParser) -> HttpResponse:
        loop = asyncio.get_running_loop()
        try:
            if self._socket is None:
                async with timeout(CONNECT_SECONDS):
                    self._set_socket(await self._connect())
            assert self._socket is not None
            await loop.sock_sendall(self._socket, serialize(self._address, request))
            response = None
            while response is None:
                response = parser.feed(await loop.sock_recv(self._socket, RECEIVE_BYTES))
        except BaseException:
            self.close()  # leftover bytes must not be read as the next response
            raise
        if not parser.is_reusable:
            self.close()
        return response

    async def _connect(self) -> socket.socket:
        loop, failure = asyncio.get_running_loop(), OSError("the host has no address")
        for family, target in await self._targets():
            connected = socket.socket(family, socket.SOCK_STREAM)
            connected.setblocking(False)  # noqa: FBT003  (as the standard library has it)
            try:
                await loop.sock_connect(connected, target)
            except OSError as error:
                connected.close()
                failure = error
            except BaseException:
                connected.close()
                raise
            else:
                return connected
        raise failure

    async def _targets(self) -> list[Target]:
        address = self._address
        if address.socket:
            return [unix_target(address)]
        try:
            addresses = await asyncio.get_running_loop().getaddrinfo(
                address.host, address.port, type=socket.SOCK_STREAM
            )
        except ValueError as error:  # of the encoding of names
            raise OSError(f"{address.host!r} is not a host name") from error
        return [(family, target) for family, _, _, _, target in addresses]
