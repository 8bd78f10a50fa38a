"""Events, operations and their explanations."""

from fairwarning.console.api import responses, views
from fairwarning.console.api.part import OPERATOR, PAGE_SIZE, ApiSection
from fairwarning.core import commands
from fairwarning.core.decision import FactType
from fairwarning.core.errors import Conflict
from fairwarning.service.history import queries
from fairwarning.service.history.timeline import live_events, timeline
from fairwarning.service.lookup import find_machine


class EventsApi(ApiSection):
    """Scheduled events, and the operations that cause them."""

    async def events(
        self, after: str = "", limit: int = PAGE_SIZE, scope: str = "", machine: str = ""
    ) -> responses.EventList:
        """List live events by scope; scopes are not split, so a page may exceed the limit."""
        name = scope
        if machine:
            location = await find_machine(self.fleet, machine)
            name, machine = location.scope, location.machine.name
        if name:
            events = (await self._scope(name)).events.values()
            infos = [views.event_info(event, name) for event in events]
            matching = [info for info in infos if not machine or machine in info.resources]
            return responses.EventList(events=matching, next=None)
        live = await live_events(self.fleet, after, limit)
        last = live[-1][0] if len(live) >= limit else None
        return responses.EventList(
            events=[views.event_info(event, scope_id) for scope_id, event in live], next=last
        )

    async def event(self, name: str) -> responses.EventInfo:
        """Return an event, live or over."""
        history, live = await queries.event_history(self.fleet, name)
        return views.event_info(live, history.scope) if live else views.past_event_info(history)

    async def approve(self, name: str, actor: str = OPERATOR) -> responses.EventInfo:
        """Approve an event, so that it starts now; a repeat is not an error (M12)."""
        event = await self._live_event(name)
        command = commands.Approve(scope=event.scope, events=(event.id,), actor=actor)
        await self.fleet.submit(command)
        return await self.event(name)

    async def cancel(self, name: str, actor: str = OPERATOR) -> responses.EventInfo:
        """Cancel an event; a repeat is not an error."""
        history, live = await queries.event_history(self.fleet, name)
        if live is None and history.ended is FactType.CANCELLED:
            return views.past_event_info(history)
        event = await self._live_event(name)
        await self.fleet.submit(commands.Cancel(scope=event.scope, event=event.id, actor=actor))
        return await self.event(name)

    async def _live_event(self, name: str) -> responses.EventInfo:
        event = await self.event(name)
        if event.status == "Over":
            raise Conflict("EventOver", f"event {event.id} is over")
        return event

    async def explain_event(self, name: str) -> responses.ExplanationInfo:
        """Explain an event: deliveries, approvals, what it waits for, why it started (O7)."""
        return views.explanation_info(await queries.explain_event(self.fleet, name))

    async def operation(self, name: str) -> responses.OperationInfo:
        """Return an operation."""
        return views.operation_info(await queries.read_operation(self.fleet, name))

    async def explain_operation(self, name: str) -> responses.ExplanationInfo:
        """Explain an operation."""
        return views.explanation_info(await queries.explain_operation(self.fleet, name))

    async def timeline(self, seconds: float) -> responses.TimelineInfo:
        """Return the events of the last `seconds`, and all live events."""
        recent = await timeline(self.fleet, seconds)
        ends = max((history.not_before or 0 for history, live in recent.events if live), default=0)
        return responses.TimelineInfo(
            begins=views.time(recent.begins),
            ends=views.time(max(recent.now, ends)),
            now=views.time(recent.now),
            cut=recent.cut,
            events=[views.event_history_info(history, live) for history, live in recent.events],
        )
