"""The delivery log: which machine was shown which event, and when (O7).

Polls record deliveries in memory and never wait for the journal. A crash may lose the last 200 ms
of deliveries or record one twice; readers take the earliest.
"""

import asyncio
from collections.abc import Callable

from fairwarning.core.commands import RecordDelivery
from fairwarning.core.model import Event, Scope

_WRITE_SECONDS = 0.2  # of real time: deliveries to many machines become one journal line


class DeliveryLog:
    """Records the first delivery of each event to each machine."""

    def __init__(self, post: Callable[[RecordDelivery], None], rate: Callable[[], float]) -> None:
        self._post = post
        self._rate = rate  # virtual seconds per real second
        self._delivered: dict[str, dict[str, set[str]]] = {}  # scope -> event -> machines
        self._unwritten: dict[tuple[str, str], list[str]] = {}  # scope, event -> machines
        self._timer: asyncio.TimerHandle | None = None

    def show(self, scope: Scope, machine: str, events: list[Event]) -> None:
        """A response with these events is about to be sent to the machine."""
        delivered = self._delivered.setdefault(scope.id, {})
        for event in events:
            machines = delivered.setdefault(event.id, set())
            if machine not in machines:
                machines.add(machine)
                self._unwritten.setdefault((scope.id, event.id), []).append(machine)
        if self._unwritten and self._timer is None:
            wait = _WRITE_SECONDS / max(self._rate(), 1.0)
            self._timer = asyncio.get_running_loop().call_later(wait, self.write)

    def write(self) -> None:
        """Journal the deliveries that were recorded since the last call."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        unwritten, self._unwritten = self._unwritten, {}
        for (scope, event), machines in unwritten.items():
            self._post(
                RecordDelivery(scope=scope, event=event, machines=tuple(machines), actor="machine")
            )

    def scopes(self) -> list[str]:
        """The scopes with deliveries of events that may not have ended."""
        return list(self._delivered)

    def follow(self, name: str, scope: Scope | None) -> None:
        """Forget events that have ended; called when a scope has changed."""
        delivered = self._delivered.get(name)
        if delivered is None:
            return
        current = scope.events if scope else {}
        for event in [event for event in delivered if event not in current]:
            del delivered[event]
        if not delivered:
            del self._delivered[name]
