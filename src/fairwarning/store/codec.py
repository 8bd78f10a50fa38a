"""JSON encoding of entities, readable in the database's own shell.

A new field with a default decodes from rows that were written before the field existed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from operator import attrgetter

import msgspec

from fairwarning.core.decision import Announcement, Fact, FactType
from fairwarning.core.model import (
    KINDS,
    NOTHING,
    Entity,
    Impact,
    Machine,
    Operation,
    Rollout,
    Rules,
    Scope,
)
from fairwarning.core.record import changed

_encode = msgspec.json.Encoder().encode
_entities = {name: msgspec.json.Decoder(kind) for name, kind in KINDS.items()}
decode_machine = msgspec.json.Decoder(Machine).decode
decode_impact = msgspec.json.Decoder(Impact).decode
_names = msgspec.json.Decoder(tuple[str, ...])
_announcement = msgspec.json.Decoder(Announcement)

_RULES = Rules()

# A scope's machines are stored as separate rows.
_SCOPE_FIELDS = tuple(field.name for field in fields(Scope) if field.name != "machines")
_scope_values = attrgetter(*_SCOPE_FIELDS)


def encode(value: Entity | Machine | Impact) -> str:
    """Return the value as JSON; a scope without its machines."""
    if isinstance(value, Scope):
        return _encode(dict(zip(_SCOPE_FIELDS, _scope_values(value), strict=True))).decode()
    return _encode(value).decode()


def ended_at(entity: Entity | None) -> float | None:
    """When an operation or a rollout ended, by which retention finds it."""
    return entity.ended_at if isinstance(entity, Operation | Rollout) else None


def has_events(entity: Entity | None) -> bool | None:
    """True for a scope that has events, else None, so that an index holds only those."""
    return True if isinstance(entity, Scope) and entity.events else None


def decode_entity(kind: str, body: str) -> Entity:
    """Return the entity; a scope without its machines."""
    return _entities[kind].decode(body)


def with_machines(scope: Scope, machines: Mapping[str, Machine]) -> Scope:
    """Return the scope with its machines. Empty and default members are shared between scopes."""
    return changed(
        scope,
        machines=machines,
        events=scope.events or NOTHING,
        impacts=scope.impacts or NOTHING,
        delayed=scope.delayed or NOTHING,
        given_up=scope.given_up or NOTHING,
        rules=_RULES if scope.rules == _RULES else scope.rules,
    )


def decode_machines(bodies: Iterable[str]) -> dict[str, Machine]:
    """Return the machines of a scope by name, in order."""
    return {machine.name: machine for machine in map(decode_machine, bodies)}


# --- Facts of the journal ---


def names(machines: tuple[str, ...]) -> str:
    """Names of machines as a JSON list; empty if there are none."""
    return _encode(machines).decode() if machines else ""


def announcement(value: Announcement | None) -> str:
    """An announcement as JSON; empty if there is none."""
    return _encode(value).decode() if value else ""


def fact(kind: str, event: str, machines: str, *rest: str) -> Fact:
    """The fact of a line, from its columns."""
    operation, detail, announced = rest
    return Fact(
        FactType(kind),
        event,
        _names.decode(machines) if machines else (),
        operation,
        detail,
        _announcement.decode(announced) if announced else None,
    )
