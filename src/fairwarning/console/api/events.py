"""Events and operations with their explanations, and the journal."""

from bisect import bisect_right
from operator import itemgetter

from fairwarning.console.api import filters, responses, views
from fairwarning.console.api.endpoints import NEXT_PAGE, endpoint
from fairwarning.console.api.section import OPERATOR, PAGE_SIZE, ApiSection
from fairwarning.core import commands
from fairwarning.core.decision import FactType
from fairwarning.core.errors import Conflict, Refused
from fairwarning.core.model import Event, OperationStatus, Ref, Scope
from fairwarning.core.record import changed
from fairwarning.service.history import queries
from fairwarning.service.listing.ended import ended_events
from fairwarning.service.listing.filters import EVERY_EVENT, EventFilter
from fairwarning.service.listing.journal import EVERY_LINE, JournalFilter, newest_lines
from fairwarning.service.listing.operations import (
    EVERYWHERE,
    OperationPlace,
    newest_operations,
    on_machine,
    on_set,
    operations_by_prefix,
)

_JOURNAL_QUERY = {
    **NEXT_PAGE,
    "event": "Only of this event.",
    "newest": "`true`: newest first.",
    "before": "With `newest`: `next` of the previous page.",
    "scope": "With `newest`: only of this scope.",
    **{
        name: f"With `newest`: {text[0].lower()}{text[1:]}"
        for name, text in filters.JOURNAL_FILTERS.items()
    },
}


class EventsApi(ApiSection):
    """Scheduled events, the operations that cause them, and the journal."""

    @endpoint("GET", "/api/events", query={**NEXT_PAGE, **filters.EVENT_FILTERS})
    async def events(
        self, after: str = "", limit: int = PAGE_SIZE, wanted: EventFilter = EVERY_EVENT
    ) -> responses.EventList:
        """List live events by their start, or events that are over."""
        if wanted.status == filters.OVER:
            before = _line_number(after)
            histories, following = await ended_events(self.fleet, wanted, before, limit)
            over = [views.past_event_info(history) for history in histories]
            return responses.EventList(
                events=over, next=None if following is None else str(following), total=None
            )
        if wanted.machine:
            location = await self._find_machine(wanted.machine)
            wanted = changed(wanted, scope=location.scope, machine=location.machine.name)
        await self._check_names(wanted.scope, wanted.set)
        matching = await self.find_events(wanted)
        begin = bisect_right(matching, after, key=place)
        page = matching[begin : begin + limit]
        return responses.EventList(
            events=[views.event_info(event, scope.id) for scope, event in page],
            next=place(page[-1]) if begin + limit < len(matching) else None,
            total=len(matching),
        )

    async def find_events(self, wanted: EventFilter) -> list[tuple[Scope, Event]]:
        """Return the live events that a filter allows, by start, with their scopes."""
        await self.index.refresh()
        every = list(self.index.events())
        share = self.fleet.reader.share
        places = await share.map(lambda pair: place(pair) if wanted.allows(*pair) else "", every)
        matching = [each for each in zip(places, every, strict=True) if each[0]]
        return [pair for _, pair in sorted(matching, key=itemgetter(0))]

    @endpoint("GET", "/api/events/{id}")
    async def event(self, name: str) -> responses.EventInfo:
        """Get an event, live or over."""
        history, live = await queries.event_history(self.fleet, name)
        return views.event_info(live, history.scope) if live else views.past_event_info(history)

    @endpoint("GET", "/api/events/{id}/explain")
    async def explain_event(self, name: str) -> responses.ExplanationInfo:
        """Explain an event: deliveries, approvals, what it waits for, and why."""
        return views.explanation_info(await queries.explain_event(self.fleet, name))

    @endpoint("POST", "/api/events/{id}/approve")
    async def approve(self, name: str, actor: str = OPERATOR) -> responses.EventInfo:
        """Approve an event, so that it starts now, or when its maintenance window opens.

        A repeat is not an error (M12).
        """
        history, live = await queries.event_history(self.fleet, name)
        if live is None and history.approved_by and history.ended is not FactType.CANCELLED:
            return views.past_event_info(history)
        event = await self._live_event(name)
        command = commands.Approve(scope=event.scope, events=(event.id,), actor=actor)
        await self.fleet.submit(command)
        return await self.event(name)

    @endpoint("POST", "/api/events/{id}/cancel")
    async def cancel(self, name: str, actor: str = OPERATOR) -> responses.EventInfo:
        """Cancel an event.

        A repeat is not an error.
        """
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

    @endpoint("GET", "/api/operations", query={**NEXT_PAGE, **filters.OPERATION_FILTERS})
    async def operations(
        self,
        after: str = "",
        limit: int = PAGE_SIZE,
        status: OperationStatus | None = None,
        prefix: str = "",
        *,
        machine: str = "",
        set: str = "",  # noqa: A002  (as in the query)
    ) -> responses.OperationList:
        """List operations, the newest first."""
        following: int | None = None
        if prefix:
            operations = await operations_by_prefix(self.fleet, prefix, limit)
        else:
            before = _line_number(after)
            place = await self._place(machine, set)
            operations, following = await newest_operations(
                self.fleet, status or "", before, limit, place
            )
        return responses.OperationList(
            operations=[views.operation_info(operation) for operation in operations],
            next=None if following is None else str(following),
        )

    async def _place(self, machine: str, set_: str) -> OperationPlace:
        if machine:
            location = await self._find_machine(machine)
            await self._check_names("", set_)
            return on_machine(location.scope, location.machine.name)
        return on_set(await self._scale_set(set_)) if set_ else EVERYWHERE

    @endpoint("GET", "/api/operations/{id:path}/explain")
    async def explain_operation(self, name: str) -> responses.ExplanationInfo:
        """Explain an operation."""
        return views.explanation_info(await queries.explain_operation(self.fleet, name))

    @endpoint("GET", "/api/operations/{id:path}")
    async def operation(self, name: str) -> responses.OperationInfo:
        """Get an operation."""
        return views.operation_info(await queries.read_operation(self.fleet, name))

    @endpoint("GET", "/api/journal", query=_JOURNAL_QUERY)
    async def journal(
        self,
        *,
        after: int = 0,
        limit: int = PAGE_SIZE,
        event: str = "",
        newest: bool = False,
        before: int | None = None,
        scope: str = "",
        wanted: JournalFilter = EVERY_LINE,
    ) -> responses.JournalPage:
        """List journal lines: who did what, when and why.

        Oldest first, optionally of one event; or newest first, of one scope or those that a filter
        allows. Then a page may be short: a search reads a limited number of lines, and `next`
        continues it.
        """
        if newest:
            entity: Ref | None = (Scope, scope) if scope else None
            entries, last = await newest_lines(self.fleet, wanted, before, limit, entity)
        elif scope or wanted != EVERY_LINE:
            names = ", ".join(["scope", *filters.JOURNAL_FILTERS])
            raise Refused("BadQuery", f"a filter ({names}) needs newest=true")
        else:
            entries = await self.fleet.reader.journal(after=after, limit=limit, event=event.upper())
            last = entries[-1].number if len(entries) == limit else None
        lines = await self.fleet.reader.share.map(views.line_info, entries)
        return responses.JournalPage(lines=lines, next=last)


def place(scoped_event: tuple[Scope, Event]) -> str:
    """Return the place of a live event in a list by start."""
    _, event = scoped_event
    return f"{event.not_before:012d}:{event.id}"


def _line_number(after: str) -> int | None:
    """Return the line before which a page begins."""
    number = filters.whole_number(after)
    if after and number is None:
        raise Refused("BadQuery", "after must be `next` of the previous page")
    return number
