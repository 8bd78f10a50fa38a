from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairwarning.arm.registry import TYPES
from fairwarning.arm.schema import types
from fairwarning.arm.schema.types import Shape
from fairwarning.core.model import ScaleSet, Scope
from fairwarning.core.record import changed
from fairwarning.service.resources import INSTANCE
from tests.arm.spellings import Sample, objects
from tests.arm.type_samples import without_etags
from tests.fixtures.arm import ArmHarness
from tests.fixtures.fleet import all_entities

pytestmark = pytest.mark.spec("C6")

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
