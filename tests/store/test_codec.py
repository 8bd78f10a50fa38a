"""JSON encoding of entities: every field of every kind, old rows, and readability."""

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairwarning.core.model import KINDS, Impact, Machine, Scope, ScopeKind
from fairwarning.core.record import changed
from fairwarning.store import codec

PARTS: dict[type, Callable[[str], object]] = {
    Machine: codec.decode_machine,
    Impact: codec.decode_impact,
}
ENTITIES = list(KINDS.values())
SIMPLE: dict[object, st.SearchStrategy[Any]] = {
    str: st.text(max_size=9),
    int: st.integers(-(2**53), 2**53),
    float: st.floats(allow_nan=False, allow_infinity=False),
    bool: st.booleans(),
    type(None): st.none(),
}


def complete(kind: Any) -> st.SearchStrategy[Any]:  # noqa: ANN401  (as for any type hint)
    """Draw a record with every field, including those that have a default."""
    hints = get_type_hints(kind)
    return st.builds(kind, **{field.name: anything(hints[field.name]) for field in fields(kind)})


def anything(hint: Any) -> st.SearchStrategy[Any]:  # noqa: ANN401
    """Draw a value that a field with this hint may hold."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is tuple:
        return st.lists(anything(parts[0]), max_size=2).map(tuple)
    if origin is Mapping:
        return st.dictionaries(*map(anything, parts), max_size=2)
    if origin is UnionType:
        return st.one_of(*map(anything, parts))
    if is_dataclass(hint):
        return complete(hint)
    return SIMPLE[hint] if hint in SIMPLE else st.sampled_from(hint)


@pytest.mark.parametrize("kind", ENTITIES)
@given(data=st.data())
def test_every_field_of_an_entity_is_restored(kind: type, data: st.DataObject) -> None:
    """For any value. (A scope's machines are separate rows.)"""
    entity = data.draw(complete(kind))
    if isinstance(entity, Scope):
        entity = changed(entity, machines={})
    back = codec.decode_entity(kind.__name__, codec.encode(entity))
    assert back == entity
    assert repr(back) == repr(entity)  # order and exact types too


@pytest.mark.parametrize("kind", PARTS)
@given(data=st.data())
def test_every_field_of_a_part_is_restored(kind: type, data: st.DataObject) -> None:
    """Machines and impacts, which are stored separately."""
    value = data.draw(complete(kind))
    assert repr(PARTS[kind](codec.encode(value))) == repr(value)


@pytest.mark.parametrize("kind", [*ENTITIES, *PARTS])
@given(data=st.data())
def test_rows_without_a_new_field_can_be_read(kind: type, data: st.DataObject) -> None:
    """A field with a default may be missing from a row and then has its default."""
    value = data.draw(complete(kind))
    required = [
        field.name
        for field in fields(kind)
        if field.default is MISSING and field.default_factory is MISSING
    ]
    row = json.loads(codec.encode(value))
    text = json.dumps({name: row[name] for name in required})
    back = PARTS[kind](text) if kind in PARTS else codec.decode_entity(kind.__name__, text)
    assert back == kind(**{name: getattr(value, name) for name in required})


def test_a_row_is_readable() -> None:
    """It has the names and values of the model; unknown members are ignored."""
    scope = Scope(id="web", kind=ScopeKind.CLOUD_SERVICE, group="Größe", incarnation=3)
    row = json.loads(codec.encode(scope))
    assert row["kind"] == "CloudService"
    assert row["group"] == "Größe"
    assert "machines" not in row
    assert codec.decode_entity("Scope", json.dumps(row | {"invented_later": [1]})) == scope
