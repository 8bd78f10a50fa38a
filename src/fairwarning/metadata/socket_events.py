"""Wait until sockets can be read or written: one epoll for all connections of the endpoint.

The event loop watches the epoll itself. So a connection costs one system call to register, and
the loop is woken once for all connections that have data.
"""

import asyncio
import logging
import select
import sys
from typing import Protocol

log = logging.getLogger(__name__)

READ, WRITE = 1, 4  # as EPOLLIN and EPOLLOUT
EVENTS_AT_ONCE = 256  # of polls, handled before other callbacks run
FAILED = "a connection failed unexpectedly; closing it"
HAS_EPOLL = sys.platform.startswith("linux")


class EventTarget(Protocol):
    """Something that is called when its socket is ready."""

    def ready(self, events: int) -> None:
        """Read or write; `events` combines `READ`, `WRITE`, and on Linux EPOLLHUP and EPOLLERR."""

    def abort(self) -> None:
        """Close at once."""


class SocketEvents:
    """Watches sockets with the event loop; for systems without epoll."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop

    def watch(self, descriptor: int, target: EventTarget, before: int, events: int) -> None:
        """Watch a socket for these events, and no longer for those `before`."""
        added, removed = events & ~before, before & ~events
        if removed & READ:
            self.loop.remove_reader(descriptor)
        if removed & WRITE:
            self.loop.remove_writer(descriptor)
        if added & READ:
            self.loop.add_reader(descriptor, _call, target, READ)
        if added & WRITE:
            self.loop.add_writer(descriptor, _call, target, WRITE)

    def close(self) -> None:
        """Watch nothing any more."""


class EpollEvents(SocketEvents):
    """Watches sockets with an epoll, and handles `at_once` of them before other callbacks run."""

    def __init__(self, loop: asyncio.AbstractEventLoop, at_once: int = EVENTS_AT_ONCE) -> None:
        super().__init__(loop)
        self._at_once = at_once
        self._epoll = select.epoll()
        self._targets: dict[int, EventTarget] = {}
        loop.add_reader(self._epoll.fileno(), self._handle)

    def watch(self, descriptor: int, target: EventTarget, before: int, events: int) -> None:
        """Watch a socket for these events, and no longer for those `before`."""
        if not before:
            self._epoll.register(descriptor, events)
            self._targets[descriptor] = target
        elif events:
            self._epoll.modify(descriptor, events)
        else:
            del self._targets[descriptor]
            self._epoll.unregister(descriptor)

    def _handle(self) -> None:
        targets = self._targets
        for descriptor, events in self._epoll.poll(0, self._at_once):
            target = targets.get(descriptor)
            if target is None:
                continue  # closed by one of the others
            try:
                target.ready(events)
            except Exception:
                log.exception(FAILED)
                target.abort()

    def close(self) -> None:
        """Watch nothing any more; close connections that are still open."""
        for target in tuple(self._targets.values()):
            target.abort()
        self.loop.remove_reader(self._epoll.fileno())
        self._epoll.close()


def _call(target: EventTarget, events: int) -> None:
    try:
        target.ready(events)
    except Exception:
        log.exception(FAILED)
        target.abort()


def new_socket_events(
    loop: asyncio.AbstractEventLoop, at_once: int = EVENTS_AT_ONCE
) -> SocketEvents:
    """Return the cheapest kind that this system has."""
    return EpollEvents(loop, at_once) if HAS_EPOLL else SocketEvents(loop)
