"""Both clients behind one interface, so that the same tests cover both.

for guest in (Plain, Asynchronous):
    with guest(url) as client:
        client.document()
"""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any, Self, TypeVar

import pytest

from fairwarning import AsyncScheduledEvents, Change, Document, Event, ScheduledEvents
from tests.fixtures.waiting import LIMIT_SECONDS

T = TypeVar("T")

SOON = 0.01  # seconds between requests, to keep tests fast


class Plain(ScheduledEvents):
    """The synchronous client."""

    def __init__(self, endpoint: str | None = None, **settings: Any) -> None:  # noqa: ANN401  (of the client)
        super().__init__(endpoint, **{"every": SOON, "patience": 20.0, **settings})


class Asynchronous:
    """The asyncio client, on its own event loop: each method runs to its end."""

    def __init__(self, endpoint: str | None = None, **settings: Any) -> None:  # noqa: ANN401  (as above)
        settings = {"every": SOON, "patience": 20.0, **settings}
        self._client = AsyncScheduledEvents(endpoint, **settings)
        self._runner = asyncio.Runner()
        self.now, self.close = self._client.now, self._client.close

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._client, name)
        return lambda *arguments, **more: self._runner.run(method(*arguments, **more))

    def __enter__(self) -> Self:
        self._runner.run(self._client.__aenter__())
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.run(self._client.__aexit__(None, None, None))
        self._runner.close()

    def watch(self) -> Iterator[Change]:
        changes = self._client.watch()

        async def following() -> Change:
            return await anext(changes)

        while True:
            yield self._runner.run(following())


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
