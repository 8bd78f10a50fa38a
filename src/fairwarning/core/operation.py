"""Operations from acceptance to their end: they may span scopes, and end exactly once (IC1)."""

from fairwarning.core.decision import Did, Fact, Progress, Turn
from fairwarning.core.errors import Broken
from fairwarning.core.messages import EndStep
from fairwarning.core.model import Operation, OperationStatus
from fairwarning.core.record import changed


def count(operation: Operation, progress: Progress) -> Operation:
    """Add what a decision planned or ended."""
    if operation.status is not OperationStatus.RUNNING:
        raise Broken("OperationOver", f"operation {operation.id} has ended already (IC1)")
    return changed(
        operation,
        planned=operation.planned + progress.planned,
        done=operation.done + progress.done,
        failed=operation.failed + progress.failed,
        cancelled=operation.cancelled + progress.cancelled,
        error=operation.error or progress.why,
    )


def close(operation: Operation, now: float) -> Turn | None:
    """End the operation if nothing of it is left to do; None if something is."""
    ended = operation.done + operation.failed + operation.cancelled
    if operation.status is not OperationStatus.RUNNING or ended < operation.planned:
        return None
    if operation.failed:
        status = OperationStatus.FAILED
    elif operation.cancelled and not operation.done:
        status = OperationStatus.CANCELED
    else:
        status = OperationStatus.SUCCEEDED
    over = changed(operation, status=status, ended_at=now)
    fact = Fact(Did.OPERATION_ENDED, operation=operation.id, why=f"{status} {over.error}".strip())
    if not operation.lane:
        return Turn(over, (fact,))
    step = EndStep(
        lane=operation.lane,
        done=operation.done,
        failed=operation.failed,
        cancelled=operation.cancelled,
    )
    return Turn(over, (fact,), (step,))
