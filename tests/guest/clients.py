"""Both clients behind one face, so that the very same tests are about both.

for guest in (Plain, Asynchronous):
    with guest(url) as client:
        client.document()
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future
from typing import Any, Protocol, Self, TypeVar

import pytest

from fairwarning import AsyncScheduledEvents, Change, Document, Event, ScheduledEvents
from tests.fixtures.waiting import LIMIT_SECONDS

T = TypeVar("T")

SOON = 0.01  # seconds between requests, so that tests need not wait for a whole one


class Client(Protocol):
    """What a client can do."""

    def __init__(
        self, endpoint: str | None = None, *, every: float = SOON, patience: float = 20.0,
        version: str = "2020-07-01",
    ) -> None: ...  # fmt: skip

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...
    def close(self) -> None: ...
    def events(self) -> tuple[Event, ...]: ...
    def document(self) -> Document: ...
    def wait(self, timeout: float | None = None) -> Document: ...
    def watch(self) -> Iterator[Change]: ...
    def me(self) -> str: ...
    def approve(self, *events: Event | str) -> None: ...


class Plain:
    """The client without asyncio."""

    def __init__(
        self, endpoint: str | None = None, *, every: float = SOON, patience: float = 20.0,
        version: str = "2020-07-01",
    ) -> None:  # fmt: skip
        self._it = ScheduledEvents(endpoint, every=every, patience=patience, version=version)
        self.close = self._it.close
        self.events = self._it.events
        self.document = self._it.document
        self.wait = self._it.wait
        self.watch = self._it.watch
        self.me = self._it.me
        self.approve = self._it.approve

    def __enter__(self) -> Self:
        self._it.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._it.__exit__(None, None, None)


class Asynchronous:
    """The client with asyncio, on a loop of its own."""

    def __init__(
        self, endpoint: str | None = None, *, every: float = SOON, patience: float = 20.0,
        version: str = "2020-07-01",
    ) -> None:  # fmt: skip
        self._it = AsyncScheduledEvents(endpoint, every=every, patience=patience, version=version)
        self._runner = asyncio.Runner()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    def __enter__(self) -> Self:
        self._run(self._it.__aenter__())
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._it.__aexit__(None, None, None))
        self._runner.close()

    def close(self) -> None:
        async def work() -> None:
            self._it.close()

        self._run(work())

    def events(self) -> tuple[Event, ...]:
        return self._run(self._it.events())

    def document(self) -> Document:
        return self._run(self._it.document())

    def wait(self, timeout: float | None = None) -> Document:
        return self._run(self._it.wait(timeout))

    def watch(self) -> Iterator[Change]:
        found: AsyncIterator[Change] = self._it.watch()

        async def following() -> Change:
            return await anext(found)

        while True:
            yield self._run(following())

    def me(self) -> str:
        return self._run(self._it.me())

    def approve(self, *events: Event | str) -> None:
        self._run(self._it.approve(*events))


# --- For tests of either --------------------------------------------------------------------------

BOTH = pytest.mark.parametrize("guest", [Plain, Asynchronous])


def meanwhile(work: Callable[[], T]) -> "Future[T]":
    """Begin it in a thread; `done` gives what comes of it."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001  (it is raised again, by `done`)
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def done(future: "Future[T]") -> T:
    """What came of it; a hang is a failure."""
    return future.result(LIMIT_SECONDS)


def ids(document: Document | tuple[Event, ...]) -> list[str]:
    """The events of a document."""
    events = document.events if isinstance(document, Document) else document
    return [event.id for event in events]
