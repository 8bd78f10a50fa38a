"""Which machines and events a list shows. An empty field of a filter allows everything."""

from collections.abc import Iterable

from fairwarning.core.model import Event, EventStatus, Machine, Scope
from fairwarning.core.record import record


@record
class MachineFilter:
    """Conditions on a machine; all must hold."""

    scope: str = ""
    set: str = ""
    power: str = ""
    type: str = ""  # of one of its events
    status: str = ""  # of one of its events
    not_polled: bool = False
    text: str = ""  # in its name or its scope's, in any case

    def allows(self, scope: Scope, machine: Machine) -> bool:
        """Whether all conditions hold."""
        return (
            (not self.scope or scope.id == self.scope)
            and (not self.set or scope.owner == self.set)
            and (not self.power or machine.power == self.power)
            and not (self.not_polled and scope.enabled)
            and (not self.text or has_text(self.text, (machine.name, scope.id)))
            and (not (self.type or self.status) or self._has_event(scope, machine))
        )

    def _has_event(self, scope: Scope, machine: Machine) -> bool:
        return any(
            machine.name in event.resources
            and (not self.type or event.type == self.type)
            and (not self.status or event.status == self.status)
            for event in scope.events.values()
        )


EVERY_MACHINE = MachineFilter()


@record
class EventFilter:
    """Conditions on an event; all must hold."""

    scope: str = ""
    set: str = ""
    machine: str = ""
    type: str = ""
    status: str = ""
    source: str = ""
    operation: str = ""
    rollout: str = ""
    not_polled: bool = False
    unapproved: bool = False  # scheduled, and approved by nobody
    since: float | None = None  # it starts then or later
    until: float | None = None  # it starts then or earlier
    prefix: str = ""  # of its id
    text: str = ""  # in its id, its scope's, its description or a machine's name, in any case

    def allows(self, scope: Scope, event: Event) -> bool:
        """Whether all conditions hold."""
        return (
            (not self.scope or scope.id == self.scope)
            and (not self.set or scope.owner == self.set)
            and (not self.machine or self.machine in event.resources)
            and (not self.type or event.type == self.type)
            and (not self.status or event.status == self.status)
            and (not self.source or event.source == self.source)
            and (not self.operation or event.operation == self.operation)
            and (not self.rollout or event.operation.startswith(f"{self.rollout}/"))
            and not (self.not_polled and scope.enabled)
            and not (self.unapproved and not is_unapproved(event))
            and event.id.startswith(self.prefix)
            and (self.since is None or event.not_before >= self.since)
            and (self.until is None or event.not_before <= self.until)
            and (not self.text or self._matches_text(scope, event))
        )

    def _matches_text(self, scope: Scope, event: Event) -> bool:
        places = (event.id, scope.id, event.description, *event.resources)
        return has_text(self.text, places)


EVERY_EVENT = EventFilter()


def is_unapproved(event: Event) -> bool:
    """Whether the event waits and nobody has approved it."""
    return event.status is EventStatus.SCHEDULED and not event.approved_by


def has_text(text: str, places: Iterable[str]) -> bool:
    """Whether a text is in one of these places, in any case."""
    wanted = text.lower()
    return any(wanted in place.lower() for place in places)
