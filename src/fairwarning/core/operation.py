"""Operations: they may span scopes, and end exactly once (IC1)."""

from fairwarning.core.commands import Command
from fairwarning.core.decision import EntityDecision, Fact, FactType, OperationProgress
from fairwarning.core.errors import InvariantViolated
from fairwarning.core.messages import RemovalFailed, StepEnded, TargetDeleted
from fairwarning.core.model import Operation, OperationStatus
from fairwarning.core.record import changed


def settle(operation: Operation, progress: OperationProgress, now: float) -> EntityDecision:
    """Add progress to an operation; end it once nothing is left to do."""
    if operation.status is not OperationStatus.RUNNING:
        raise InvariantViolated(
            "OperationOver", f"operation {operation.id} has already ended (IC1)"
        )
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
        error=total.error,
        status=status,
        ended_at=None if status is OperationStatus.RUNNING else now,
    )
    if status is OperationStatus.RUNNING:
        return EntityDecision(after)
    why = f"{status}: {after.error}" if after.error else status.value
    fact = Fact(FactType.OPERATION_ENDED, operation=after.id, detail=why)
    return EntityDecision(after, (fact,), _end_messages(after))


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
