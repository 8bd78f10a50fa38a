"""Handles for tests: machines, scale sets, operations and rollouts of a cloud."""

import json
import os
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fairwarning.core import commands, limits
from fairwarning.core.commands import Operate
from fairwarning.core.configuration import table
from fairwarning.core.decision import FactType
from fairwarning.core.errors import NotFound, Refused, Unavailable
from fairwarning.core.model import ImpactKind, Rules, Scope
from fairwarning.core.model import Machine as MachineState
from fairwarning.core.model import Operation as OperationState
from fairwarning.core.model import Rollout as RolloutState
from fairwarning.core.model import ScaleSet as SetState
from fairwarning.core.times import format_duration
from fairwarning.guest.endpoint import VARIABLE
from fairwarning.guest.events import Event
from fairwarning.service.config.values import ENTRY, MODEL
from fairwarning.store.store import MachineLocation
from fairwarning.testing.service import ServiceThread, ask

NEWEST = "2020-07-01"
_DAY_SECONDS = 24 * 3600
_PROXIES = ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")  # a proxy cannot reach a machine
_MODEL = MODEL | {"rules": ENTRY["rules"]}


def with_notice(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a `terminate_notice` in seconds to the format of the fleet file."""
    seconds = settings.get("terminate_notice")
    if type(seconds) is not int:
        return dict(settings)
    if not seconds:
        return {key: value for key, value in settings.items() if key != "terminate_notice"}
    return {**settings, "terminate_notice": format_duration(seconds)}


def impact(kind: str) -> ImpactKind:
    """Return the impact of maintenance, by its name."""
    known = (ImpactKind.FREEZE, ImpactKind.REBOOT, ImpactKind.REDEPLOY)
    for impact_kind in known:
        if kind == impact_kind.value:
            return impact_kind
    raise Refused("BadKind", f"kind must be one of {', '.join(known)}, not {kind!r}")


def event_id(event: object) -> str:
    """Return the id of an event; refuse what is neither an event nor an id."""
    if isinstance(event, Event):
        return event.id
    if isinstance(event, str):
        return event
    raise Refused("BadEvent", f"pass an event, such as web.events[0], or its id, not {event!r}")


class OperationHandle:
    """An operation."""

    def __init__(self, service: ServiceThread, name: str) -> None:
        self._service = service
        self.id = name

    def __repr__(self) -> str:
        return f"<{self._state.kind} {self.id}: {self.status}>"

    @property
    def _state(self) -> OperationState:
        state = self._service.run(self._service.fleet.reader.read(OperationState, self.id))
        assert state is not None
        return state

    @property
    def status(self) -> str:
        """`InProgress`, `Succeeded`, `Failed` or `Canceled`."""
        return self._state.status.value

    @property
    def error(self) -> str:
        """The reason of a failure."""
        return self._state.error

    @property
    def events(self) -> list[Event]:
        """The active events of the operation."""
        return self._service.run(self._events())

    async def _events(self) -> list[Event]:
        events: list[Event] = []
        for scope in await self._service.scopes():
            own = {event.id for event in scope.events.values() if event.operation == self.id}
            events += [e for e in await self._service.active_events(scope.id) if e.id in own]
        return events

    @property
    def event(self) -> Event | None:
        """The first active event; None if there was no notice or the event is over."""
        return next(iter(self.events), None)


class MachineHandle:
    """A machine."""

    def __init__(self, service: ServiceThread, location: MachineLocation) -> None:
        self._service = service
        self._location = location
        self.name = location.machine.name
        self.scope = location.scope
        self.url = service.url(location)
        """The metadata endpoint of this machine, for any client."""

    def __repr__(self) -> str:
        return f"<machine {self.name} at {self.url}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MachineHandle) and self.url == other.url

    def __hash__(self) -> int:
        return hash(self.url)

    # --- Inside the machine ---

    @property
    def env(self) -> dict[str, str]:
        """The environment for a program that runs as this machine."""
        inherited = {key: value for key, value in os.environ.items() if key not in _PROXIES}
        return inherited | {VARIABLE: self.url}

    def document(self, version: str = NEWEST) -> dict[str, Any]:
        """Poll over HTTP and return the document; like any poll, it enables the feature."""
        document: dict[str, Any] = json.loads(self._ask("GET", version))
        return document

    def approve(self, *events: Event | str) -> None:
        """Approve events as this machine; without arguments, all its scheduled events."""
        chosen = events or tuple(event for event in self.events if not event.started)
        if not chosen:
            raise Refused("NothingToApprove", f"machine {self.name!r} has no scheduled event")
        body = {"StartRequests": [{"EventId": event_id(event)} for event in chosen]}
        self._ask("POST", NEWEST, json.dumps(body).encode())
        self._service.run(self._service.fleet.settled())

    def _ask(self, method: str, version: str, body: bytes = b"") -> bytes:
        path = f"/metadata/scheduledevents?api-version={version}"
        status, answer = ask(self.url, method, path, body)
        if status == HTTPStatus.OK:
            return answer
        text = f"{self.name!r} was answered {status}: {answer.decode(errors='replace')}"
        retryable = status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in {410, 429}
        raise (Unavailable if retryable else Refused)("Answered", text)

    # --- Outside the machine ---

    @property
    def events(self) -> list[Event]:
        """The active events of this machine. Reading them is not a poll and meets no fault."""
        events = self._service.run(self._service.active_events(self.scope))
        return [event for event in events if event.concerns(self.name)]

    @property
    def history(self) -> list[str]:
        """The impacts that have started on it: `["freeze", "reboot"]`."""
        lines = [entry.line for entry in self._service.run(self._service.journal())]
        return [
            str(line.fact.detail)
            for line in lines
            if line.fact.type is FactType.IMPACT_BEGUN
            and self.name in line.fact.machines
            and line.entity == (Scope, self.scope)
        ]

    @property
    def exists(self) -> bool:
        """Whether it has not been deleted."""
        return self._find() is not None

    @property
    def power(self) -> str:
        """`running`, `stopped` or `deallocated`."""
        return self.state.power.value

    @property
    def state(self) -> MachineState:
        """The state of the machine: domains, host name, priority, tags and so on."""
        location = self._find()
        if location is None:
            raise NotFound("UnknownMachine", f"machine {self.name!r} has been deleted")
        return location.machine

    def _find(self) -> MachineLocation | None:
        fleet = self._service.fleet
        return self._service.run(fleet.reader.locate_machine(self._location.number))

    # --- Actions ---

    def restart(self) -> OperationHandle:
        """Restart it as a user: Reboot, 15 minutes' notice."""
        return self._operate(commands.Restart)

    def redeploy(self) -> OperationHandle:
        """Move it to another host as a user: Redeploy, 10 minutes' notice."""
        return self._operate(commands.Redeploy)

    def freeze(self, seconds: int | None = None) -> OperationHandle:
        """Freeze it for some seconds as the platform: Freeze, 15 minutes' notice."""
        return self.maintain("freeze", seconds)

    def maintain(self, kind: str = "freeze", seconds: int | None = None) -> OperationHandle:
        """Perform maintenance on its host as the platform: `freeze`, `reboot` or `redeploy`."""
        return self._maintain(impact(kind), seconds)

    def migrate(self, seconds: int | None = None) -> OperationHandle:
        """Live-migrate it to another host as the platform: Freeze, 15 minutes' notice."""
        return self._maintain(ImpactKind.FREEZE, seconds, migration=True)

    def _maintain(
        self, kind: ImpactKind, seconds: int | None, *, migration: bool = False
    ) -> OperationHandle:
        duration = limits.UNKNOWN_DURATION if seconds is None else seconds
        return self._operate(
            commands.Maintain, kind=kind, duration_seconds=duration, migration=migration
        )

    def evict(self) -> OperationHandle:
        """Evict it as the platform, if it is a Spot machine: Preempt, 30 seconds' notice."""
        return self._operate(commands.Evict)

    def recommend(self) -> OperationHandle:
        """Recommend as the platform to replace it, if it is a Spot machine; it keeps running."""
        return self._operate(commands.Recommend)

    def fail(self) -> OperationHandle:
        """Fail its hardware: Redeploy, started immediately."""
        return self._operate(commands.Fail)

    def degrade(self, days: float | None = None) -> OperationHandle:
        """Report degraded hardware that will fail in `days`: Redeploy."""
        at = None if days is None else int(self._service.clock.now() + days * _DAY_SECONDS)
        return self._operate(commands.Degrade, not_before=at)

    def delete(self) -> OperationHandle:
        """Delete it as a user: Terminate, if it has a termination notice."""
        return self._operate(commands.Delete)

    def stop(self) -> OperationHandle:
        """Stop it as a user, without notice."""
        return self._operate(commands.Stop)

    def deallocate(self) -> OperationHandle:
        """Stop it and release its host as a user, without notice."""
        return self._operate(commands.Deallocate)

    def start(self) -> OperationHandle:
        """Start it as a user."""
        return self._operate(commands.Start)

    def reimage(self) -> OperationHandle:
        """Reimage it as a user, without notice."""
        return self._operate(commands.Reimage)

    def _operate(self, action: type[Operate], **fields: Any) -> OperationHandle:  # noqa: ANN401  (fields of the command)
        state, name = self.state, self._service.new_id()
        scope = self._service.run(self._service.fleet.reader.read(Scope, self.scope))
        if scope and scope.owner and action in commands.OF_A_SET:
            command: commands.Command = commands.OperateInstances(
                set=scope.owner, operation=name, action=action, instances=(state.instance,)
            )
        else:
            command = action(scope=self.scope, operation=name, machines=(self.name,), **fields)
        self._service.submit(command)
        return OperationHandle(self._service, name)


class ScaleSetHandle:
    """A scale set and its instances."""

    def __init__(self, service: ServiceThread, name: str) -> None:
        self._service = service
        self.name = name

    def __repr__(self) -> str:
        return f"<scale set {self.name}>"

    @property
    def state(self) -> SetState:
        """The state of the scale set: its model, its placement groups and so on."""
        state = self._find()
        if state is None:
            raise NotFound("UnknownSet", f"there is no scale set {self.name!r}")
        return state

    def _find(self) -> SetState | None:
        return self._service.run(self._service.fleet.reader.read(SetState, self.name))

    @property
    def exists(self) -> bool:
        """Whether it has not been deleted."""
        return self._find() is not None

    @property
    def machines(self) -> list[MachineHandle]:
        """Its instances, in order of their ids."""
        locations = self._service.run(self._service.machines_of(self.state.groups))
        locations.sort(key=lambda location: location.machine.instance)
        return [MachineHandle(self._service, location) for location in locations]

    def scale(self, capacity: int) -> OperationHandle:
        """Set the number of instances; deleted instances get their notice."""
        return self._submit(commands.Scale, capacity=capacity)

    def delete(self, *instances: MachineHandle | int) -> OperationHandle:
        """Delete instances, or without arguments the whole set. Each instance gets its notice."""
        if not instances:
            return self._submit(commands.DeleteSet)
        ids = self._ids(instances)
        return self._submit(commands.OperateInstances, action=commands.Delete, instances=ids)

    def update(self, **settings: Any) -> None:  # noqa: ANN401  (keys of the fleet file)
        """Change the model: `terminate_notice`, `size`, `tags`, `upgrade`, `scale_in`, `rules`."""
        values = table(with_notice(settings), _MODEL)
        notice = values.pop("terminate_notice", 0 if "terminate_notice" in settings else None)
        if "rules" in values:
            values["rules"] = Rules(**values["rules"])
        self._service.submit(commands.UpdateSet(set=self.name, terminate_seconds=notice, **values))

    def upgrade(self, *instances: MachineHandle | int) -> None:
        """Apply the current model to instances; without arguments, to all."""
        ids = self._ids(instances) if instances else None
        self._service.submit(commands.UpgradeInstances(set=self.name, instances=ids))

    def protect(self, *instances: MachineHandle | int, protected: bool = True) -> None:
        """Protect instances from scale-in, or end the protection."""
        self._service.submit(
            commands.ProtectInstances(
                set=self.name, instances=self._ids(instances), protected=protected
            )
        )

    def _ids(self, instances: tuple[MachineHandle | int, ...]) -> tuple[int, ...]:
        return tuple(map(self._id, instances))

    def _id(self, instance: object) -> int:
        if isinstance(instance, int):
            return instance
        if not isinstance(instance, MachineHandle):
            text = "an instance is given by its handle, such as find('web_0'), or by its id"
            raise Refused("BadTarget", f"{text}, not by {instance!r}")
        if instance.scope not in self.state.groups:
            text = f"machine {instance.name!r} is no instance of scale set {self.name!r}"
            raise NotFound("UnknownInstance", text)
        return instance.state.instance

    def _submit(self, kind: type[commands.SetOperation], **fields: Any) -> OperationHandle:  # noqa: ANN401  (fields of the command)
        name = self._service.new_id()
        self._service.submit(kind(set=self.name, operation=name, **fields))
        self._service.run(self._service.enable_set(self.name))
        return OperationHandle(self._service, name)


class RolloutHandle:
    """A host rollout."""

    def __init__(self, service: ServiceThread, name: str) -> None:
        self._service = service
        self.id = name

    def __repr__(self) -> str:
        state = self.state
        return f"<rollout {self.id}: {state.status}, {state.done} of {state.machines} done>"

    @property
    def state(self) -> RolloutState:
        """Its progress: `machines`, `done`, `failed`, `skipped`."""
        state = self._service.run(self._service.fleet.reader.read(RolloutState, self.id))
        assert state is not None
        return state

    @property
    def status(self) -> str:
        """`Running`, `Paused`, `Aborted` or `Done`."""
        return self.state.status.value

    @property
    def done(self) -> int:
        """The number of machines that are done."""
        return self.state.done

    def pause(self) -> None:
        """Pause it; events that are already scheduled still happen."""
        self._service.submit(commands.PauseRollout(rollout=self.id))

    def resume(self) -> None:
        """Resume it."""
        self._service.submit(commands.ResumeRollout(rollout=self.id))

    def abort(self) -> None:
        """Abort it: scheduled events are cancelled, started events run to their end."""
        self._service.submit(commands.AbortRollout(rollout=self.id))
