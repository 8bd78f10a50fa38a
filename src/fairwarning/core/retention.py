"""Retention: which entities may be dropped, and when (IR1)."""

from collections.abc import Callable

from fairwarning.core.commands import Drop, target_of
from fairwarning.core.decision import EntityDecision
from fairwarning.core.errors import Conflict, NotFound
from fairwarning.core.model import Entity, Lane, Operation, Rollout


def drop(
    entity: Entity | None, command: Drop, read_rollout: Callable[[str], Rollout | None]
) -> EntityDecision:
    """Drop an entity that ended before the time of the command; no journal line is written.

    A lane ends with its rollout: lanes that an aborted rollout never started are still stored.
    """
    name = target_of(command)
    if entity is None:
        raise NotFound("NothingToDrop", f"{command.on.__name__} {name!r} does not exist")
    ending = read_rollout(entity.rollout) if isinstance(entity, Lane) else entity
    assert ending is None or isinstance(ending, Operation | Rollout)
    if ending is not None and (ending.ended_at is None or ending.ended_at >= command.before):
        raise Conflict("NotEnded", f"{command.on.__name__} {name!r} has not ended before that time")
    return EntityDecision(None)
