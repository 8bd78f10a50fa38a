"""Accepted connections: answer the first request at once if possible, else open a connection.

The kernel hands over a connection with its first request (TCP_DEFER_ACCEPT). If that is a poll
whose response is cached, and the client wants no second request, everything is done in four system
calls, and no connection object is ever created.
"""

from socket import MSG_DONTWAIT, SOCK_STREAM, SocketType
from time import monotonic

from fairwarning.metadata.accepting import Listener
from fairwarning.metadata.callers import Caller, Key, PeerAddress
from fairwarning.metadata.connection import MetadataConnection
from fairwarning.metadata.handler import RequestHandler
from fairwarning.metadata.socket_events import SocketEvents
from fairwarning.metadata.transport import RECEIVE_BYTES, SocketTransport


class NewConnections:
    """Serves accepted connections."""

    def __init__(self, handler: RequestHandler, events: SocketEvents) -> None:
        self._handler = handler
        self._events = events

    def serve(self, listener: Listener, descriptor: int, peer: PeerAddress) -> bool:
        """Identify the caller before its first byte is read (M22), and serve the connection.

        Return whether the next one may be accepted at once: not while one of this machine may have
        ended but is still counted, or a machine with many short connections would exceed its limit.
        """
        sock = SocketType(listener.family, SOCK_STREAM, 0, descriptor)
        try:
            key = listener.resolve_key(sock, peer)
            data = _receive(sock)
        except OSError:  # reset before it was accepted
            sock.close()
            return True
        caller = self._handler.callers.known.get(key)
        if data and caller is not None:
            response = self._cached_response(caller, data)
            if response is not None:
                self._answer(listener, sock, key, caller, response)
                return True
        transport = self._open(listener, sock, key, data)
        if transport is None:
            return True
        is_only_connection = caller is None or caller.connections <= 1
        return is_only_connection and not transport.is_closing()

    def _cached_response(self, caller: Caller, data: bytes) -> bytes | None:
        """Return the response to a poll, if it is cached and the connection closes after it."""
        handler = self._handler
        cache = handler.request_cache
        parsed = cache.requests.get(data) or cache.parse(data)
        if (
            parsed is None
            or not parsed.close
            or caller.connections >= handler.max_connections_per_machine
            or len(handler.connections) >= handler.max_connections
        ):
            return None
        published = caller.published
        rest = published.answers.get(parsed.key)
        if (
            rest is None
            or caller.checked_scope is not published.scope
            or caller.polls >= caller.allowed
            or monotonic() >= handler.date.expires_at
        ):
            return None
        return handler.date.ok + rest

    def _answer(
        self, listener: Listener, sock: SocketType, key: Key, caller: Caller, response: bytes
    ) -> None:
        """Send the response and close; leave what does not fit to a connection."""
        try:
            sent = sock.send(response, MSG_DONTWAIT)
        except BlockingIOError:
            sent = 0
        except OSError:  # reset
            sock.close()
            return
        if not caller.polls:
            self._handler.callers.active.append(caller)
        caller.polls += 1
        if sent == len(response):
            self._handler.accepted += 1
            sock.close()
        elif transport := self._open(listener, sock, key, b""):
            transport.write(response[sent:])
            transport.close()

    def _open(
        self, listener: Listener, sock: SocketType, key: Key, data: bytes
    ) -> SocketTransport | None:
        """Open a connection that has received `data`; None if the client has reset it."""
        try:
            sock.getpeername()
        except OSError:
            sock.close()
            return None
        connection = MetadataConnection(self._handler, listener, key)
        transport = SocketTransport(sock, connection, self._events)
        transport.begin(data)
        return transport


def _receive(sock: SocketType) -> bytes:
    """Return what the client has sent; nothing if it has not sent anything yet."""
    try:
        return sock.recv(RECEIVE_BYTES, MSG_DONTWAIT)
    except (BlockingIOError, InterruptedError):
        return b""
