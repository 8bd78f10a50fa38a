"""The actions of scenario steps: their names, their keys and their implementation."""

from collections.abc import Callable, Iterable

from fairwarning.core import checks, limits
from fairwarning.core.configuration import (
    ConfigurationError,
    Read,
    Table,
    checked,
    describe,
    flag,
)
from fairwarning.core.errors import Refused
from fairwarning.core.model import ImpactKind
from fairwarning.core.record import record
from fairwarning.guest.events import Event
from fairwarning.service.config.values import MODEL, SCALE_SET
from fairwarning.service.faults import DELAY_MAX_SECONDS, FaultKind
from fairwarning.testing.cloud import MachineHandle, OperationHandle, ScaleSetHandle
from fairwarning.testing.handles import NEWEST
from fairwarning.testing.scenarios import values
from fairwarning.testing.scenarios.environment import ScenarioEnvironment, poll

Act = Callable[[ScenarioEnvironment, Table], Iterable[OperationHandle]]
"""Runs an action; returns the operations it started."""


@record
class ScenarioAction:
    """One action: its implementation and its keys."""

    act: Act
    keys: dict[str, Read]
    needs: tuple[str, ...] = ()
    either: tuple[str, ...] = ()  # exactly one of these keys is required
    begins: bool = False  # whether it starts operations, which the step can name


# --- Values -------------------------------------------------------------------------------------


def _at_most(seconds: float) -> Read:
    def read(value: object) -> int:
        duration = values.moment(value)
        if duration > seconds:
            raise ConfigurationError(
                f"must be at most {values.spelled(seconds)!r}, not {describe(value)}"
            )
        return duration

    return read


def _unconverted(read: Read) -> Read:
    """Check a value, but keep it as the file has it."""

    def check(value: object) -> object:
        read(value)
        return value

    return check


_LASTS: dict[str, Read] = {"lasts": _at_most(limits.DURATION_MAX_SECONDS)}
_IMPACT = values.one_of((ImpactKind.FREEZE, ImpactKind.REBOOT, ImpactKind.REDEPLOY))
_SET: dict[str, Read] = {"set": values.name}
_ROLLOUT: dict[str, Read] = {"rollout": values.name}


# --- Machines -----------------------------------------------------------------------------------


def _machines(environment: ScenarioEnvironment, arguments: Table) -> list[MachineHandle]:
    return [environment.machine(name) for name in arguments.get("machine", ())]


def _each_machine(
    do: Callable[[MachineHandle, Table], OperationHandle], **more: Read
) -> ScenarioAction:
    """Return an action that runs on each machine of the step."""
    return ScenarioAction(
        act=lambda environment, arguments: [
            do(machine, arguments) for machine in _machines(environment, arguments)
        ],
        keys={"machine": values.one_or_more, **more},
        needs=("machine",),
        begins=True,
    )


def _degrade(machine: MachineHandle, arguments: Table) -> OperationHandle:
    return machine.degrade(arguments["ahead"] / (24 * 3600) if "ahead" in arguments else None)


def _events(environment: ScenarioEnvironment, names: Iterable[str]) -> list[Event]:
    """Return the active events of these machines, each once."""
    events = {event.id: event for name in names for event in environment.machine(name).events}
    if not events:
        raise Refused("NothingAnnounced", f"there is no active event for {', '.join(names)}")
    return list(events.values())


def _approve(environment: ScenarioEnvironment, arguments: Table) -> Iterable[OperationHandle]:
    for name in arguments["machine"]:
        environment.machine(name).approve(*_events(environment, arguments.get("of", (name,))))
    return ()


def _cancel(environment: ScenarioEnvironment, arguments: Table) -> Iterable[OperationHandle]:
    for event in _events(environment, arguments["machine"]):
        environment.cloud.cancel(event)
    return ()


def _poll(environment: ScenarioEnvironment, arguments: Table) -> Iterable[OperationHandle]:
    for machine in _machines(environment, arguments):
        poll(machine, arguments.get("version", NEWEST))
        environment.keep_polling(machine)
    return ()


# --- Sets ---------------------------------------------------------------------------------------


def _delete(environment: ScenarioEnvironment, arguments: Table) -> Iterable[OperationHandle]:
    if "set" not in arguments:
        return [machine.delete() for machine in _machines(environment, arguments)]
    return [environment.scale_set(arguments["set"]).delete(*arguments.get("instances", ()))]


def _on_set(
    do: Callable[[ScaleSetHandle, Table], None], *needs: str, **more: Read
) -> ScenarioAction:
    """Return an action that runs on a scale set."""

    def act(environment: ScenarioEnvironment, arguments: Table) -> Iterable[OperationHandle]:
        do(environment.scale_set(arguments["set"]), arguments)
        return ()

    return ScenarioAction(act=act, keys=_SET | more, needs=("set", *needs))


def _update(scale_set: ScaleSetHandle, arguments: Table) -> None:
    scale_set.update(**{key: value for key, value in arguments.items() if key in MODEL})


def _upgrade(scale_set: ScaleSetHandle, arguments: Table) -> None:
    scale_set.upgrade(*arguments.get("instances", ()))


def _protect(scale_set: ScaleSetHandle, arguments: Table) -> None:
    scale_set.protect(*arguments["instances"], protected=arguments.get("protected", True))


# --- Rollouts and faults ------------------------------------------------------------------------


def _rollout(environment: ScenarioEnvironment, arguments: Table) -> Iterable[OperationHandle]:
    sets = [environment.scale_set(name) for name in arguments.get("set", ())]
    environment.rollouts[arguments["rollout"]] = environment.cloud.rollout(
        *_machines(environment, arguments),
        *sets,
        kind=arguments.get("kind", ImpactKind.FREEZE.value),
        seconds=arguments.get("lasts"),
        batch=arguments.get("batch", limits.ROLLOUT_BATCH),
        by_host=arguments.get("by_host", False),
    )
    return ()


def _on_rollout(do: Callable[[ScenarioEnvironment, str], None]) -> ScenarioAction:
    def act(environment: ScenarioEnvironment, arguments: Table) -> Iterable[OperationHandle]:
        do(environment, arguments["rollout"])
        return ()

    return ScenarioAction(act=act, keys=_ROLLOUT, needs=("rollout",))


def _fault(environment: ScenarioEnvironment, arguments: Table) -> Iterable[OperationHandle]:
    targets: list[MachineHandle | None] = [*_machines(environment, arguments)]
    for machine in targets or [None]:
        environment.cloud.fault(
            arguments["kind"],
            machine=machine,
            count=arguments.get("count", 0),
            seconds=arguments.get("lasts", 0),
            delay_seconds=arguments.get("delay", 1),
        )
    return ()


def _clear_faults(environment: ScenarioEnvironment, _: Table) -> Iterable[OperationHandle]:
    environment.cloud.clear_faults()
    return ()


ACTIONS: dict[str, ScenarioAction] = {
    # Actions of users.
    "restart": _each_machine(lambda machine, _: machine.restart()),
    "redeploy": _each_machine(lambda machine, _: machine.redeploy()),
    "reimage": _each_machine(lambda machine, _: machine.reimage()),
    "stop": _each_machine(lambda machine, _: machine.stop()),
    "start": _each_machine(lambda machine, _: machine.start()),
    "deallocate": _each_machine(lambda machine, _: machine.deallocate()),
    "delete": ScenarioAction(
        act=_delete,
        keys={"machine": values.one_or_more, "instances": values.instances, **_SET},
        either=("machine", "set"),
        begins=True,
    ),
    "scale": ScenarioAction(
        act=lambda environment, arguments: [
            environment.scale_set(arguments["set"]).scale(arguments["capacity"])
        ],
        keys={"capacity": SCALE_SET["capacity"], **_SET},
        needs=("set", "capacity"),
        begins=True,
    ),
    "update": _on_set(_update, **{key: _unconverted(read) for key, read in MODEL.items()}),
    "upgrade": _on_set(_upgrade, instances=values.instances),
    "protect": _on_set(_protect, "instances", instances=values.instances, protected=flag),
    # Actions of the platform.
    "freeze": _each_machine(
        lambda machine, arguments: machine.freeze(arguments.get("lasts")), **_LASTS
    ),
    "maintain": _each_machine(
        lambda machine, arguments: machine.maintain(
            arguments.get("kind", "freeze"), arguments.get("lasts")
        ),
        kind=_IMPACT,
        **_LASTS,
    ),
    "migrate": _each_machine(
        lambda machine, arguments: machine.migrate(arguments.get("lasts")), **_LASTS
    ),
    "evict": _each_machine(lambda machine, _: machine.evict()),
    "recommend": _each_machine(lambda machine, _: machine.recommend()),
    "fail": _each_machine(lambda machine, _: machine.fail()),
    "degrade": _each_machine(_degrade, ahead=_at_most(limits.DEGRADE_MAX_SECONDS)),
    "cancel": ScenarioAction(act=_cancel, keys={"machine": values.one_or_more}, needs=("machine",)),
    "rollout": ScenarioAction(
        act=_rollout,
        keys={
            "machine": values.one_or_more,
            "set": values.one_or_more,
            "kind": _IMPACT,
            "batch": checked(checks.whole(1, limits.ROLLOUT_BATCH_MAX)),
            "by_host": flag,
            **_ROLLOUT,
            **_LASTS,
        },
        needs=("rollout",),
    ),
    "pause": _on_rollout(lambda environment, name: environment.rollout(name).pause()),
    "resume": _on_rollout(lambda environment, name: environment.rollout(name).resume()),
    "abort": _on_rollout(lambda environment, name: environment.rollout(name).abort()),
    # Actions of machines, and faults.
    "approve": ScenarioAction(
        act=_approve,
        keys={"machine": values.one_or_more, "of": values.one_or_more},
        needs=("machine",),
    ),
    "poll": ScenarioAction(
        act=_poll,
        keys={"machine": values.one_or_more, "version": values.version},
        needs=("machine",),
    ),
    "fault": ScenarioAction(
        act=_fault,
        keys={
            "machine": values.one_or_more,
            "kind": values.one_of(FaultKind),
            "count": values.count,
            "lasts": values.moment,
            "delay": _at_most(DELAY_MAX_SECONDS),
        },
        needs=("kind",),
    ),
    "clear_faults": ScenarioAction(act=_clear_faults, keys={}),
}
