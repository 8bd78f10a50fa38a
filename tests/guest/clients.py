"""Both clients behind one interface, so that the same tests cover both.

for guest in (Plain, Asynchronous):
    with guest(url) as client:
        client.document()
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future
from typing import Any, Self, TypeVar

import pytest

from fairwarning import AsyncScheduledEvents, Change, Document, Event, ScheduledEvents
from tests.fixtures.waiting import LIMIT_SECONDS

T = TypeVar("T")

SOON = 0.01  # seconds between requests, to keep tests fast


class Plain(ScheduledEvents):
    """The synchronous client."""

    def __init__(
        self, endpoint: str | None = None, *, every: float = SOON, patience: float = 20.0,
        name: str = "",
        version: str = "2020-07-01",
    ) -> None:  # fmt: skip
        super().__init__(endpoint, name=name, every=every, patience=patience, version=version)


class Asynchronous:
    """The asyncio client, on its own event loop."""

    def __init__(
        self, endpoint: str | None = None, *, every: float = SOON, patience: float = 20.0,
        name: str = "",
        version: str = "2020-07-01",
    ) -> None:  # fmt: skip
        self._client = AsyncScheduledEvents(
            endpoint, name=name, every=every, patience=patience, version=version
        )
        self._runner = asyncio.Runner()
        self.now = self._client.now

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    def __enter__(self) -> Self:
        self._run(self._client.__aenter__())
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._client.__aexit__(None, None, None))
        self._runner.close()

    def close(self) -> None:
        async def work() -> None:
            self._client.close()

        self._run(work())

    def events(self) -> tuple[Event, ...]:
        return self._run(self._client.events())

    def document(self) -> Document:
        return self._run(self._client.document())

    def wait(self, timeout: float | None = None) -> Document:
        return self._run(self._client.wait(timeout))

    def watch(self) -> Iterator[Change]:
        changes: AsyncIterator[Change] = self._client.watch()

        async def following() -> Change:
            return await anext(changes)

        while True:
            yield self._run(following())

    def me(self) -> str:
        return self._run(self._client.me())

    def approve(self, *events: Event | str, others: bool = False) -> None:
        self._run(self._client.approve(*events, others=others))


# --- For tests of both ----------------------------------------------------------------------------

Client = Plain | Asynchronous
BOTH = pytest.mark.parametrize("guest", [Plain, Asynchronous])


def in_background(work: Callable[[], T]) -> "Future[T]":
    """Run a function in a thread; `result_of` returns its result."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001  (`result_of` raises it again)
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def result_of(future: "Future[T]") -> T:
    """Return the result of a background function; a hang is a failure."""
    return future.result(LIMIT_SECONDS)


def ids(document: Document | tuple[Event, ...]) -> list[str]:
    """Return the event ids of a document."""
    events = document.events if isinstance(document, Document) else document
    return [event.id for event in events]
