"""Operations: they may span scopes, and end exactly once (IC1)."""

from fairwarning.core.commands import Command
from fairwarning.core.decision import EntityDecision, Fact, FactType, OperationProgress
from fairwarning.core.errors import Bug
from fairwarning.core.messages import LaneProgressed, RemovalFailed, StepEnded, TargetDeleted
from fairwarning.core.model import Operation, OperationStatus
from fairwarning.core.record import changed


def settle(operation: Operation, progress: OperationProgress, now: float) -> EntityDecision:
    """Add progress to an operation; end it once nothing is left to do."""
    ended = operation.status is not OperationStatus.RUNNING
    if ended and not progress.corrects:
        raise Bug(f"operation {operation.id} has already ended (IC1)")
    so_far = OperationProgress(
        operation.id,
        operation.planned,
        operation.done,
        operation.failed,
        operation.cancelled,
        operation.error,
    )
    total = so_far.plus(progress)
    status = _status(total)
    after = changed(
        operation,
        planned=total.planned,
        done=total.done,
        failed=total.failed,
        cancelled=total.cancelled,
        error=total.error if total.failed or total.cancelled else "",
        status=status,
        ended_at=None if status is OperationStatus.RUNNING else operation.ended_at or now,
    )
    if status is OperationStatus.RUNNING:
        return EntityDecision(after)
    why = f"{status}: {after.error}" if after.error else status.value
    if ended:
        fact = Fact(FactType.OPERATION_CORRECTED, operation=after.id, detail=why)
        return EntityDecision(after, (fact,), _correction_messages(after, progress))
    fact = Fact(FactType.OPERATION_ENDED, operation=after.id, detail=why)
    return EntityDecision(after, (fact,), _end_messages(after))


def _correction_messages(operation: Operation, progress: OperationProgress) -> tuple[Command, ...]:
    """Messages after a late report (E9): to the rollout that counted, or to what was removed."""
    if operation.lane:
        rollout, _, lane = operation.lane.rpartition("/")
        return (
            LaneProgressed(
                rollout=rollout, lane=int(lane), done=progress.done, failed=progress.failed
            ),
        )
    if operation.status is not OperationStatus.SUCCEEDED:
        return ()
    return tuple(TargetDeleted(resource=resource) for resource in operation.removes)


def _end_messages(operation: Operation) -> tuple[Command, ...]:
    """Messages to the lane or the resources that wait for the operation."""
    if operation.lane:
        done, failed, cancelled = operation.done, operation.failed, operation.cancelled
        return (StepEnded(lane=operation.lane, done=done, failed=failed, cancelled=cancelled),)
    kind = TargetDeleted if operation.status is OperationStatus.SUCCEEDED else RemovalFailed
    return tuple(kind(resource=resource) for resource in operation.removes)


def _status(total: OperationProgress) -> OperationStatus:
    if total.done + total.failed + total.cancelled < total.planned:
        return OperationStatus.RUNNING
    if total.failed:
        return OperationStatus.FAILED
    if total.cancelled and not total.done:
        return OperationStatus.CANCELED
    return OperationStatus.SUCCEEDED
