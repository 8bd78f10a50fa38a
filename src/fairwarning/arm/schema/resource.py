"""The members that resources of every type have."""

from fairwarning.arm.schema.compute_parts import IDENTITY, PLAN
from fairwarning.arm.schema.values import (
    ANY,
    STRING,
    TEXT,
    TEXTS,
    MapOf,
    Shape,
    ValueType,
    shape,
    words,
)

_COMMON = shape(
    text="id etag managedBy kind",
    name=STRING,
    type=TEXT,
    location=STRING,
    tags=MapOf(STRING),
    zones=TEXTS,
    plan=PLAN,
    identity=IDENTITY,
    extendedLocation=shape(text="name", type=words("EdgeZone")),
    systemData=ANY,
)


def resource(properties: Shape, **others: ValueType) -> Shape:
    """Return a resource type with these properties and more top-level members."""
    return Shape({**_COMMON.members, "properties": properties, **others})
