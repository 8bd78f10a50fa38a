"""Events and operations, and their stories."""

from fairwarning.console.api import responses, views
from fairwarning.console.api.part import OPERATOR, PAGE, ApiSection
from fairwarning.core import commands
from fairwarning.core.decision import FactType
from fairwarning.core.errors import Conflict, NotFound
from fairwarning.core.model import Operation
from fairwarning.service.history import queries
from fairwarning.service.history.timeline import live_events, timeline
from fairwarning.service.lookup import find_machine


class EventsApi(ApiSection):
    """What is announced, and what somebody asked for."""

    async def events(
        self, after: str = "", limit: int = PAGE, scope: str = "", machine: str = ""
    ) -> responses.EventList:
        """Events that are there, scope by scope: a page may be a little longer than asked for."""
        name = scope
        if machine:
            place = await find_machine(self.fleet, machine)
            name, machine = place.scope, place.machine.name
        if name:
            found = (await self._scope(name)).events.values()
            shown = [views.event(one, name) for one in found]
            mine = [one for one in shown if not machine or machine in one.resources]
            return responses.EventList(events=mine, next=None)
        live = await live_events(self.fleet, after, limit)
        last = live[-1][0] if len(live) >= limit else None
        return responses.EventList(
            events=[views.event(one, where) for where, one in live], next=last
        )

    async def event(self, name: str) -> responses.EventInfo:
        """One event, also when it is over."""
        life, live = await queries.event_history(self.fleet, name)
        return views.event(live, life.scope) if live else views.past_event(life)

    async def approve(self, name: str, actor: str = OPERATOR) -> responses.EventInfo:
        """Start it now; once more is no error (M12)."""
        event = await self._there(name)
        command = commands.Approve(scope=event.scope, events=(event.id,), actor=actor)
        await self.fleet.submit(command)
        return await self.event(name)

    async def cancel(self, name: str, actor: str = OPERATOR) -> responses.EventInfo:
        """It will not happen after all; once more is no error."""
        life, live = await queries.event_history(self.fleet, name)
        if live is None and life.ended is FactType.CANCELLED:
            return views.past_event(life)
        event = await self._there(name)
        await self.fleet.submit(commands.Cancel(scope=event.scope, event=event.id, actor=actor))
        return await self.event(name)

    async def _there(self, name: str) -> responses.EventInfo:
        event = await self.event(name)
        if event.status == "Over":
            raise Conflict("EventOver", f"event {event.id} is over")
        return event

    async def explain_event(self, name: str) -> responses.ExplanationInfo:
        """Who was told and when, who approved, what is awaited, why it started (O7)."""
        return views.explanation(await queries.explain_event(self.fleet, name))

    async def operation(self, name: str) -> responses.OperationInfo:
        """One operation."""
        found = await self.fleet.reader.read(Operation, name)
        if found is None:
            raise NotFound("UnknownOperation", f"there is no operation {name[:60]!r}")
        return views.operation(found)

    async def explain_operation(self, name: str) -> responses.ExplanationInfo:
        """What became of an operation."""
        return views.explanation(await queries.explain_operation(self.fleet, name))

    async def timeline(self, seconds: float) -> responses.TimelineInfo:
        """The last so many seconds, and what is to come."""
        seen = await timeline(self.fleet, seconds)
        ends = max((life.not_before or 0 for life, live in seen.events if live), default=0)
        return responses.TimelineInfo(
            begins=views.time(seen.begins),
            ends=views.time(max(seen.now, ends)),
            now=views.time(seen.now),
            cut=seen.cut,
            events=[views.event_history(life, live) for life, live in seen.events],
        )
