"""Random bodies of a resource type, each with what Azure returns for it, read back in that form.

The spellings are those that clients use: names and words in any case, booleans and numbers as
strings, numbers for strings, members that the schema does not have.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairwarning.arm.registry import TYPES
from fairwarning.arm.schema import types
from fairwarning.arm.schema.types import (
    DECIMAL,
    FLAG,
    REFERENCE,
    TEXT,
    WHOLE,
    ListOf,
    MapOf,
    Shape,
    ValueType,
    Words,
)
from fairwarning.core.model import ScaleSet, Scope
from fairwarning.core.record import changed
from fairwarning.service.resources import INSTANCE
from tests.arm.type_samples import without_etags
from tests.fixtures.arm import ArmHarness
from tests.fixtures.fleet import all_entities

pytestmark = pytest.mark.spec("C6")

OMITTED = frozenset({
    # references that must exist, or that the service computes
    "id", "etag", "type", "availabilitySet", "virtualMachineScaleSet", "networkInterfaces",
    "managedBy", "managedByExtended", "virtualMachine", "virtualMachines", "ipConfigurations",
    "ipConfiguration", "managedDisk", "creationData", "diskState", "shareInfo",
    "backendIPConfigurations", "networkSecurityGroup", "publicIPAddress", "natGateway",
    "proximityPlacementGroup", "availabilitySets", "virtualMachineScaleSets", "hostedWorkloads",
    "primary", "subnets", "fqdn", "domainNameLabel", "loadBalancerBackendAddressPools",
    "loadBalancerInboundNatRules", "frontendIPConfigurations", "backendAddressPools",
    # secrets
    "adminPassword", "customData", "userData",
    # computed
    "provisioningState", "instanceView", "vmId", "uniqueId", "timeCreated", "instanceId",
    "resources",
    "latestModelApplied", "modelDefinitionApplied", "resourceGuid", "macAddress", "ipAddress",
    "appliedDnsServers", "internalFqdn", "internalDomainNameSuffix", "singlePlacementGroup",
    "defaultSecurityRules", "subnet", "inboundNatRules", "inboundNatPools", "diskSizeBytes",
    # only for Spot
    "evictionPolicy", "billingProfile",
})  # fmt: skip
"""Members that depend on other resources or on other members, or that are not stored."""

USERS = ("loadBalancingRules", "outboundRules")
"""Members that the service computes where they are references: the rules that use a probe."""

FIXED: Mapping[str, Any] = {
    "location": "local",
    "notBeforeTimeout": "PT15M",
    "pauseTimeBetweenBatches": "PT15M",
    "gracePeriod": "PT15M",
    "restoreTimeout": "PT15M",
    "extensionsTimeBudget": "PT15M",
    "addressPrefix": "10.1.0.0/24",
    "addressPrefixes": ["10.1.0.0/16"],
    "dataDisks": [{"lun": 0, "createOption": "Empty", "diskSizeGB": 8}],
    "zones": ["1"],
    "maxBatchInstancePercent": 20,
    "maxUnhealthyInstancePercent": 20,
    "maxUnhealthyUpgradedInstancePercent": 20,
}
"""Members with a syntax or range of their own."""


@dataclass(frozen=True)
class Sample:
    """A value as a client sends it, and as Azure returns it."""

    sent: Any
    returned: Any


_NAMES = st.from_regex("[a-z][a-z0-9]{0,8}", fullmatch=True)
_SPELLINGS: st.SearchStrategy[Callable[[str], str]] = st.sampled_from([
    str, str, str.lower, str.upper, str.title
])  # fmt: skip
_UNKNOWN = st.sampled_from(("xOther", "yAnother"))
_STRATEGIES: dict[int, st.SearchStrategy[Sample]] = {}


def samples(kind: ValueType) -> st.SearchStrategy[Sample]:
    """Return the strategy for values of a type."""
    if id(kind) not in _STRATEGIES:  # building one takes longer than drawing from it
        _STRATEGIES[id(kind)] = _build(kind)
    return _STRATEGIES[id(kind)]


def _build(kind: ValueType) -> st.SearchStrategy[Sample]:
    if isinstance(kind, Shape):
        return objects(kind)
    if isinstance(kind, ListOf):
        return st.lists(samples(kind.item), max_size=2).map(_list)
    if isinstance(kind, MapOf):
        return st.dictionaries(_NAMES, samples(kind.item), max_size=2).map(_map)
    return _scalars(kind)


def _list(items: list[Sample]) -> Sample:
    """Return a list whose objects have different names."""
    for number, item in enumerate(items):
        if isinstance(item.sent, dict):
            for part in (item.sent, item.returned):
                for key in [key for key in part if key.lower() == "name"]:
                    del part[key]
                part["name"] = f"part{number}"
    return Sample([item.sent for item in items], [item.returned for item in items])


def _map(items: dict[str, Sample]) -> Sample:
    sent, returned = (
        {k: getattr(v, side) for k, v in items.items()} for side in ("sent", "returned")
    )
    return Sample(sent, returned)


def _scalars(kind: ValueType) -> st.SearchStrategy[Sample]:
    texts = _NAMES.map(lambda name: Sample(name, name))
    if kind is FLAG:
        flags = (True, False)
        return st.sampled_from(
            [Sample(sent, flag) for flag in flags for sent in (flag, str(flag), str(flag).lower())]
        )
    if kind is WHOLE:
        return st.sampled_from(
            [
                Sample(sent, number)
                for number in (1, 2, 3)
                for sent in (number, str(number), number / 1)
            ]
        )
    if kind is DECIMAL:
        return st.sampled_from([Sample(1.5, 1.5), Sample("1.5", 1.5), Sample(2, 2)])
    if isinstance(kind, Words):
        return st.sampled_from(
            [
                Sample(sent, word)
                for word in kind.words
                for sent in (word, word.lower(), word.upper(), word.title())
            ]
        )
    if kind is TEXT:
        return st.one_of(texts, st.sampled_from([Sample(8, "8"), Sample(80, "80")]))
    return texts


@st.composite
def objects(draw: st.DrawFn, shape: Shape) -> Sample:
    """Return an object with some of the members of a shape, and perhaps an unknown one."""
    computed = {name for name in USERS if shape.members.get(name) == ListOf(REFERENCE)}
    names = sorted(set(shape.members) - OMITTED - computed - {"name"})
    sent: dict[str, Any] = {}
    returned: dict[str, Any] = {}
    for name in draw(st.lists(st.sampled_from(names), max_size=4)) if names else ():
        if name not in returned:
            fixed = st.just(Sample(FIXED.get(name), FIXED.get(name)))
            value = draw(fixed if name in FIXED else samples(shape.members[name]))
            sent[draw(_SPELLINGS)(name)] = value.sent
            returned[name] = value.returned
    if not shape.exact and draw(st.booleans()):
        sent[draw(_UNKNOWN)] = "true"
        returned |= {name: "true" for name in sent if name in {"xOther", "yAnother"}}
    return Sample(sent, returned)


SHAPES = types.shapes()
KINDS = sorted(kind for kind in SHAPES if kind.count("/") == 1 and TYPES.get(kind))
"""The types that have a path of their own."""
UNHURRIED = settings(suppress_health_check=[HealthCheck.too_slow])  # on a busy machine


def bodies(kind: str) -> st.SearchStrategy[Sample]:
    """Return a strategy for bodies of a resource type, with a location."""
    return objects(SHAPES[kind]).map(
        lambda sample: Sample({"location": "local", **sample.sent}, sample.returned)
    )


def assert_contains(document: Any, expected: Any, path: str) -> None:  # noqa: ANN401  (any JSON)
    """The document has everything that is expected, and may have more members."""
    if isinstance(expected, dict):
        for name, part in expected.items():
            assert name in document, f"{path}.{name}"
            assert_contains(document[name], part, f"{path}.{name}")
    elif isinstance(expected, list):
        assert len(document) == len(expected), path
        for number, part in enumerate(expected):
            assert_contains(document[number], part, f"{path}[{number}]")
    else:
        assert document == expected, path
        assert type(document) is type(expected), path


def machines_and_sets(arm: ArmHarness) -> dict[str, Scope | ScaleSet]:
    """Return the scopes with their machines, and the scale sets without their versions."""
    entities = arm.run(all_entities(arm.store)).values()
    scopes = {entity.id: entity for entity in entities if isinstance(entity, Scope)}
    sets = {e.id: changed(e, version=0) for e in entities if isinstance(e, ScaleSet)}
    return {**{f"scope {name}": scope for name, scope in scopes.items()}, **sets}


def check_roundtrip(arm: ArmHarness, path: str, shape: Shape, sample: Sample) -> None:
    """What is sent reads back in Azure's form, and writing that back changes nothing."""
    response = arm.put(path, sample.sent)
    assert response.status in {200, 201}, response.body
    document = arm.get(path).json
    assert_contains(document, sample.returned, "")
    assert shape.convert(document, "") == document
    entities = machines_and_sets(arm)
    again = arm.put(path, document)
    assert again.status == 200, again.body
    assert without_etags(arm.get(path).json) == without_etags(document)
    assert machines_and_sets(arm) == entities
    assert arm.driver.impacts == []


@pytest.mark.parametrize("kind", KINDS)
@UNHURRIED
@given(data=st.data())
def test_a_resource_reads_back_in_azures_form(kind: str, data: st.DataObject) -> None:
    """Whatever the spelling, the types are the schema's, and a PUT of the document is a no-op."""
    sample = data.draw(bodies(kind))
    with ArmHarness() as arm:
        path = f"{arm.group()}/providers/{kind}/one"
        check_roundtrip(arm, path, SHAPES[kind], sample)


@UNHURRIED
@given(sample=objects(SHAPES[INSTANCE.lower()]))
def test_an_instance_reads_back_in_azures_form(sample: Sample) -> None:
    """The same holds for an instance of a scale set, with its own members."""
    with ArmHarness() as arm:
        path = f"{arm.group()}/providers/Microsoft.Compute/virtualMachineScaleSets/web"
        arm.put(path, {"location": "local", "sku": {"name": "s", "capacity": 1}})
        check_roundtrip(arm, f"{path}/virtualMachines/0", SHAPES[INSTANCE.lower()], sample)
