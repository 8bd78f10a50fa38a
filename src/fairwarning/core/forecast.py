"""How long a rollout will take, before it is started."""

from collections.abc import Mapping, Sequence
from heapq import heapify, heapreplace

from fairwarning.core import limits, windows
from fairwarning.core.commands import Maintain, StartRollout
from fairwarning.core.model import ImpactKind, Scope
from fairwarning.core.operation_rules import OPERATION_RULES, event_type, notice_seconds
from fairwarning.core.record import record
from fairwarning.core.rollout import Step, plan


@record
class RolloutForecast:
    """What a rollout would do, and when it would end, without failures, busy machines, windows."""

    machines: int
    scopes: int
    steps: int  # one after the other in a lane; each has one event for each scope
    lanes: int
    unpolled: tuple[str, ...]  # scopes whose machines get no notice
    windowed: int  # scopes with a maintenance window
    never: int  # steps over scopes whose windows are never open together
    earliest_seconds: int  # if every machine approves at once
    latest_seconds: int  # if none approves


def forecast(scopes: Mapping[str, Scope], command: StartRollout) -> RolloutForecast:
    """Plan the rollout that the command would start, and add up its notices and durations."""
    lanes = plan(scopes.values(), by_host=command.by_host, hosts=command.hosts)
    touched = {name for lane in lanes for step in lane for name in step}
    announced = OPERATION_RULES[Maintain, command.kind].duration_seconds
    given = command.duration_seconds != limits.UNKNOWN_DURATION
    duration = max(command.duration_seconds if given else announced, 0)
    quickest = [duration * len(lane) for lane in lanes]
    longest = [
        sum(duration + _notice(step, scopes, command.kind) for step in lane) for lane in lanes
    ]
    return RolloutForecast(
        machines=sum(len(names) for lane in lanes for step in lane for names in step.values()),
        scopes=len(touched),
        steps=sum(map(len, lanes)),
        lanes=len(lanes),
        unpolled=tuple(sorted(name for name in touched if not scopes[name].enabled)),
        windowed=sum(bool(scopes[name].rules.maintenance_window) for name in touched),
        never=sum(not _has_window(step, scopes) for lane in lanes for step in lane),
        earliest_seconds=_in_parallel(quickest, command.batch),
        latest_seconds=_in_parallel(longest, command.batch),
    )


def _notice(step: Step, scopes: Mapping[str, Scope], kind: ImpactKind) -> int:
    """The longest notice that a machine of this step gets."""
    event = event_type(kind)
    return max(
        (
            notice_seconds(scopes[name].rules, event, scopes[name].machines[machine])
            for name, machines in step.items()
            if scopes[name].enabled
            for machine in machines
        ),
        default=0,
    )


def _has_window(step: Step, scopes: Mapping[str, Scope]) -> bool:
    """Whether a step may begin at some time of the week."""
    texts = (scopes[name].rules.maintenance_window for name in step)
    return windows.common_opening(filter(None, texts), 0) is not None


def _in_parallel(seconds: Sequence[int], workers: int) -> int:
    """How long lanes take in all, if the next begins whenever one ends."""
    ends = [0] * min(workers, len(seconds))
    heapify(ends)
    for length in seconds:
        heapreplace(ends, ends[0] + length)
    return max(ends)
