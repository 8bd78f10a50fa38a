"""The shapes agree with the types of the installed SDK, which are generated from Azure's."""

import enum
import typing
from collections.abc import Iterator

import pytest
import typing_extensions
from azure.mgmt.compute import models
from azure.mgmt.compute import types as sdk

from fairwarning.arm.schema import types
from fairwarning.arm.schema.values import (
    Anything,
    Decimal,
    Flag,
    ListOf,
    MapOf,
    Shape,
    String,
    ValueType,
    WholeNumber,
    Words,
)

pytestmark = pytest.mark.spec("C6")

RESOURCES = {
    "virtualMachines": sdk.VirtualMachine,
    "virtualMachineScaleSets": sdk.VirtualMachineScaleSet,
    "virtualMachineScaleSets/virtualMachines": sdk.VirtualMachineScaleSetVM,
    "availabilitySets": sdk.AvailabilitySet,
    "disks": sdk.Disk,
    "images": sdk.Image,
    "proximityPlacementGroups": sdk.ProximityPlacementGroup,
    "sshPublicKeys": sdk.SshPublicKeyResource,
}
READ_ONLY = {"systemData", "instanceView", "statuses", "colocationStatus", "resources"}
"""Members that only the service writes."""
OLD = {"automaticOSUpgrade", "autoOSUpgradePolicy"}
"""Members that only old api-versions have."""
TEXTS = {"VirtualMachineSizeTypes", "NetworkApiVersion", "DiskApiVersion"}
"""Enumerations of which the SDK has only a part: their words are kept as they are."""
UNSUPPORTED = {"SpotPlus"}
"""Words that the service would have to act on, and refuses."""
NAMES = {**vars(models), **vars(sdk)}


def members(kind: object) -> dict[str, object]:
    """Return the members of a type of the SDK, with their types."""
    return typing_extensions.get_type_hints(kind, NAMES)


def plain(kind: object) -> object:
    """Return a type without `Optional` and `Required`; of an enumeration, its class."""
    options = [part for part in typing.get_args(kind) if part is not type(None)]
    if typing.get_origin(kind) is typing.Union:
        words = [part for part in options if isinstance(part, type) and issubclass(part, enum.Enum)]
        return words[0] if words else plain(options[0])
    return kind


def differences(shape: ValueType, kind: object, path: str) -> Iterator[str]:
    """Return where a shape and a type of the SDK do not agree."""
    kind = plain(kind)
    if isinstance(shape, Anything) or kind is typing.Any:
        return
    if typing.get_origin(kind) is list:
        if isinstance(shape, ListOf):
            yield from differences(shape.item, typing.get_args(kind)[0], f"{path}[]")
        else:
            yield f"{path}: a list"
    elif typing.get_origin(kind) is dict:
        if not isinstance(shape, MapOf):
            yield f"{path}: a map"
    elif typing_extensions.is_typeddict(kind):
        yield from object_differences(shape, kind, path)
    elif not isinstance(shape, _scalar(kind)):
        yield f"{path}: {kind}"
    elif isinstance(shape, Words) and isinstance(kind, type) and issubclass(kind, enum.Enum):
        yield from (f"{path}: {word}" for word in _words(kind) - set(shape.words) - UNSUPPORTED)


def object_differences(shape: ValueType, kind: object, path: str) -> Iterator[str]:
    """Return where an object and a type of the SDK do not agree."""
    if not isinstance(shape, Shape):
        yield f"{path}: an object"
        return
    hints = members(kind)
    for name, hint in hints.items():
        if name in shape.members:
            yield from differences(shape.members[name], hint, f"{path}.{name}")
        elif name not in READ_ONLY:
            yield f"{path}.{name}: missing"
    if shape.exact:
        yield from (f"{path}.{name}: unknown" for name in shape.members.keys() - hints.keys() - OLD)


def _words(kind: type[enum.Enum]) -> set[str]:
    return {str(member.value) for member in kind}


def _scalar(kind: object) -> type | tuple[type, ...]:
    if kind is bool:
        return Flag
    if kind is int:
        return WholeNumber
    if kind is float:
        return Decimal
    closed = isinstance(kind, type) and issubclass(kind, enum.Enum) and kind.__name__ not in TEXTS
    return Words if closed else (String, Words)


@pytest.mark.parametrize("kind", RESOURCES)
def test_a_shape_agrees_with_the_sdk(kind: str) -> None:
    """Every member that the SDK knows has the same type here."""
    shape = types.SHAPES[f"Microsoft.Compute/{kind}"]
    assert list(differences(shape, RESOURCES[kind], kind)) == []
