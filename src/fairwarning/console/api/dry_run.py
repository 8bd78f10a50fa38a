"""What a command would do if it were submitted now: the engine decides it; nothing is committed."""

import asyncio
import logging

from fairwarning.console.api import responses
from fairwarning.core import cascade
from fairwarning.core.cascade import EntityNotLoaded, Outcome
from fairwarning.core.commands import Command, Scale, validate
from fairwarning.core.errors import Bug, FairwarningError
from fairwarning.core.model import Entity, Event, EventStatus, ImpactKind, Ref, Scope
from fairwarning.service.fleet import Fleet

log = logging.getLogger(__name__)

_NAMED = 10  # instances of a plan
_AT_ONCE = 5  # entities that a command may concern to be decided on the event loop


async def decide(fleet: Fleet, command: Command, now: float) -> Outcome:
    """Return the outcome of a command; raises `Refused` or `Bug` as submitting it would."""
    loaded: dict[Ref, Entity | None] = {}

    def get(ref: Ref) -> Entity | None:
        if ref not in loaded:
            raise EntityNotLoaded(ref)
        return loaded[ref]

    validate(command)
    while True:
        try:
            if len(loaded) <= _AT_ONCE:
                return cascade.run(command, now, get)
            return await asyncio.to_thread(cascade.run, command, now, get)  # it takes long
        except EntityNotLoaded as missing:
            loaded |= await fleet.reader.read_all([missing.ref])
        except FairwarningError:
            raise
        except Exception as error:
            log.exception("cannot find out what %s would do", type(command).__name__)
            raise Bug(
                "because of a bug in the service, it is unknown what this would do"
            ) from error


def created_events(outcome: Outcome) -> list[Event]:
    """Return the events that an outcome adds."""
    return [
        event
        for before, after in outcome.changes.values()
        if isinstance(after, Scope)
        for event in after.events.values()
        if not isinstance(before, Scope) or event.id not in before.events
    ]


async def plan_scale(fleet: Fleet, command: Scale) -> responses.ScalePlan:
    """Return which instances the command would delete, and with how much notice."""
    now = fleet.clock.now()
    outcome = await decide(fleet, command, now)
    at_once = [each.machine for each in outcome.impacts if each.kind is ImpactKind.DELETE]
    scheduled = [
        event
        for event in created_events(outcome)
        if event.status is EventStatus.SCHEDULED and event.impact is ImpactKind.DELETE
    ]
    announced = [name for event in scheduled for name in event.resources]
    notices = [int(event.not_before - now) for event in scheduled]
    return responses.ScalePlan(
        set=command.set,
        capacity=command.capacity,
        deleted=len(at_once) + len(announced),
        without_notice=len(at_once),
        notice_seconds=min(notices, default=None),
        instances=[*at_once, *announced][:_NAMED],
    )
