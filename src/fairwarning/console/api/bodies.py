"""Request bodies of the operator API (C4).

They check member names and types only. The engine checks the values.
"""

from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType


class Body(Struct, forbid_unknown_fields=True):
    """A JSON request body."""


class NoSettings(Body):
    """An empty body."""


class NewMachine(Body):
    """A `[[machine]]` entry of the fleet file; `count` creates several machines."""

    name: str
    count: int | UnsetType = UNSET
    host_name: str | UnsetType = UNSET
    host: str | UnsetType = UNSET
    address: str | UnsetType = UNSET
    subnet: str | UnsetType = UNSET
    priority: str | UnsetType = UNSET
    eviction: str | UnsetType = UNSET
    terminate_notice: str | UnsetType = UNSET
    size: str | UnsetType = UNSET
    zone: str | UnsetType = UNSET
    tags: dict[str, str] | UnsetType = UNSET
    group: str | UnsetType = UNSET
    rules: dict[str, Any] | UnsetType = UNSET


class MachineChanges(Body):
    """Changes to a machine; an empty address removes it."""

    address: str


class NewSet(Body):
    """A `[[scale_set]]` entry of the fleet file."""

    name: str
    capacity: int
    terminate_notice: str | None = None
    upgrade: str | UnsetType = UNSET
    scale_in: str | UnsetType = UNSET
    priority: str | UnsetType = UNSET
    eviction: str | UnsetType = UNSET
    size: str | UnsetType = UNSET
    zones: list[str] | UnsetType = UNSET
    tags: dict[str, str] | UnsetType = UNSET
    prefix: str | UnsetType = UNSET
    subnet: str | UnsetType = UNSET
    update_domains: int | UnsetType = UNSET
    fault_domains: int | UnsetType = UNSET
    group: str | UnsetType = UNSET
    rules: dict[str, Any] | UnsetType = UNSET


class SetChanges(Body):
    """Changes to a scale set's model; `terminate_notice: null` turns the notice off."""

    terminate_notice: str | UnsetType | None = UNSET
    upgrade: str | UnsetType = UNSET
    scale_in: str | UnsetType = UNSET
    size: str | UnsetType = UNSET
    tags: dict[str, str] | UnsetType = UNSET


class Capacity(Body):
    """The number of instances that a scale set is to have."""

    capacity: int


class Instances(Body):
    """The ids of the instances to act on; without it, all instances."""

    instances: list[int] | UnsetType = UNSET


class ActSettings(Body):
    """Settings of freeze, migrate, maintain (`duration_seconds`, `kind`), degrade (`days`)."""

    duration_seconds: int | UnsetType = UNSET
    kind: str | UnsetType = UNSET
    days: float | UnsetType = UNSET


class NewRollout(Body):
    """A rollout over scopes and scale sets; without either, over the whole fleet.

    `hosts`: only machines on these. An empty list is refused.
    """

    id: str | UnsetType = UNSET
    scopes: list[str] | UnsetType = UNSET
    sets: list[str] | UnsetType = UNSET
    kind: str | UnsetType = UNSET
    by_host: bool | UnsetType = UNSET
    hosts: list[str] | UnsetType = UNSET
    batch: int | UnsetType = UNSET
    duration_seconds: int | UnsetType = UNSET
    halt_percent: int | UnsetType | None = UNSET


class ClockChange(Body):
    """Either `advance_seconds`, or the `rate` at which the clock runs; rate 0 stops it."""

    advance_seconds: float | UnsetType = UNSET
    rate: float | UnsetType = UNSET


class NewFault(Body):
    """A fault for one machine, for one scope, or for all machines."""

    kind: str
    machine: str | UnsetType = UNSET
    scope: str | UnsetType = UNSET
    count: int | UnsetType = UNSET
    seconds: float | UnsetType = UNSET
    delay_seconds: float | UnsetType = UNSET


class NewWebhook(Body):
    """A URL that receives every event change."""

    name: str
    url: str
    secret: str | UnsetType = UNSET


class NewToken(Body):
    """A token, or with `use: login` a client secret. `seconds`: until it expires."""

    name: str
    role: str
    group: str = ""
    use: str = "api"
    seconds: int | None = None


class TokenIds(Body):
    """The ids of tokens."""

    ids: list[str]


def set_fields(body: Body) -> dict[str, Any]:
    """Return the members that the body sets."""
    fields: dict[str, Any] = msgspec.structs.asdict(body)
    return {key: value for key, value in fields.items() if value is not UNSET}
