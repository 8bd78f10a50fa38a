"""How fast a rollout is, when it will end, and on which machines it failed."""

from fairwarning.core.model import Operation, Ref, Rollout, RolloutStatus
from fairwarning.core.record import record
from fairwarning.service.fleet import Fleet
from fairwarning.service.history import queries

_HOUR_SECONDS = 3600
_PAGE = 1000
_OPERATIONS = 10_000  # of one rollout, searched for failures


@record
class FailedMachine:
    """A machine on which the impact of a rollout failed."""

    scope: str
    machine: str
    error: str
    at: float


def machines_per_hour(rollout: Rollout, now: float) -> float | None:
    """Machines that are over, an hour of fleet time since the start; None before the first."""
    elapsed = (now if rollout.ended_at is None else rollout.ended_at) - rollout.started_at
    over = rollout.done + rollout.failed
    return over * _HOUR_SECONDS / elapsed if over and elapsed > 0 else None


def estimated_end(rollout: Rollout, now: float) -> float | None:
    """When the rollout ends if it goes on as fast as since its start; None if it stands still."""
    rate = machines_per_hour(rollout, now)
    if rate is None or rollout.status is not RolloutStatus.RUNNING:
        return None
    left = rollout.machines - rollout.done - rollout.failed - rollout.skipped
    return now + left * _HOUR_SECONDS / rate


async def failed_machines(fleet: Fleet, rollout: Rollout, limit: int) -> list[FailedMachine]:
    """The machines of the steps that failed last, from the journal."""
    failures: list[FailedMachine] = []
    for operation in await _failed_operations(fleet, rollout) if rollout.failed else ():
        for entry in await queries.failed_impacts(fleet, operation.id):
            line = entry.line
            failures += [
                FailedMachine(
                    scope=line.entity[1], machine=name, error=line.fact.detail, at=line.at
                )
                for name in line.fact.machines
            ]
        if len(failures) >= limit:
            break
    return failures[:limit]


async def _failed_operations(fleet: Fleet, rollout: Rollout) -> list[Operation]:
    """The steps of a rollout with failures, the newest first."""
    prefix = after = f"{rollout.id}/"
    failed: list[Operation] = []
    for _ in range(0, _OPERATIONS, _PAGE):
        names = await fleet.reader.list_ids(Operation, after, _PAGE)
        refs: list[Ref] = [(Operation, name) for name in names if name.startswith(prefix)]
        entities = (await fleet.reader.read_all(refs)).values()
        failed += [entity for entity in entities if isinstance(entity, Operation) and entity.failed]
        if len(refs) < _PAGE:
            break
        after = names[-1]
    return sorted(failed, key=lambda operation: operation.accepted_at, reverse=True)
