"""What a step of a scenario may do: its words, their keys, and what each of them does."""

from collections.abc import Callable, Iterable

from fairwarning.core import checks, limits
from fairwarning.core.errors import Refused
from fairwarning.core.model import ImpactKind
from fairwarning.core.record import record
from fairwarning.guest.events import Event
from fairwarning.service.config.values import MODEL, SCALE_SET, FleetFileError, Read
from fairwarning.service.config.values import Table as Given
from fairwarning.service.faults import DELAY_MAX_SECONDS, FaultKind
from fairwarning.testing.cloud import MachineHandle, OperationHandle, ScaleSetHandle
from fairwarning.testing.handles import NEWEST
from fairwarning.testing.scenarios import values
from fairwarning.testing.scenarios.stage import ScenarioStage, poll

Act = Callable[[ScenarioStage, Given], Iterable[OperationHandle]]
"""Does it; the operations that it asked for."""


@record
class ScenarioAction:
    """One word: what it does, and which keys go with it."""

    act: Act
    keys: dict[str, Read]
    needs: tuple[str, ...] = ()
    either: tuple[str, ...] = ()  # of these there must be exactly one
    begins: bool = False  # whether it begins operations, which may then be named


# --- Values -------------------------------------------------------------------------------------


def _at_most(seconds: float) -> Read:
    def take(value: object) -> int:
        given = values.moment(value)
        if given > seconds:
            raise FleetFileError(
                f"must be at most {values.spelled(seconds)!r}, not {values.shown(value)}"
            )
        return given

    return take


def _as_written(read: Read) -> Read:
    """Checked, and left as the fleet file has it."""

    def take(value: object) -> object:
        read(value)
        return value

    return take


_LASTS: dict[str, Read] = {"lasts": _at_most(limits.DURATION_MAX_SECONDS)}
_WORK = values.one_of((ImpactKind.FREEZE, ImpactKind.REBOOT, ImpactKind.REDEPLOY))
_ONE: dict[str, Read] = {"set": values.name}
_NAMED: dict[str, Read] = {"rollout": values.name}


# --- Machines -----------------------------------------------------------------------------------


def _machines(stage: ScenarioStage, given: Given) -> list[MachineHandle]:
    return [stage.machine(name) for name in given.get("machine", ())]


def _each(do: Callable[[MachineHandle, Given], OperationHandle], **more: Read) -> ScenarioAction:
    """Done to each of the machines."""
    return ScenarioAction(
        act=lambda stage, given: [do(machine, given) for machine in _machines(stage, given)],
        keys={"machine": values.one_or_more, **more},
        needs=("machine",),
        begins=True,
    )


def _degrade(machine: MachineHandle, given: Given) -> OperationHandle:
    return machine.degrade(given["ahead"] / (24 * 3600) if "ahead" in given else None)


def _events(stage: ScenarioStage, names: Iterable[str]) -> list[Event]:
    """What is announced for these machines, each event once."""
    found = {event.id: event for name in names for event in stage.machine(name).events}
    if not found:
        raise Refused("NothingAnnounced", f"nothing is announced for {', '.join(names)}")
    return list(found.values())


def _approve(stage: ScenarioStage, given: Given) -> Iterable[OperationHandle]:
    for name in given["machine"]:
        stage.machine(name).approve(*_events(stage, given.get("of", (name,))))
    return ()


def _cancel(stage: ScenarioStage, given: Given) -> Iterable[OperationHandle]:
    for event in _events(stage, given["machine"]):
        stage.cloud.cancel(event)
    return ()


def _poll(stage: ScenarioStage, given: Given) -> Iterable[OperationHandle]:
    for machine in _machines(stage, given):
        poll(machine, given.get("version", NEWEST))
        stage.asks(machine)
    return ()


# --- Sets ---------------------------------------------------------------------------------------


def _delete(stage: ScenarioStage, given: Given) -> Iterable[OperationHandle]:
    if "set" not in given:
        return [machine.delete() for machine in _machines(stage, given)]
    return [stage.scale_set(given["set"]).delete(*given.get("instances", ()))]


def _of_set(
    do: Callable[[ScaleSetHandle, Given], None], *needs: str, **more: Read
) -> ScenarioAction:
    """Done to a scale set."""

    def act(stage: ScenarioStage, given: Given) -> Iterable[OperationHandle]:
        do(stage.scale_set(given["set"]), given)
        return ()

    return ScenarioAction(act=act, keys=_ONE | more, needs=("set", *needs))


def _update(scale_set: ScaleSetHandle, given: Given) -> None:
    scale_set.update(**{key: value for key, value in given.items() if key in MODEL})


def _upgrade(scale_set: ScaleSetHandle, given: Given) -> None:
    scale_set.upgrade(*given.get("instances", ()))


def _protect(scale_set: ScaleSetHandle, given: Given) -> None:
    scale_set.protect(*given["instances"], protected=given.get("protected", True))


# --- Rollouts and faults ------------------------------------------------------------------------


def _rollout(stage: ScenarioStage, given: Given) -> Iterable[OperationHandle]:
    sets = [stage.scale_set(name) for name in given.get("set", ())]
    stage.rollouts[given["rollout"]] = stage.cloud.rollout(
        *_machines(stage, given),
        *sets,
        kind=given.get("kind", ImpactKind.FREEZE.value),
        seconds=given.get("lasts"),
        batch=given.get("batch", limits.ROLLOUT_BATCH),
        by_host=given.get("by_host", False),
    )
    return ()


def _to_rollout(do: Callable[[ScenarioStage, str], None]) -> ScenarioAction:
    def act(stage: ScenarioStage, given: Given) -> Iterable[OperationHandle]:
        do(stage, given["rollout"])
        return ()

    return ScenarioAction(act=act, keys=_NAMED, needs=("rollout",))


def _fault(stage: ScenarioStage, given: Given) -> Iterable[OperationHandle]:
    targets: list[MachineHandle | None] = [*_machines(stage, given)]
    for machine in targets or [None]:
        stage.cloud.fault(
            given["kind"],
            machine=machine,
            count=given.get("count", 0),
            seconds=given.get("lasts", 0),
            delay_seconds=given.get("delay", 1),
        )
    return ()


def _clear_faults(stage: ScenarioStage, _: Given) -> Iterable[OperationHandle]:
    stage.cloud.clear_faults()
    return ()


ACTIONS: dict[str, ScenarioAction] = {
    # What users do.
    "restart": _each(lambda machine, _: machine.restart()),
    "redeploy": _each(lambda machine, _: machine.redeploy()),
    "reimage": _each(lambda machine, _: machine.reimage()),
    "stop": _each(lambda machine, _: machine.stop()),
    "start": _each(lambda machine, _: machine.start()),
    "deallocate": _each(lambda machine, _: machine.deallocate()),
    "delete": ScenarioAction(
        act=_delete,
        keys={"machine": values.one_or_more, "instances": values.instances, **_ONE},
        either=("machine", "set"),
        begins=True,
    ),
    "scale": ScenarioAction(
        act=lambda stage, given: [stage.scale_set(given["set"]).scale(given["capacity"])],
        keys={"capacity": SCALE_SET["capacity"], **_ONE},
        needs=("set", "capacity"),
        begins=True,
    ),
    "update": _of_set(_update, **{key: _as_written(read) for key, read in MODEL.items()}),
    "upgrade": _of_set(_upgrade, instances=values.instances),
    "protect": _of_set(_protect, "instances", instances=values.instances, protected=values.flag),
    # What the platform does.
    "freeze": _each(lambda machine, given: machine.freeze(given.get("lasts")), **_LASTS),
    "maintain": _each(
        lambda machine, given: machine.maintain(given.get("kind", "freeze"), given.get("lasts")),
        kind=_WORK,
        **_LASTS,
    ),
    "migrate": _each(
        lambda machine, given: machine.maintain("freeze", given.get("lasts"), migration=True),
        **_LASTS,
    ),
    "evict": _each(lambda machine, _: machine.evict()),
    "recommend": _each(lambda machine, _: machine.recommend()),
    "fail": _each(lambda machine, _: machine.fail()),
    "degrade": _each(_degrade, ahead=_at_most(limits.DEGRADE_MAX_SECONDS)),
    "cancel": ScenarioAction(act=_cancel, keys={"machine": values.one_or_more}, needs=("machine",)),
    "rollout": ScenarioAction(
        act=_rollout,
        keys={
            "machine": values.one_or_more,
            "set": values.one_or_more,
            "kind": _WORK,
            "batch": values.checked(checks.whole(1, limits.ROLLOUT_BATCH_MAX)),
            "by_host": values.flag,
            **_NAMED,
            **_LASTS,
        },
        needs=("rollout",),
    ),
    "pause": _to_rollout(lambda stage, name: stage.rollout(name).pause()),
    "resume": _to_rollout(lambda stage, name: stage.rollout(name).resume()),
    "abort": _to_rollout(lambda stage, name: stage.rollout(name).abort()),
    # What machines do, and what goes wrong.
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
