"""A cloud in this process, for tests: machines that are told what is coming, and time to move.

with Cloud() as cloud:
    web = cloud.machine("web")
    web.restart()
    assert web.document()["Events"][0]["EventType"] == "Reboot"
"""

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

from fairwarning.core import commands, limits
from fairwarning.core.errors import NotFound, Refused
from fairwarning.core.model import ScaleSet as SetState
from fairwarning.core.times import iso
from fairwarning.guest.events import Event
from fairwarning.service.config import fleet_file
from fairwarning.service.config.fleet_file import Create, FleetFile
from fairwarning.service.config.settings import CloudSettings, MetadataSettings
from fairwarning.service.config.values import MACHINE
from fairwarning.service.faults import FaultKind, FaultRule
from fairwarning.service.history.explanations import detail_text
from fairwarning.service.lookup import find_machine
from fairwarning.store.store import JournalEntry
from fairwarning.testing.handles import (
    MachineHandle,
    OperationHandle,
    RolloutHandle,
    ScaleSetHandle,
    impact,
    with_notice,
)
from fairwarning.testing.service import ServiceThread, addresses

__all__ = ["Cloud", "MachineHandle", "OperationHandle", "RolloutHandle", "ScaleSetHandle"]

Target = MachineHandle | ScaleSetHandle | Iterable[MachineHandle]

_LOOK_SECONDS = 0.005  # between two looks at a condition


class Cloud:
    """A cloud of its own, up from the beginning; `close` it, or use it in a `with`.

    Time stands still unless it is moved. Any thread may call.
    """

    def __init__(
        self, fleet: str = "", *, start: datetime | None = None, sockets: bool | None = None
    ) -> None:
        """Begin with the machines of a fleet file's text, at a moment (now, if none is given).

        `sockets`: whether machines ask at Unix sockets; by default only where there is no
        address for each of them.
        """
        file = fleet_file.read(fleet) if fleet else FleetFile()
        began = int(start.timestamp() if start else time.time())  # as whole as NotBefore
        use_sockets = not addresses() if sockets is None else sockets
        self._service = ServiceThread(file, float(began), sockets=use_sockets)
        self._service.open()
        try:
            self._create(file.commands)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End it, and leave nothing behind."""
        self._service.close()

    @property
    def is_open(self) -> bool:
        """Whether it can be asked."""
        return self._service.is_open

    # --- What there is ---

    def machine(self, name: str, *, enabled: bool = True, **settings: Any) -> MachineHandle:  # noqa: ANN401  (as the fleet file has them)
        """A machine by itself, set up as a `[[machine]]` of the fleet file.

        If `enabled`, it has asked for its events once, so that it gets notice.
        """
        if "count" in settings:
            raise Refused("BadSetting", "machine() makes one; machines() makes several, in a set")
        (made,) = self._make("machine", {"name": name, **settings}, enabled=enabled)
        return made

    def machines(
        self,
        name: str,
        count: int,
        *,
        enabled: bool = True,
        **settings: Any,  # noqa: ANN401  (as the fleet file has them)
    ) -> list[MachineHandle]:
        """An availability set of machines `{name}_0`, `{name}_1` and so on."""
        own = with_notice({key: value for key, value in settings.items() if key in MACHINE})
        rest = {key: value for key, value in settings.items() if key not in MACHINE}
        members = [{"name": f"{name}_{n}", **own} for n in range(count)]
        entry = {"name": name, "machines": members, **rest}
        return self._make("availability_set", entry, enabled=enabled)

    def scale_set(
        self,
        name: str,
        capacity: int,
        *,
        enabled: bool = True,
        **settings: Any,  # noqa: ANN401  (as the fleet file has them)
    ) -> ScaleSetHandle:
        """A scale set, set up as a `[[scale_set]]`; `terminate_notice` may be in seconds."""
        self._make("scale_set", {"name": name, "capacity": capacity, **settings}, enabled=enabled)
        return ScaleSetHandle(self._service, name)

    def load(self, fleet: str, *, enabled: bool = True) -> list[MachineHandle]:
        """All that a fleet file's text says; its machines, in order."""
        file = fleet_file.read(fleet)
        if file.cloud != CloudSettings() or file.endpoint != MetadataSettings():
            text = "[cloud] and [metadata] hold from the beginning: give them to the fixture's mark"
            raise Refused("BadFleetFile", text)
        return self._create(file.commands, enabled=enabled)

    def find(self, name: str) -> MachineHandle:
        """The machine of this name (`web_3`, or `web/0/web_3` where several have it)."""
        place = self._service.run(find_machine(self._service.fleet, name))
        return MachineHandle(self._service, place)

    def find_set(self, name: str) -> ScaleSetHandle:
        """The scale set of this name."""
        if self._service.run(self._service.fleet.reader.read(SetState, name)) is None:
            raise NotFound("UnknownSet", f"there is no scale set {name!r}")
        return ScaleSetHandle(self._service, name)

    def _make(self, kind: str, entry: Mapping[str, Any], *, enabled: bool) -> list[MachineHandle]:
        lines = [f"{key} = {toml(value)}" for key, value in with_notice(entry).items()]
        text = "\n".join([f"[[{kind}]]", *lines])
        return self._create(fleet_file.read(text, "settings").commands, enabled=enabled)

    def _create(self, wanted: Iterable[Create], *, enabled: bool = True) -> list[MachineHandle]:
        places = self._service.create(wanted, enabled=enabled)
        return [MachineHandle(self._service, place) for place in places]

    # --- Being inside ---

    @contextmanager
    def inside(self, machine: MachineHandle) -> Iterator[MachineHandle]:
        """Let this process be the machine: clients that ask the environment find its endpoint."""
        before = dict(os.environ)
        inside = machine.env
        changed = {
            key for key in before.keys() | inside.keys() if before.get(key) != inside.get(key)
        }
        try:
            _set_environment({key: inside.get(key) for key in changed})
            yield machine
        finally:
            _set_environment({key: before.get(key) for key in changed})

    # --- Time ---

    @property
    def now(self) -> datetime:
        """The time in this cloud, in UTC."""
        return datetime.fromtimestamp(self._service.clock.now(), UTC)

    def advance(
        self, seconds: float = 0, *, minutes: float = 0, hours: float = 0, days: float = 0
    ) -> None:
        """Let time pass, and everything that is due in it happen."""
        total = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
        self._service.run(self._service.fleet.advance(total))

    def run(self, rate: float) -> None:
        """Let time run by itself, so many times as fast as real time; 0 makes it stand still."""
        self._service.run(self._service.fleet.run_clock(rate))

    def settle(self) -> None:
        """Let time pass until nothing is planned or under way any more."""
        self._service.run(self._service.settle())

    def until(self, condition: Callable[[], object], seconds: float = 10.0) -> None:
        """Return once it holds: for handlers with a thread of their own. The seconds are real."""
        ends = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > ends:
                raise TimeoutError(f"it did not come to hold within {seconds:g} seconds")
            time.sleep(_LOOK_SECONDS)

    # --- What the platform does ---

    def rollout(
        self,
        *targets: Target,
        kind: str = "freeze",
        seconds: int | None = None,
        batch: int = limits.ROLLOUT_BATCH,
        by_host: bool = False,
    ) -> RolloutHandle:
        """Work through all machines of these machines' sets, an update domain after the other.

        Without any, through the whole cloud.
        """
        name, lasts = self._service.name(), limits.UNKNOWN_DURATION if seconds is None else seconds
        command = commands.StartRollout(
            rollout=name,
            scopes=self._scopes(targets),
            kind=impact(kind),
            by_host=by_host,
            batch=batch,
            duration_seconds=lasts,
        )
        self._service.submit(command)
        return RolloutHandle(self._service, name)

    def _scopes(self, targets: Iterable[Target]) -> tuple[str, ...]:
        found: dict[str, None] = {}
        for target in targets:
            if isinstance(target, ScaleSetHandle):
                found |= dict.fromkeys(target.state.groups)
            elif isinstance(target, MachineHandle):
                found[target.scope] = None
            else:
                found |= dict.fromkeys(self._scopes(target))
        if not targets:
            found = {scope.id: None for scope in self._service.run(self._service.scopes())}
        return tuple(found)

    def cancel(self, event: Event | str) -> None:
        """This will not happen after all."""
        wanted = event.id if isinstance(event, Event) else event
        for scope in self._service.run(self._service.scopes()):
            if wanted in scope.events:
                self._service.submit(commands.Cancel(scope=scope.id, event=wanted))
                return
        raise NotFound("UnknownEvent", f"there is no event {wanted!r}, or it is over")

    def fault(
        self,
        kind: str,
        *,
        machine: MachineHandle | None = None,
        scope: str = "",
        count: int = 0,
        seconds: float = 0.0,
        delay_seconds: float = 1.0,
    ) -> None:
        """Let the endpoint misbehave for a machine, a scope or all, a number of times or a while.

        Kinds: `delay`, `empty`, `control`, `truncated`, `404`, `410`, `429`, `500`, `reset`.
        """
        fault = FaultRule(
            kind=_fault(kind),
            scope=machine.scope if machine else scope,
            machine=machine.name if machine else "",
            count=count,
            seconds=seconds,
            delay_seconds=delay_seconds,
        )
        self._service.run(self._put(fault))

    def clear_faults(self) -> None:
        """All is well again."""
        self._service.run(self._put(None))

    async def _put(self, fault: FaultRule | None) -> None:
        faults = self._service.fleet.faults
        if fault:
            faults.put(fault)
        else:
            faults.clear()

    # --- What happened ---

    def journal(self) -> str:
        """Who was told what and when, who approved, and what was done: a line for each."""
        return "\n".join(map(_told, self._service.run(self._service.journal())))


def _fault(kind: str) -> FaultKind:
    for one in FaultKind:
        if kind == one.value:
            return one
    raise Refused("BadFault", f"kind must be one of {', '.join(FaultKind)}, not {kind!r}")


def _set_environment(values: Mapping[str, str | None]) -> None:
    for key, value in values.items():
        if value is None:
            os.environ.pop(key, None)
        else:
            os.environ[key] = value


def toml(value: object) -> str:
    """A setting as the fleet file has it."""
    if isinstance(value, Mapping):
        inside = (f"{json.dumps(str(key))} = {toml(one)}" for key, one in value.items())
        return f"{{ {', '.join(inside)} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml, value))}]"
    if isinstance(value, str | int | float):
        return json.dumps(value, ensure_ascii=False)
    raise Refused("BadSetting", f"a setting is text, a number, a list or a table, not {value!r}")


def _told(entry: JournalEntry) -> str:
    line, fact = entry.line, entry.line.fact
    about = [
        ", ".join(fact.machines),
        detail_text(fact),
        fact.event and f"event {fact.event[:8]}",
        fact.operation,
    ]
    shown = ", ".join(part for part in about if part)
    text = f"{iso(int(line.at))} {line.entity[1]}: {fact.type}"
    return f"{text} ({shown}) by {line.actor}" if shown else f"{text} by {line.actor}"
