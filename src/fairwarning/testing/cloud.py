"""A cloud in this process, for tests: machines with scheduled events, and a virtual clock.

with Cloud() as cloud:
    web = cloud.machine("web")
    web.restart()
    assert web.document()["Events"][0]["EventType"] == "Reboot"
"""

import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Self

from fairwarning.core import commands, limits
from fairwarning.core.errors import Conflict, NotFound, Refused
from fairwarning.core.model import ScaleSet as SetState
from fairwarning.core.model import Scope
from fairwarning.core.times import iso
from fairwarning.guest.events import Event
from fairwarning.metadata.listeners import has_machine_addresses
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
    event_id,
    impact,
    with_notice,
)
from fairwarning.testing.service import ServiceThread
from fairwarning.testing.targets import Target, machine_of, name_of, scopes_of

__all__ = ["Cloud", "MachineHandle", "OperationHandle", "RolloutHandle", "ScaleSetHandle"]

_STANDS_STILL = "; the cloud's clock stands still, so nothing falls due before advance() or run()"
_CHECK_SECONDS = 0.005  # between two checks of a condition

_environment_lock = threading.RLock()  # held by the thread that is inside a machine


class Cloud:
    """A running cloud; `close` it, or use it in a `with` statement.

    Its clock stands still until it is advanced. The methods are thread-safe.
    """

    def __init__(
        self, fleet: str = "", *, start: datetime | None = None, sockets: bool | None = None
    ) -> None:
        """Start with the machines of a fleet file text, at the time `start` (default: now).

        `start` needs a time zone.

        `sockets`: whether machines use Unix sockets; by default only if they cannot have loopback
        addresses of their own.
        """
        file = fleet_file.read(fleet) if fleet else FleetFile()
        if start and start.utcoffset() is None:
            text = f"start={start!r} has no time zone; add one, such as tzinfo=UTC"
            raise Refused("BadStart", text)
        start_seconds = int(start.timestamp() if start else time.time())  # like NotBefore
        use_sockets = not has_machine_addresses() if sockets is None else sockets
        self._service = ServiceThread(file, float(start_seconds), sockets=use_sockets)
        self._service.open()
        try:
            self._create(file.commands)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the cloud and remove its files."""
        self._service.close()

    @property
    def is_open(self) -> bool:
        """Whether the cloud is running."""
        return self._service.is_open

    # --- Machines and scale sets ---

    def machine(self, name: str, *, enabled: bool = True, **settings: Any) -> MachineHandle:  # noqa: ANN401  (keys of the fleet file)
        """Create a standalone machine, with the settings of a `[[machine]]` in the fleet file.

        If `enabled`, the machine has polled once, so it gets notice.
        """
        if "count" in settings:
            raise Refused(
                "BadSetting", "machine() creates one machine; use machines() to create several"
            )
        (machine,) = self._make("machine", {"name": name, **settings}, enabled=enabled)
        return machine

    def machines(
        self,
        name: str,
        count: int,
        *,
        enabled: bool = True,
        **settings: Any,  # noqa: ANN401  (keys of the fleet file)
    ) -> list[MachineHandle]:
        """Create an availability set of the machines `{name}_0`, `{name}_1` and so on."""
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
        **settings: Any,  # noqa: ANN401  (keys of the fleet file)
    ) -> ScaleSetHandle:
        """Create a scale set, with the settings of a `[[scale_set]]` in the fleet file.

        `terminate_notice` may be in seconds.
        """
        self._make("scale_set", {"name": name, "capacity": capacity, **settings}, enabled=enabled)
        return ScaleSetHandle(self._service, name)

    def load(self, fleet: str, *, enabled: bool = True) -> list[MachineHandle]:
        """Create everything in a fleet file text; return its machines in order."""
        file = fleet_file.read(fleet)
        if file.cloud != CloudSettings() or file.endpoint != MetadataSettings():
            text = (
                "[cloud] and [metadata] cannot change in a running cloud; set them with the mark"
                " of the fixture, or pass them to Cloud()"
            )
            raise Refused("BadFleetFile", text)
        return self._create(file.commands, enabled=enabled)

    def find(self, name: str) -> MachineHandle:
        """Return the machine with this name (`web_3`; if ambiguous, `web/0/web_3`)."""
        location = self._service.run(find_machine(self._service.fleet, name_of(name)))
        return MachineHandle(self._service, location)

    def find_set(self, name: str) -> ScaleSetHandle:
        """Return the scale set with this name."""
        if self._service.run(self._service.fleet.reader.read(SetState, name_of(name))) is None:
            raise NotFound("UnknownSet", f"there is no scale set {name!r}")
        return ScaleSetHandle(self._service, name)

    def _make(self, kind: str, entry: Mapping[str, Any], *, enabled: bool) -> list[MachineHandle]:
        lines = [f"{key} = {toml(value)}" for key, value in with_notice(entry).items()]
        text = "\n".join([f"[[{kind}]]", *lines])
        return self._create(fleet_file.read(text, "settings").commands, enabled=enabled)

    def _create(self, creates: Iterable[Create], *, enabled: bool = True) -> list[MachineHandle]:
        locations = self._service.run(self._service.create(creates, enabled=enabled))
        return [MachineHandle(self._service, location) for location in locations]

    # --- Environment ---

    @contextmanager
    def inside(self, machine: MachineHandle) -> Iterator[MachineHandle]:
        """Set the environment of this process so that clients use the machine's endpoint.

        One thread at a time may be inside.
        """
        with _no_other_thread():
            before = dict(os.environ)
            env = machine_of(machine).env
            changed = {key for key in before.keys() | env.keys() if before.get(key) != env.get(key)}
            try:
                _set_environment({key: env.get(key) for key in changed})
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
        """Advance the clock; everything that falls due in that time happens."""
        total = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
        self._service.run(self._service.fleet.advance(total))

    def run(self, rate: float) -> None:
        """Run the clock at `rate` times real time; 0 stops it."""
        self._service.run(self._service.fleet.run_clock(rate))

    def settle(self) -> None:
        """Advance the clock until no event, impact or rollout is left."""
        self._service.run(self._service.settle())

    def until(self, condition: Callable[[], object], seconds: float = 10.0) -> None:
        """Wait, in real time, until a condition holds; for handlers that run in a thread."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                text = f"the condition did not hold within {seconds:g} seconds of real time"
                raise TimeoutError(text + ("" if self._service.clock.rate else _STANDS_STILL))
            time.sleep(_CHECK_SECONDS)

    # --- Actions of the platform ---

    def rollout(
        self,
        *targets: Target,
        kind: str = "freeze",
        seconds: int | None = None,
        batch: int = limits.ROLLOUT_BATCH,
        by_host: bool = False,
    ) -> RolloutHandle:
        """Start a rollout over the scopes of the targets, one update domain after the other.

        Without targets, it covers every scope. A target without machines is refused.
        """
        scopes = scopes_of(targets) if targets else self._all_scopes()
        name = self._service.new_id()
        duration = limits.UNKNOWN_DURATION if seconds is None else seconds
        command = commands.StartRollout(
            rollout=name,
            scopes=tuple(dict.fromkeys(scopes)),
            kind=impact(kind),
            by_host=by_host,
            batch=batch,
            duration_seconds=duration,
        )
        self._service.submit(command)
        return RolloutHandle(self._service, name)

    def _all_scopes(self) -> list[str]:
        return [scope.id for scope in self._service.run(self._service.scopes())]

    def cancel(self, event: Event | str) -> None:
        """Cancel a scheduled event."""
        event = event_id(event)
        for scope in self._service.run(self._service.scopes()):
            if event in scope.events:
                self._service.submit(commands.Cancel(scope=scope.id, event=event))
                return
        raise NotFound("UnknownEvent", f"there is no event {event!r}, or it is over")

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
        """Inject a fault into the endpoint, for a machine, a scope or all machines.

        `count` limits the requests, `seconds` the duration; by default the fault has no limit.

        Kinds: `delay`, `empty`, `control`, `truncated`, `404`, `410`, `429`, `500`, `reset`.
        """
        if machine is not None:
            scope = machine_of(machine).scope
        elif scope != "":
            self._check_scope(scope)
        fault = FaultRule(
            kind=_fault_kind(kind),
            scope=scope,
            machine=machine.state.name if machine else "",
            count=count,
            seconds=seconds,
            delay_seconds=delay_seconds,
        )
        self._service.run(self._set_fault(fault))

    def _check_scope(self, name: str) -> None:
        if self._service.run(self._service.fleet.reader.read(Scope, name)) is None:
            text = f"there is no scope {name!r}; pass the `scope` of a machine, such as 'web/0'"
            raise NotFound("UnknownScope", text)

    def clear_faults(self) -> None:
        """Remove all faults."""
        self._service.run(self._set_fault(None))

    async def _set_fault(self, fault: FaultRule | None) -> None:
        faults = self._service.fleet.faults
        if fault:
            faults.put(fault)
        else:
            faults.clear()

    # --- Journal ---

    def journal(self) -> str:
        """Return the journal: deliveries, approvals and impacts, one per line."""
        return "\n".join(map(_format, self._service.run(self._service.journal())))


def _fault_kind(kind: str) -> FaultKind:
    for fault_kind in FaultKind:
        if kind == fault_kind.value:
            return fault_kind
    raise Refused("BadFault", f"kind must be one of {', '.join(FaultKind)}, not {kind!r}")


@contextmanager
def _no_other_thread() -> Iterator[None]:
    if not _environment_lock.acquire(blocking=False):
        text = "another thread is inside a machine, and all threads share one environment"
        raise Conflict(
            "OtherThread", f"{text}; pass the `url` of the machine to the client instead"
        )
    try:
        yield
    finally:
        _environment_lock.release()


def _set_environment(values: Mapping[str, str | None]) -> None:
    for key, value in values.items():
        if value is None:
            os.environ.pop(key, None)
        else:
            os.environ[key] = value


def toml(value: object) -> str:
    """Format a setting as TOML."""
    if isinstance(value, Mapping):
        pairs = (f"{json.dumps(str(key))} = {toml(item)}" for key, item in value.items())
        return f"{{ {', '.join(pairs)} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml, value))}]"
    if isinstance(value, str | int | float):
        return json.dumps(value, ensure_ascii=False)
    raise Refused(
        "BadSetting", f"a setting must be a string, a number, a list or a table, not {value!r}"
    )


def _format(entry: JournalEntry) -> str:
    line, fact = entry.line, entry.line.fact
    event = fact.event and f"event {fact.event[:8]}"
    details = [", ".join(fact.machines), detail_text(fact), event, fact.operation]
    joined = ", ".join(detail for detail in details if detail)
    text = f"{iso(int(line.at))} {line.entity[1]}: {fact.type}"
    return f"{text} ({joined}) by {line.actor}" if joined else f"{text} by {line.actor}"
