"""The synchronous client, and what the one for asyncio shares with it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import TYPE_CHECKING, ClassVar, TypeVar

from fairwarning.guest import session
from fairwarning.guest.conversation import (
    PATIENCE_SECONDS,
    ConnectionLost,
    Conversation,
    Reply,
    Script,
    Step,
    Wait,
)
from fairwarning.guest.endpoint import endpoint as endpoint_of
from fairwarning.guest.events import Change, Document, Event, changes
from fairwarning.guest.transport import EndpointConnection, HttpTransport

if TYPE_CHECKING:
    from typing import Self

T = TypeVar("T")


class ClientBase:
    """A connection to the endpoint, and the conversation over it: of both clients."""

    _connection_class: ClassVar[type[EndpointConnection]]

    def __init__(
        self,
        endpoint: str | None = None,
        *,
        name: str = "",
        version: str = session.VERSION,
        every: float = session.INTERVAL_SECONDS,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        """Use `endpoint`, or FAIRWARNING_ENDPOINT, or Azure's address, in this order.

        `name`: of this machine; default: read from instance metadata.
        `every`: minimum seconds between requests. `patience`: seconds to retry before giving up.
        """
        address = endpoint_of(endpoint)
        self._transport = self._connection_class(address)
        self._conversation = Conversation(
            time.monotonic, address, name=name, version=version, every=every, patience=patience
        )

    def close(self) -> None:
        """Close the connection; the next request opens a new one."""
        self._transport.close()

    @property
    def read_at(self) -> float:
        """The time of the last successful read, by `time.monotonic`."""
        return self._conversation.read_at

    @property
    def failed_reads(self) -> int:
        """How many requests for the document have failed so far."""
        return self._conversation.failed_reads

    def now(self) -> datetime:
        """Return the endpoint's time, to compare with NotBefore; before any response, our own."""
        seconds = self._conversation.endpoint_time()
        return (
            datetime.now(timezone.utc)
            if seconds is None
            else datetime.fromtimestamp(seconds, timezone.utc)
        )


class ScheduledEvents(ClientBase):
    """The scheduled events of this machine, and a way to approve them.

    Use one per thread. `for change in ScheduledEvents().watch(): ...` is all a handler needs.
    """

    _connection_class = HttpTransport
    _transport: HttpTransport

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def events(self) -> tuple[Event, ...]:
        """Return all current events of this machine's scope."""
        return self.document().events

    def document(self) -> Document:
        """Return the current document. Raise `Unavailable` if there is none within `patience`."""
        return self._run(self._conversation.document())

    def wait(self, timeout: float | None = None) -> Document:
        """Return the document when it has changed since last time, or when the timeout is over.

        Failures of the endpoint do not end the wait: the last document stays valid. Only before the
        first document it raises `Unavailable` after `patience`.
        """
        return self._run(self._conversation.wait(timeout))

    def watch(self) -> Iterator[Change]:
        """Yield changes to events without end, beginning with the events that exist already."""
        known: Document | None = None
        while True:
            self._conversation.known = known
            document = self.wait()
            yield from changes(known or Document(), document)
            known = document

    def me(self) -> str:
        """Return this machine's name as events use it, which may differ from the host name (G3)."""
        return self._run(self._conversation.own_name())

    def approve(self, *events: Event | str, others: bool = False) -> None:
        """Approve events, or events by id. Approving an event again has no effect.

        Raise `Refused` for an event that names other machines, because it would start for them
        too; with `others`, approve it for all of them.
        """
        self._run(self._conversation.approve(events, others=others))

    def _run(self, script: Script[T]) -> T:
        reply: Reply = None
        while True:
            try:
                step = script.send(reply)
            except StopIteration as done:
                result: T = done.value
                return result
            reply = self._do(step)

    def _do(self, step: Step) -> Reply:
        if isinstance(step, Wait):
            time.sleep(step.seconds)
            return None
        try:
            return self._transport.send(step)
        except OSError as error:
            return ConnectionLost(str(error) or type(error).__name__)
