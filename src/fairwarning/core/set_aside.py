"""Entities that are set aside: a bug in one decision stops one entity, and nothing else (IB1)."""

from fairwarning.core.commands import Release
from fairwarning.core.decision import EntityDecision, Fact, FactType
from fairwarning.core.errors import NotFound
from fairwarning.core.messages import ReportBug
from fairwarning.core.model import KINDS, Entity, Lane, Ref, Scope, SetAside
from fairwarning.core.record import changed

_LAST_RETRY_SECONDS = 300


def retry_seconds(attempts: int) -> int:
    """How long due work waits after so many failed decisions."""
    return min(_LAST_RETRY_SECONDS, 1 << min(attempts - 1, 10))


def id_of(ref: Ref) -> str:
    """The id of the `SetAside` of an entity."""
    return f"{ref[0].__name__}/{ref[1]}"


def entity_of(name: str) -> Ref:
    """The entity that a `SetAside` of this id is about."""
    kind, _, entity = name.partition("/")
    return KINDS[kind], entity


def decide(
    current: SetAside | None, command: ReportBug | Release, entity: Entity | None, now: float
) -> EntityDecision:
    """Set an entity aside, or release it. Of the entity only the time of a retry changes."""
    if isinstance(command, Release):
        return EntityDecision(None, (Fact(FactType.RELEASED),), others=_due_again_at(entity, now))
    if current and entity is None and now < current.retry_at:
        return EntityDecision(current)  # what is due on it cannot be moved to a later time
    attempts = current.attempts + 1 if current else 1
    retry_at = now + retry_seconds(attempts)
    after = SetAside(
        id=command.entity,
        reason=command.reason,
        since=current.since if current else now,
        attempts=attempts,
        retry_at=retry_at,
        software=command.software,
    )
    facts = (Fact(FactType.SET_ASIDE, detail=command.reason),)
    return EntityDecision(after, facts, others=_due_again_at(entity, retry_at))


def not_set_aside(name: str) -> NotFound:
    """The error for the release of an entity that is not set aside."""
    text = f"{name!r} is not set aside; `fairwarning bug list` shows what is"
    return NotFound("NotSetAside", text)


def _due_again_at(entity: Entity | None, moment: float) -> tuple[Entity, ...]:
    """The entity with a time before which no work is due on it."""
    if isinstance(entity, Scope) or (isinstance(entity, Lane) and entity.retry_at is not None):
        return (changed(entity, retry_at=moment),)
    return ()
