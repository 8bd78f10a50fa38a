"""The terminate queue of a scale set: the order in which announced deletes start (T6)."""

from fairwarning.core.commands import Command
from fairwarning.core.decision import EntityDecision
from fairwarning.core.messages import (
    DeleteAnnounced,
    DeleteApproved,
    DeleteLeftQueue,
    StartQueuedDelete,
)
from fairwarning.core.model import PendingDelete, ScaleSet
from fairwarning.core.record import changed


def delete_announced(scale_set: ScaleSet, command: DeleteAnnounced) -> EntityDecision:
    """Add an announced delete to the queue."""
    return EntityDecision(changed(scale_set, queue=(*scale_set.queue, command.entry)))


def delete_approved(scale_set: ScaleSet, command: DeleteApproved) -> EntityDecision:
    """Note the approval of a delete, and start what it held back."""
    queue = tuple(
        changed(entry, approved=True) if entry.event == command.event else entry
        for entry in scale_set.queue
    )
    return _start_queued(scale_set, queue)


def delete_left_queue(scale_set: ScaleSet, command: DeleteLeftQueue) -> EntityDecision:
    """Take a delete out of the queue, and start what it held back."""
    return _start_queued(scale_set, tuple(e for e in scale_set.queue if e.event != command.event))


def _start_queued(scale_set: ScaleSet, queue: tuple[PendingDelete, ...]) -> EntityDecision:
    """Start approved deletes that no earlier or simultaneous delete holds back."""
    same_time = {entry.not_before for entry in queue if not entry.approved}
    kept: list[PendingDelete] = []
    released: list[Command] = []
    behind = False
    for entry in queue:
        if entry.approved and not behind and entry.not_before not in same_time:
            released.append(StartQueuedDelete(scope=entry.scope, event=entry.event))
        else:
            kept.append(entry)
            behind = behind or not entry.approved
    return EntityDecision(changed(scale_set, queue=tuple(kept)), (), tuple(released))
