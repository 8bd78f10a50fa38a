"""What the operator's API takes, as shapes (C4).

What a value may be is decided further in, where the rules are; here is only what it looks like.
"""

from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType


class Body(Struct, forbid_unknown_fields=True):
    """What a request brings."""


class NoSettings(Body):
    """No settings."""


class NewMachine(Body):
    """A `[[machine]]` of the fleet file; with `count`, several of them."""

    name: str
    count: int | UnsetType = UNSET
    host_name: str | UnsetType = UNSET
    host: str | UnsetType = UNSET
    address: str | UnsetType = UNSET
    priority: str | UnsetType = UNSET
    eviction: str | UnsetType = UNSET
    terminate_notice: str | UnsetType = UNSET
    size: str | UnsetType = UNSET
    zone: str | UnsetType = UNSET
    tags: dict[str, str] | UnsetType = UNSET
    group: str | UnsetType = UNSET
    rules: dict[str, Any] | UnsetType = UNSET


class NewSet(Body):
    """A `[[scale_set]]` of the fleet file."""

    name: str
    capacity: int
    terminate_notice: str | None = None
    upgrade: str | UnsetType = UNSET
    scale_in: str | UnsetType = UNSET
    priority: str | UnsetType = UNSET
    eviction: str | UnsetType = UNSET
    size: str | UnsetType = UNSET
    zone: str | UnsetType = UNSET
    tags: dict[str, str] | UnsetType = UNSET
    prefix: str | UnsetType = UNSET
    update_domains: int | UnsetType = UNSET
    fault_domains: int | UnsetType = UNSET
    group: str | UnsetType = UNSET
    rules: dict[str, Any] | UnsetType = UNSET


class SetChanges(Body):
    """Another model; `terminate_notice: null` is none."""

    terminate_notice: str | UnsetType | None = UNSET
    upgrade: str | UnsetType = UNSET
    scale_in: str | UnsetType = UNSET
    size: str | UnsetType = UNSET
    tags: dict[str, str] | UnsetType = UNSET


class Capacity(Body):
    """So many instances from now on."""

    capacity: int


class Instances(Body):
    """These instances, by their ids; without any, all."""

    instances: list[int] | UnsetType = UNSET


class ActSettings(Body):
    """What freeze, migrate (`duration_seconds`), maintain and degrade (`days`) may be told."""

    duration_seconds: int | UnsetType = UNSET
    kind: str | UnsetType = UNSET
    days: float | UnsetType = UNSET


class NewRollout(Body):
    """Over these scopes and sets; without any, over the whole fleet."""

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
    """`advance` by so many seconds, or run at a `rate` from now on (0 freezes)."""

    advance: float | UnsetType = UNSET
    rate: float | UnsetType = UNSET


class NewFault(Body):
    """For a machine, for a scope, or for all."""

    kind: str
    machine: str | UnsetType = UNSET
    scope: str | UnsetType = UNSET
    count: int | UnsetType = UNSET
    seconds: float | UnsetType = UNSET
    delay_seconds: float | UnsetType = UNSET


class NewWebhook(Body):
    """Whom to send every change of an event to."""

    name: str
    url: str
    form: str | UnsetType = UNSET
    secret: str | UnsetType = UNSET
    handshake: bool | UnsetType = UNSET


def given(body: Body) -> dict[str, Any]:
    """What the body says, without what it leaves out."""
    named: dict[str, Any] = msgspec.structs.asdict(body)
    return {key: value for key, value in named.items() if value is not UNSET}
