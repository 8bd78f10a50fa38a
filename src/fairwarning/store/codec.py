"""Entities as JSON that a person can read in the database's own shell.

A field that is new in the code and has a default decodes from rows that were written before it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from operator import attrgetter

import msgspec

from fairwarning.core.decision import Announcement, Fact, FactType
from fairwarning.core.model import (
    NOTHING,
    Entity,
    Impact,
    Lane,
    Machine,
    Operation,
    Resource,
    Rollout,
    Rules,
    ScaleSet,
    Scope,
)
from fairwarning.core.record import changed

KINDS: dict[str, type[Entity]] = {
    kind.__name__: kind for kind in (Scope, ScaleSet, Operation, Rollout, Lane, Resource)
}
"""The kinds of entities by the name they are stored under."""

_encode = msgspec.json.Encoder().encode
_entities = {name: msgspec.json.Decoder(kind) for name, kind in KINDS.items()}
_machine = msgspec.json.Decoder(Machine)
_impact = msgspec.json.Decoder(Impact)
_names = msgspec.json.Decoder(tuple[str, ...])
_announcement = msgspec.json.Decoder(Announcement)

_RULES = Rules()

# A scope's machines are rows of their own.
_SCOPE_FIELDS = tuple(field.name for field in fields(Scope) if field.name != "machines")
_scope_values = attrgetter(*_SCOPE_FIELDS)


def text(value: Entity | Machine | Impact) -> str:
    """The value as JSON; a scope without its machines."""
    if isinstance(value, Scope):
        return _encode(dict(zip(_SCOPE_FIELDS, _scope_values(value), strict=True))).decode()
    return _encode(value).decode()


def entity(kind: str, body: str) -> Entity:
    """The entity again; a scope without its machines."""
    return _entities[kind].decode(body)


def whole(scope: Scope, machines: Mapping[str, Machine]) -> Scope:
    """The scope with its machines. What scopes mostly have alike they share."""
    return changed(
        scope,
        machines=machines,
        events=scope.events or NOTHING,
        impacts=scope.impacts or NOTHING,
        rules=_RULES if scope.rules == _RULES else scope.rules,
    )


def machines(bodies: Iterable[str]) -> dict[str, Machine]:
    """The machines of a scope, in order."""
    return {one.name: one for one in map(_machine.decode, bodies)}


def machine(body: str) -> Machine:
    """The machine again."""
    return _machine.decode(body)


def impact(body: str) -> Impact:
    """The impact again."""
    return _impact.decode(body)


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
