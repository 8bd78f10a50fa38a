"""Approvals by machines: of all named events or of none (M12, M13).

A client that repeats itself may name an event that ended a moment ago. The journal knows it, so no
scope has to remember its ended events.
"""

from fairwarning.core import limits
from fairwarning.core.commands import Approve
from fairwarning.core.decision import EVENT_ENDED
from fairwarning.core.errors import Refused
from fairwarning.core.model import Scope
from fairwarning.core.record import changed
from fairwarning.service.fleet import Fleet

_LINES = 2000  # more than an event of a full scope has


async def approve(fleet: Fleet, command: Approve) -> None:
    """Submit an approval; an event that ended a short time ago needs none any more."""
    try:
        await fleet.submit(command)
    except Refused as unknown:
        live = await without_ended(fleet, command) if unknown.code == "UnknownEvent" else None
        if live is None or len(live) == len(command.events):
            raise
        if live:
            await approve(fleet, changed(command, events=live))


async def without_ended(fleet: Fleet, command: Approve) -> tuple[str, ...] | None:
    """The events that have not ended; None if an event is unknown or ended too long ago."""
    scope = await fleet.reader.read(Scope, command.scope)
    live = []
    for event in dict.fromkeys(name.upper() for name in command.events):
        if scope and event in scope.events:
            live.append(event)
        elif not await _just_ended(fleet, command.scope, event):
            return None
    return tuple(live)


async def _just_ended(fleet: Fleet, scope: str, event: str) -> bool:
    entries = await fleet.reader.journal(event=event, limit=_LINES)
    oldest = fleet.clock.now() - limits.ENDED_SECONDS
    return any(
        entry.line.fact.type in EVENT_ENDED
        and entry.line.entity == (Scope, scope)
        and entry.line.at > oldest
        for entry in reversed(entries)
    )
