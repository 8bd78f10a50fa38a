"""Query options of scale sets, their instances and machines: honored, or refused by name (C6)."""

import pytest

from fairwarning.service.tokens import Principal, Role
from tests.arm.bodies import COMPUTE, WEB, created, machine, names, scale_set
from tests.fixtures.arm import SUBSCRIPTION, ArmHarness
from tests.fixtures.http import Response

pytestmark = pytest.mark.spec("C6")

INSTANCES = f"{WEB}/virtualMachines"
MACHINES = f"{COMPUTE}/virtualMachines"
ALL_MACHINES = "/providers/Microsoft.Compute/virtualMachines"


def filtered(arm: ArmHarness, text: str, path: str = INSTANCES) -> list[str]:
    """Return the names that a filter lets through."""
    response = arm.get(path, **{"$filter": text})
    assert response.status == 200, response.body
    return [item["name"] for item in response.json["value"]]


def test_instances_by_their_model() -> None:
    """`properties/latestModelApplied` tells upgraded instances from others."""
    with ArmHarness() as arm:
        scale_set(arm)
        created(arm.patch(WEB, {"sku": {"name": "Standard_D2s_v5"}}))
        arm.post(f"{WEB}/manualupgrade", {"instanceIds": ["1"]})
        assert filtered(arm, "properties/latestModelApplied eq true") == ["web_1"]
        assert filtered(arm, "properties/latestModelApplied eq false") == ["web_0", "web_2"]


@pytest.mark.parametrize(
    ("text", "instances"),
    [
        ("startswith(instanceView/statuses/code, 'PowerState') eq true", ["web_0", "web_1"]),
        ("startswith(instanceView/statuses/code,'PowerState/running')", ["web_0"]),
        ("startswith(instanceView/statuses/code, 'PowerState/running') eq false", ["web_1"]),
        ("instanceView/statuses/any(s: s/code eq 'PowerState/deallocated')", ["web_1"]),
        ("instanceView/statuses/any(x:x/code eq 'PowerState/stopped')", []),
    ],
)
def test_instances_by_their_status(text: str, instances: list[str]) -> None:
    """Instances are chosen by the codes of their instance views."""
    with ArmHarness() as arm:
        scale_set(arm, capacity=2)
        arm.post(f"{INSTANCES}/1/deallocate")
        arm.advance(120)
        assert filtered(arm, text) == instances


def test_a_filter_goes_over_all_pages() -> None:
    """A page is full of matching instances, and the next one continues with the filter."""
    with ArmHarness() as arm:
        scale_set(arm, capacity=402)
        created(arm.patch(WEB, {"sku": {"name": "Standard_D2s_v5"}}))
        odd = [str(number) for number in range(1, 402, 2)]
        arm.post(f"{WEB}/manualupgrade", {"instanceIds": odd})
        page = arm.get(INSTANCES, **{"$filter": "properties/latestModelApplied eq true"}).json
        assert [item["instanceId"] for item in page["value"]] == odd[:200]
        rest = arm.follow(page["nextLink"]).json
        assert [item["instanceId"] for item in rest["value"]] == odd[200:]
        assert "nextLink" not in rest


def test_a_selection() -> None:
    """`instanceView` and `instanceView/statuses` leave the names and what is selected."""
    with ArmHarness() as arm:
        scale_set(arm, capacity=1)
        (whole,) = arm.get(INSTANCES, **{"$expand": "instanceView"}).json["value"]
        view = whole["properties"]["instanceView"]
        (selected,) = arm.get(INSTANCES, **{"$select": "instanceView"}).json["value"]
        assert selected["properties"] == {"instanceView": view}
        assert selected["instanceId"] == "0"
        (least,) = arm.get(INSTANCES, **{"$select": "instanceView/statuses"}).json["value"]
        assert least["properties"] == {"instanceView": {"statuses": view["statuses"]}}


@pytest.mark.parametrize(
    ("path", "option", "value"),
    [
        (INSTANCES, "$filter", "instanceView/statuses eq 'PowerState/running'"),
        (INSTANCES, "$select", "name"),
        (INSTANCES, "$expand", "everything"),
        (INSTANCES, "$orderby", "name"),
        (f"{INSTANCES}/0", "$expand", "resiliencyView"),
        (f"{INSTANCES}/0", "$filter", "properties/latestModelApplied eq true"),
        (WEB, "$expand", "instanceView"),
        (WEB, "$select", "name"),
        (f"{COMPUTE}/virtualMachineScaleSets", "$filter", "capacity eq '1'"),
        (f"{WEB}/networkInterfaces", "$filter", "name eq 'nic'"),
        (MACHINES, "$filter", "size eq 'large'"),
        (MACHINES, "$expand", "cat"),
    ],
)
def test_other_options_are_refused(path: str, option: str, value: str) -> None:
    """The error names the option or its value, and what is allowed."""
    with ArmHarness() as arm:
        scale_set(arm, capacity=1)
        response = arm.get(path, **{option: value})
        assert response.status == 400, response.body
        assert option in response.error_message or value in response.error_message


def test_user_data_is_expanded_to_nothing() -> None:
    """User data is a secret that is never stored."""
    with ArmHarness() as arm:
        scale_set(arm, capacity=1)
        for path in (WEB, f"{INSTANCES}/0"):
            assert arm.get(path, **{"$expand": "userData"}).json == arm.get(path).json


# --- Machines of a set ----------------------------------------------------------------------------


def of_set(arm: ArmHarness, path: str = MACHINES, owner: str = WEB) -> Response:
    """List the machines of a set, as `az vm list --vmss` does."""
    text = f"'virtualMachineScaleSet/id' eq '{SUBSCRIPTION}{owner}'"
    return arm.get(path, **{"$filter": text})


def test_the_machines_of_a_set() -> None:
    """The filter lists the instances of a Flexible set and the machines that joined it."""
    with ArmHarness() as arm:
        machine(arm)
        scale_set(arm, capacity=2, orchestrationMode="Flexible")
        scale_set(arm, f"{WEB}2", capacity=1, orchestrationMode="Flexible")
        scale_set(arm, f"{WEB}3", capacity=1)
        owned = {"virtualMachineScaleSet": {"id": f"{SUBSCRIPTION}{WEB}"}}
        created(arm.put(f"{MACHINES}/db", {"location": "local", "properties": owned}))
        for path in (MACHINES, ALL_MACHINES):
            listed = [item["name"] for item in of_set(arm, path).json["value"]]
            assert listed == ["web_0", "web_1", "db"]
        assert of_set(arm, owner=f"{WEB}3").json == {"value": []}
        assert names(arm, MACHINES) == ["db", "vm", "web_0", "web_1", "web2_0"]


def test_the_machines_of_a_large_set() -> None:
    """They come in pages."""
    with ArmHarness() as arm:
        scale_set(arm, capacity=201, orchestrationMode="Flexible")
        first = of_set(arm).json
        rest = arm.follow(first["nextLink"]).json
        listed = [item["name"] for item in (*first["value"], *rest["value"])]
        assert listed == [f"web_{number}" for number in range(201)]
        assert "nextLink" not in rest


def test_a_set_that_is_not_there() -> None:
    """A set of another group, an unknown set and a Uniform one have no machines to list."""
    with ArmHarness() as arm:
        scale_set(arm, orchestrationMode="Flexible")
        scale_set(arm, f"{WEB}2")
        arm.group("other")
        elsewhere = MACHINES.replace("/rg/", "/other/")
        for response in (
            of_set(arm, elsewhere),
            of_set(arm, owner=f"{WEB}9"),
            of_set(arm, owner=f"{WEB}2"),
        ):
            assert response.json == {"value": []}


def test_a_filter_does_not_reach_another_group() -> None:
    """A tenant sees no machines of a set outside its group."""
    with ArmHarness() as arm:
        scale_set(arm, orchestrationMode="Flexible")
        arm.group("other")
        tenant = Principal(name="bob", role=Role.TENANT, group="other")
        text = f"'virtualMachineScaleSet/id' eq '{SUBSCRIPTION}{WEB}'"
        response = arm.get(ALL_MACHINES, principal=tenant, **{"$filter": text})
        assert response.json == {"value": []}
