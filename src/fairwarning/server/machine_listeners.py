"""One listener per machine, opened and closed as machines come and go (M22)."""

import asyncio
import logging
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from fairwarning.core.errors import FairwarningError
from fairwarning.core.model import Machine, Scope
from fairwarning.core.record import record
from fairwarning.metadata.accepting import Listener
from fairwarning.metadata.callers import for_machine
from fairwarning.metadata.server import MetadataServer
from fairwarning.service.fleet import Fleet

log = logging.getLogger(__name__)

Place = tuple[str, str]
"""The scope and the name of a machine."""

Slot = TypeVar("Slot", str, int)
"""What a listener is opened on: the name of a file, or a port."""

_PAGE = 1000  # machines read at once
_COMPARE_SECONDS = 60.0
"""Between two comparisons with the store: after a failover, changes may not be followed."""


@record
class _OpenListener:
    place: Place
    listener: Listener


class MachineListeners(Generic[Slot]):
    """Keeps one listener per machine. If several machines need the same slot, the first has it.

    `_follow` and `_compare` only note which machines exist. One task opens and closes listeners, so
    that a machine which is created and deleted meanwhile leaves nothing behind.
    """

    kind = "listener"  # in the log

    def __init__(self, server: MetadataServer, fleet: Fleet) -> None:
        self._server = server
        server.machine_problems.append(self._problem)
        self._fleet = fleet
        self._machines: dict[str, dict[str, float]] = {}  # by scope: names and times of creation
        self._numbers: dict[Place, int] = {}  # of machines in the fleet, as far as they were read
        self._slots: dict[Place, Slot] = {}
        self._claims: dict[Slot, dict[Place, None]] = {}  # by slot; the first one has the listener
        self._open: dict[Slot, _OpenListener] = {}
        self._failed: dict[Place, str] = {}  # machines without a listener, and why
        self._logged: dict[Place, str] = {}
        self._changed: dict[Place, None] = {}  # machines to look at, in order
        self._vacant: dict[Slot, None] = {}  # slots to try again
        self._awake = asyncio.Event()
        self._settled = asyncio.Event()
        self._followed: set[str] = set()  # scopes that changed during a comparison
        self._tasks: list[asyncio.Task[None]] = []

    async def open_all(self) -> None:
        """Open the listeners of existing machines, and follow changes."""
        self._fleet.publisher.followers.append(self._follow)
        await self._compare()
        await self._update()
        self._tasks = [asyncio.create_task(work) for work in (self._run(), self._keep_comparing())]

    async def settled(self) -> None:
        """Wait until every machine that is known now has its listener, if it can have one."""
        await self._settled.wait()

    def _slot_of(self, place: Place) -> Slot | None:
        """Return the slot of a machine; raise `FairwarningError` if it cannot have one.

        None: the machine has been deleted meanwhile.
        """
        raise NotImplementedError

    def _bind(self, slot: Slot) -> socket.socket:
        """Return a listening socket; raise `FairwarningError` if the slot is not available."""
        raise NotImplementedError

    def _release(self, slot: Slot) -> None:
        """Remove what a closed listener leaves behind."""

    def _taken(self, slot: Slot) -> str:
        """Return why a machine has no listener if another machine has its slot."""
        raise NotImplementedError

    # --- Which machines exist ---

    def _follow(self, scope: str, state: Scope | None) -> None:
        """Take over the machines of a changed scope; None: it was removed."""
        self._followed.add(scope)
        self._set(scope, state.machines.values() if state else ())

    async def _compare(self) -> None:
        """Take over all machines from the store, but for scopes that change meanwhile."""
        self._followed.clear()
        machines: dict[str, list[Machine]] = {scope: [] for scope in self._machines}
        numbers: dict[Place, int] = {}
        last = 0
        while locations := await self._fleet.reader.list_machines(last, _PAGE):
            for location in locations:
                machines.setdefault(location.scope, []).append(location.machine)
                numbers[location.scope, location.machine.name] = location.number
            last = locations[-1].number
        for scope, members in machines.items():
            if scope not in self._followed:
                self._set(scope, members)
        self._numbers |= {
            place: number for place, number in numbers.items() if place[0] not in self._followed
        }
        # The oldest machine has a slot, before and after a restart.
        in_order = sorted(self._changed, key=lambda place: self._numbers.get(place, 0))
        self._changed = {place: self._changed[place] for place in in_order}

    async def _keep_comparing(self) -> None:
        while True:
            await asyncio.sleep(_COMPARE_SECONDS)
            try:
                await self._compare()
            except FairwarningError:
                pass  # the store is unavailable; the next comparison counts
            except Exception:
                log.exception("cannot compare the machines with their %ss; retrying", self.kind)
            self._retry()

    def _retry(self) -> None:
        """Try again what has failed: the other program that used a port may have ended."""
        for place in self._failed:
            slot = self._slots.get(place)
            if slot is None:
                self._change([place])
            elif slot not in self._open:
                self._vacant[slot] = None
                self._awake.set()

    def _set(self, scope: str, members: Iterable[Machine]) -> None:
        before = self._machines.get(scope, {})
        now = {machine.name: machine.created_at for machine in members}
        if now:
            self._machines[scope] = now
        else:
            self._machines.pop(scope, None)
        changed = [name for name in before | now if before.get(name) != now.get(name)]
        for name in changed:
            self._numbers.pop((scope, name), None)  # a machine that is created again has a new one
        self._change((scope, name) for name in changed)

    def _change(self, places: Iterable[Place]) -> None:
        for place in places:
            self._changed[place] = None
        if self._changed:
            self._settled.clear()
            self._awake.set()

    # --- Opening and closing ---

    async def _run(self) -> None:
        while True:
            await self._awake.wait()
            self._awake.clear()
            await self._update()

    async def _update(self) -> None:
        while self._changed or self._vacant:
            if self._changed:
                place = next(iter(self._changed))
                del self._changed[place]
                with self._noting_failure(place):
                    self._give_up(place)
                    if place[1] in self._machines.get(place[0], ()):
                        await self._claim(place)
                await asyncio.sleep(0)  # polls go on
            while self._vacant:
                slot = next(iter(self._vacant))
                del self._vacant[slot]
                await self._open_first(slot)
                await asyncio.sleep(0)
        self._log_failures()
        self._settled.set()

    @contextmanager
    def _noting_failure(self, place: Place) -> Iterator[None]:
        """Note why a machine has no listener, whatever the reason is: it is tried again."""
        self._failed.pop(place, None)
        try:
            yield
        except FairwarningError as error:
            self._failed[place] = error.message
        except OSError as error:  # for example without a free descriptor
            self._failed[place] = f"cannot open it: {error.strerror or error}"
        except Exception as error:
            log.exception("cannot open the %s of %s; others go on", self.kind, "/".join(place))
            self._failed[place] = f"cannot open it: {type(error).__name__}; see the log"

    def _give_up(self, place: Place) -> None:
        """Close the listener of a machine; another machine may need its slot."""
        slot = self._slots.pop(place, None)
        if slot is None:
            return
        claims = self._claims[slot]
        del claims[place]
        if not claims:
            del self._claims[slot]
        self._vacant[slot] = None
        if slot in self._open and self._open[slot].place == place:
            self._close(slot)

    async def _claim(self, place: Place) -> None:
        await self._read_number(place)
        slot = self._slot_of(place)
        if slot is None:
            return
        self._slots[place] = slot
        claims = self._claims.setdefault(slot, {})
        claims[place] = None
        if next(iter(claims)) == place:
            self._vacant[slot] = None
        else:
            self._failed[place] = self._taken(slot)

    async def _read_number(self, place: Place) -> None:
        """Make sure that the number of a machine is known, for listeners that depend on it."""

    async def _open_first(self, slot: Slot) -> None:
        """Open the listener of the first machine that needs the slot."""
        claims = self._claims.get(slot, {})
        if claims and slot not in self._open:
            place = next(iter(claims))
            with self._noting_failure(place):
                await self._listen(slot, place, self._bind(slot))

    async def _listen(self, slot: Slot, place: Place, listening: socket.socket) -> None:
        try:
            listener = await self._server.listen(listening, for_machine(*place))
        except BaseException:
            listening.close()
            self._release(slot)
            raise
        self._open[slot] = _OpenListener(place=place, listener=listener)

    def _close(self, slot: Slot) -> None:
        self._server.close(self._open.pop(slot).listener)
        self._release(slot)

    def _log_failures(self) -> None:
        """Log machines without a listener, once for each reason."""
        reasons: dict[str, list[Place]] = {}
        for place, reason in self._failed.items():
            if self._logged.get(place) != reason:
                reasons.setdefault(reason, []).append(place)
        for reason, places in reasons.items():
            first, *others = ("/".join(place) for place in places)
            which = f"machine {first}" + (f" and {len(others)} others" if others else "")
            log.warning("no %s for %s: %s", self.kind, which, reason)
        self._logged = self._failed.copy()

    def _problem(self) -> str:
        """Return how many machines have no listener, and why; empty if all have one."""
        if not self._failed:
            return ""
        reason = next(iter(self._failed.values()))
        return f"no {self.kind} for {len(self._failed)} machines: {reason}"

    def remove_files(self) -> None:
        """Remove what listeners leave behind; the process is about to end."""
        for slot in tuple(self._open):
            self._release(slot)

    def close_all(self) -> None:
        """Close all listeners, and open no more."""
        if self._follow in self._fleet.publisher.followers:
            self._fleet.publisher.followers.remove(self._follow)
        for task in self._tasks:
            task.cancel()
        for slot in tuple(self._open):
            self._close(slot)
