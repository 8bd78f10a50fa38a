"""Which machine was shown which event, and when: collected as they ask, journaled in a moment (O7).

A poll never waits for it. What a crash may lose is the last moment's; what it may repeat is told
twice, and the first time counts.
"""

import asyncio
from collections.abc import Callable

from fairwarning.core.commands import RecordDelivery
from fairwarning.core.model import Event, Scope

_WRITE_SECONDS = 0.2  # real ones, so that many machines are journaled together


class DeliveryLog:
    """The machines that know of each event that is planned or under way."""

    def __init__(self, post: Callable[[RecordDelivery], None], rate: Callable[[], float]) -> None:
        self._post = post
        self._rate = rate  # of time: what is quick for us may be minutes for the fleet
        self._known: dict[str, dict[str, set[str]]] = {}  # scope -> event -> machines
        self._new: dict[tuple[str, str], list[str]] = {}  # scope, event -> machines
        self._timer: asyncio.TimerHandle | None = None

    def show(self, scope: Scope, machine: str, events: list[Event]) -> None:
        """The machine is being answered with these."""
        known = self._known.setdefault(scope.id, {})
        for event in events:
            machines = known.setdefault(event.id, set())
            if machine not in machines:
                machines.add(machine)
                self._new.setdefault((scope.id, event.id), []).append(machine)
        if self._new and self._timer is None:
            wait = _WRITE_SECONDS / max(self._rate(), 1.0)
            self._timer = asyncio.get_running_loop().call_later(wait, self.write)

    def write(self) -> None:
        """Have it journaled."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        new, self._new = self._new, {}
        for (scope, event), machines in new.items():
            self._post(
                RecordDelivery(scope=scope, event=event, machines=tuple(machines), actor="machine")
            )

    def follow(self, name: str, scope: Scope | None) -> None:
        """Events that are over are forgotten."""
        known = self._known.get(name)
        if known is None:
            return
        live = scope.events if scope else {}
        for event in [one for one in known if one not in live]:
            del known[event]
        if not known:
            del self._known[name]
