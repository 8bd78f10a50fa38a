"""What a test holds of its cloud: machines, scale sets, operations, rollouts. Plain calls."""

import json
import os
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fairwarning.core import commands, limits
from fairwarning.core.commands import Operate
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
from fairwarning.service.config.values import ENTRY, MODEL, table
from fairwarning.store.store import MachineLocation
from fairwarning.testing.service import ServiceThread, ask

NEWEST = "2020-07-01"
_DAY_SECONDS = 24 * 3600
_PROXIES = ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")  # none leads to a machine
_MODEL = MODEL | {"rules": ENTRY["rules"]}


def with_notice(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The same, a terminate notice in seconds written as the fleet file has it."""
    seconds = settings.get("terminate_notice")
    if type(seconds) is not int:
        return dict(settings)
    if not seconds:
        return {key: value for key, value in settings.items() if key != "terminate_notice"}
    return {**settings, "terminate_notice": format_duration(seconds)}


def impact(kind: str) -> ImpactKind:
    """What maintenance does, by its word."""
    known = (ImpactKind.FREEZE, ImpactKind.REBOOT, ImpactKind.REDEPLOY)
    for one in known:
        if kind == one.value:
            return one
    raise Refused("BadKind", f"kind must be one of {', '.join(known)}, not {kind!r}")


class OperationHandle:
    """What was asked for, from acceptance to its end."""

    def __init__(self, service: ServiceThread, name: str) -> None:
        self._service = service
        self.id = name

    def __repr__(self) -> str:
        return f"<{self._state.kind} {self.id}: {self.status}>"

    @property
    def _state(self) -> OperationState:
        found = self._service.run(self._service.fleet.reader.read(OperationState, self.id))
        assert found is not None
        return found

    @property
    def status(self) -> str:
        """`InProgress`, `Succeeded`, `Failed` or `Canceled`."""
        return self._state.status.value

    @property
    def error(self) -> str:
        """Why it failed."""
        return self._state.error

    @property
    def events(self) -> list[Event]:
        """What it announced and is not over yet."""
        return self._service.run(self._events())

    async def _events(self) -> list[Event]:
        found: list[Event] = []
        for scope in await self._service.scopes():
            own = {event.id for event in scope.events.values() if event.operation == self.id}
            found += [e for e in await self._service.announced(scope.id) if e.id in own]
        return found

    @property
    def event(self) -> Event | None:
        """The first of them; None if there was no notice, and once it is over."""
        return next(iter(self.events), None)


class MachineHandle:
    """One machine: what it sees, what happens to it."""

    def __init__(self, service: ServiceThread, place: MachineLocation) -> None:
        self._service = service
        self._place = place
        self.name = place.machine.name
        self.scope = place.scope
        self.url = service.url(place)
        """Where this machine, and no other, asks; for any client."""

    def __repr__(self) -> str:
        return f"<machine {self.name} at {self.url}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MachineHandle) and self.url == other.url

    def __hash__(self) -> int:
        return hash(self.url)

    # --- From inside ---

    @property
    def env(self) -> dict[str, str]:
        """The environment of a program that is to run inside this machine."""
        kept = {key: value for key, value in os.environ.items() if key not in _PROXIES}
        return kept | {VARIABLE: self.url}

    def document(self, version: str = NEWEST) -> dict[str, Any]:
        """What the machine reads just now, over HTTP; as any poll does, it enables the feature."""
        read: dict[str, Any] = json.loads(self._ask("GET", version))
        return read

    def approve(self, *events: Event | str) -> None:
        """Approve as a client inside would; without a name, all that is scheduled for it."""
        named = events or tuple(event for event in self.events if not event.started)
        if not named:
            raise Refused("NothingToApprove", f"nothing is scheduled for {self.name!r}")
        ids = [event.id if isinstance(event, Event) else event for event in named]
        body = {"StartRequests": [{"EventId": one} for one in ids]}
        self._ask("POST", NEWEST, json.dumps(body).encode())
        self._service.run(self._service.fleet.settled())

    def _ask(self, method: str, version: str, body: bytes | None = None) -> bytes:
        path = f"/metadata/scheduledevents?api-version={version}"
        status, answer = ask(self.url, method, path, body)
        if status == HTTPStatus.OK:
            return answer
        said = f"{self.name!r} was answered {status}: {answer.decode(errors='replace')}"
        passes = status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in {410, 429}
        raise (Unavailable if passes else Refused)("Answered", said)

    # --- From outside ---

    @property
    def events(self) -> list[Event]:
        """What is announced for this machine. To look here is no poll, and meets no fault."""
        announced = self._service.run(self._service.announced(self.scope))
        return [event for event in announced if event.concerns(self.name)]

    @property
    def history(self) -> list[str]:
        """What has happened to it, from the moment each began: `["freeze", "reboot"]`."""
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
        return self._found() is not None

    @property
    def power(self) -> str:
        """`running`, `stopped` or `deallocated`."""
        return self.state.power.value

    @property
    def state(self) -> MachineState:
        """All that the service knows of it: domains, host name, priority, tags and so on."""
        found = self._found()
        if found is None:
            raise NotFound("UnknownMachine", f"the machine {self.name!r} is gone")
        return found.machine

    def _found(self) -> MachineLocation | None:
        fleet = self._service.fleet
        found = self._service.run(fleet.reader.find_machines(number=self._place.number))
        return found[0] if found else None

    # --- What happens to it ---

    def restart(self) -> OperationHandle:
        """The user restarts it: Reboot, 15 minutes' notice."""
        return self._operate(commands.Restart)

    def redeploy(self) -> OperationHandle:
        """The user moves it to another host: Redeploy, 10 minutes' notice."""
        return self._operate(commands.Redeploy)

    def freeze(self, seconds: int | None = None) -> OperationHandle:
        """The platform freezes it for some seconds: Freeze, 15 minutes' notice."""
        return self.maintain("freeze", seconds)

    def maintain(
        self, kind: str = "freeze", seconds: int | None = None, *, migration: bool = False
    ) -> OperationHandle:
        """The platform works on its host: `freeze`, `reboot` or `redeploy`."""
        lasts = limits.UNKNOWN_DURATION if seconds is None else seconds
        return self._operate(
            commands.Maintain, kind=impact(kind), duration_seconds=lasts, migration=migration
        )

    def evict(self) -> OperationHandle:
        """The platform takes it back, if it is Spot: Preempt, 30 seconds' notice."""
        return self._operate(commands.Evict)

    def recommend(self) -> OperationHandle:
        """The platform advises to leave it, if it is Spot; nothing follows."""
        return self._operate(commands.Recommend)

    def fail(self) -> OperationHandle:
        """Its hardware fails: Redeploy, started at once."""
        return self._operate(commands.Fail)

    def degrade(self, days: float | None = None) -> OperationHandle:
        """Its hardware is going to fail, so many days from now: Redeploy."""
        at = None if days is None else int(self._service.clock.now() + days * _DAY_SECONDS)
        return self._operate(commands.Degrade, not_before=at)

    def delete(self) -> OperationHandle:
        """The user deletes it: Terminate, where it has a terminate notice."""
        return self._operate(commands.Delete)

    def stop(self) -> OperationHandle:
        """The user powers it off, without notice."""
        return self._operate(commands.Stop)

    def deallocate(self) -> OperationHandle:
        """The user gives its hardware back, without notice."""
        return self._operate(commands.Deallocate)

    def start(self) -> OperationHandle:
        """The user powers it on."""
        return self._operate(commands.Start)

    def reimage(self) -> OperationHandle:
        """The user puts its image back, without notice."""
        return self._operate(commands.Reimage)

    def _operate(self, action: type[Operate], **how: Any) -> OperationHandle:  # noqa: ANN401  (fields)
        state, name = self.state, self._service.name()
        scope = self._service.run(self._service.fleet.reader.read(Scope, self.scope))
        if scope and scope.owner and action in commands.OF_A_SET:
            command: commands.Command = commands.OperateInstances(
                set=scope.owner, operation=name, action=action, instances=(state.instance,)
            )
        else:
            command = action(scope=self.scope, operation=name, machines=(self.name,), **how)
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
        """All that the service knows of it: its model, its placement groups and so on."""
        found = self._found()
        if found is None:
            raise NotFound("UnknownSet", f"there is no scale set {self.name!r}")
        return found

    def _found(self) -> SetState | None:
        return self._service.run(self._service.fleet.reader.read(SetState, self.name))

    @property
    def exists(self) -> bool:
        """Whether it has not been deleted."""
        return self._found() is not None

    @property
    def machines(self) -> list[MachineHandle]:
        """Its instances, in order of their ids."""
        places = self._service.run(self._service.machines_of(self.state.groups))
        places.sort(key=lambda place: place.machine.instance)
        return [MachineHandle(self._service, place) for place in places]

    def scale(self, capacity: int) -> OperationHandle:
        """So many instances from now on; those that leave get their notice."""
        return self._submit(commands.Scale, capacity=capacity)

    def delete(self, *instances: MachineHandle | int) -> OperationHandle:
        """Delete these, by id or as machines; without any, the whole set. Each gets its notice."""
        if not instances:
            return self._submit(commands.DeleteSet)
        ids = self._ids(instances)
        return self._submit(commands.OperateInstances, action=commands.Delete, instances=ids)

    def update(self, **settings: Any) -> None:  # noqa: ANN401  (as the fleet file has them)
        """Change the model: `terminate_notice`, `size`, `tags`, `upgrade`, `scale_in`, `rules`."""
        given = table(with_notice(settings), _MODEL)
        notice = given.pop("terminate_notice", 0 if "terminate_notice" in settings else None)
        if "rules" in given:
            given["rules"] = Rules(**given["rules"])
        self._service.submit(commands.UpdateSet(set=self.name, terminate_seconds=notice, **given))

    def upgrade(self, *instances: MachineHandle | int) -> None:
        """Bring these to the present model; without any, all."""
        ids = self._ids(instances) if instances else None
        self._service.submit(commands.UpgradeInstances(set=self.name, instances=ids))

    def protect(self, *instances: MachineHandle | int, protected: bool = True) -> None:
        """Keep these from being chosen when the set shrinks, or no longer."""
        self._service.submit(
            commands.ProtectInstances(
                set=self.name, instances=self._ids(instances), protected=protected
            )
        )

    def _ids(self, instances: tuple[MachineHandle | int, ...]) -> tuple[int, ...]:
        return tuple(
            one.state.instance if isinstance(one, MachineHandle) else one for one in instances
        )

    def _submit(self, kind: type[commands.SetOperation], **how: Any) -> OperationHandle:  # noqa: ANN401  (fields)
        name = self._service.name()
        self._service.submit(kind(set=self.name, operation=name, **how))
        self._service.run(self._service.enable_set(self.name))
        return OperationHandle(self._service, name)


class RolloutHandle:
    """A host rollout, and how far it is."""

    def __init__(self, service: ServiceThread, name: str) -> None:
        self._service = service
        self.id = name

    def __repr__(self) -> str:
        state = self.state
        return f"<rollout {self.id}: {state.status}, {state.done} of {state.machines} done>"

    @property
    def state(self) -> RolloutState:
        """Its progress: `machines`, `done`, `failed`, `skipped`."""
        found = self._service.run(self._service.fleet.reader.read(RolloutState, self.id))
        assert found is not None
        return found

    @property
    def status(self) -> str:
        """`Running`, `Paused`, `Aborted` or `Done`."""
        return self.state.status.value

    @property
    def done(self) -> int:
        """How many machines it has been through."""
        return self.state.done

    def pause(self) -> None:
        """Begin nothing new; what was announced goes on."""
        self._service.submit(commands.PauseRollout(rollout=self.id))

    def resume(self) -> None:
        """Go on."""
        self._service.submit(commands.ResumeRollout(rollout=self.id))

    def abort(self) -> None:
        """End it: what it scheduled is cancelled, what has started runs out."""
        self._service.submit(commands.AbortRollout(rollout=self.id))
