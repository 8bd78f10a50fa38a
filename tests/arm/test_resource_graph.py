"""Azure Resource Graph over the resources of the fleet (C1)."""

from typing import Any

import pytest

from fairwarning.core.commands import Maintain
from fairwarning.service.tokens import Principal, Role
from tests.arm.bodies import COMPUTE, VM, VM_SCOPE, Json, machine, refused, scale_set
from tests.arm.everything import state
from tests.fixtures.arm import SUBSCRIPTION, ArmHarness
from tests.fixtures.http import Response

pytestmark = pytest.mark.spec("C1")

GRAPH = "//providers/Microsoft.ResourceGraph/resources"


def ask(arm: ArmHarness, query: str, **options: Any) -> Response:  # noqa: ANN401  (any JSON)
    """Run a query, as `az graph query -q` does."""
    principal = options.pop("principal", None)
    version = options.pop("version", "2022-10-01")
    body = {"query": query, "options": options}
    return arm.post(GRAPH, body, principal=principal, version=version)


def data(arm: ArmHarness, query: str, **options: Any) -> list[Json]:  # noqa: ANN401  (any JSON)
    """Return the rows of a query."""
    response = ask(arm, query, **options)
    assert response.status == 200, response.body
    assert response.json["count"] == len(response.json["data"])
    rows: list[Json] = response.json["data"]
    return rows


def test_resources() -> None:
    """Machines with their power state, sets, instances of Flexible sets, and plain resources."""
    with ArmHarness() as arm:
        machine(arm)
        scale_set(arm, capacity=2, orchestrationMode="Flexible")
        scale_set(arm, f"{COMPUTE}/virtualMachineScaleSets/uniform", capacity=2)
        arm.put(f"{COMPUTE}/disks/disk", {"location": "local", "tags": {"a": "b"}})
        query = "Resources | where type =~ 'Microsoft.Compute/virtualMachines' | order by name asc"
        rows = data(arm, query)
        assert [row["name"] for row in rows] == ["vm", "web_0", "web_1"]
        assert rows[0]["id"] == f"{SUBSCRIPTION}{VM}"
        assert rows[0]["type"] == "microsoft.compute/virtualmachines"
        assert rows[0]["resourceGroup"] == "rg"
        arm.post(f"{VM}/deallocate")
        arm.advance(100)
        power = "properties.extended.instanceView.powerState.code"
        stopped = f"{query} | where {power} == 'PowerState/deallocated' | project name"
        assert data(arm, stopped) == [{"name": "vm"}]
        counted = data(arm, "Resources | summarize count() by type | order by type asc")
        assert counted == [
            {"type": "microsoft.compute/disks", "count_": 1},
            {"type": "microsoft.compute/virtualmachines", "count_": 3},
            {"type": "microsoft.compute/virtualmachinescalesets", "count_": 2},
        ]
        tagged = "Resources | where tags.a == 'b' | project name, sku = properties.missing"
        assert data(arm, tagged) == [{"name": "disk", "sku": None}]
        sets = "resources | where type endswith 'scalesets' | project name, sku.capacity"
        assert {"name": "web", "sku_capacity": 2} in data(arm, sets)


def test_containers() -> None:
    """The table of groups and of the subscription."""
    with ArmHarness() as arm:
        arm.group()
        rows = data(arm, "ResourceContainers | project name, type")
        assert rows == [
            {"name": "Fairwarning", "type": "microsoft.resources/subscriptions"},
            {"name": "rg", "type": "microsoft.resources/subscriptions/resourcegroups"},
        ]


def test_maintenance() -> None:
    """Pending maintenance, assignments, and the scheduled events of machines that publish them."""
    with ArmHarness() as arm:
        policy: Json = {
            "scheduledEventsPolicy": {
                "scheduledEventsAdditionalPublishingTargets": {
                    "eventGridAndResourceGraph": {"enable": True}
                }
            }
        }
        machine(arm, **policy)
        machine(arm, f"{VM}2")
        for scope, name in ((VM_SCOPE, "vm"), ("rg:vm2", "vm2")):
            arm.poll(scope)
            arm.do(Maintain(scope=scope, operation=name, machines=(name,)))
        rows = data(arm, "maintenanceresources | order by id asc")
        kinds = [row["type"] for row in rows]
        assert kinds == [
            "microsoft.maintenance/scheduledevents",
            "microsoft.maintenance/updates",
            "microsoft.maintenance/updates",
        ]
        event = rows[0]["properties"]
        assert (event["EventType"], event["Resources"]) == ("Freeze", ["vm"])
        query = "maintenanceresources | where type == 'microsoft.maintenance/updates'"
        assert [row["properties"]["status"] for row in data(arm, query)] == ["Pending"] * 2


def test_a_tenant_sees_its_group() -> None:
    """A query of a tenant is about its group only, in every table."""
    with ArmHarness() as arm:
        machine(arm)
        machine(arm, VM.replace("rg", "other"))
        ann = Principal(name="ann", role=Role.READER, group="RG")
        before = state(arm)
        rows = data(arm, "Resources | project resourceGroup", principal=ann)
        assert rows == [{"resourceGroup": "rg"}]
        rows = data(arm, "ResourceContainers | where name == 'other'", principal=ann)
        assert rows == []
        assert state(arm) == before


def test_pages() -> None:
    """$top and $skipToken divide a result into pages."""
    with ArmHarness() as arm:
        scale_set(arm, capacity=5, orchestrationMode="Flexible")
        query = "Resources | where type has 'virtualmachines' | project name | order by name asc"
        seen: list[str] = []
        options: Json = {"$top": 2}
        while True:
            body = ask(arm, query, **options).json
            assert body["totalRecords"] == 5
            seen += [row["name"] for row in body["data"]]
            if "$skipToken" not in body:
                break
            options["$skipToken"] = body["$skipToken"]
        assert seen == [f"web_{n}" for n in range(5)]
        assert [row["name"] for row in data(arm, query, **{"$skip": 4})] == ["web_4"]


def test_tables() -> None:
    """The format `table`, which is the default of the first api-version."""
    with ArmHarness() as arm:
        arm.group()
        query = "ResourceContainers | where name == 'rg' | project name, n = 1"
        expected = {
            "columns": [{"name": "name", "type": "string"}, {"name": "n", "type": "integer"}],
            "rows": [["rg", 1]],
        }
        assert ask(arm, query, resultFormat="table").json["data"] == expected
        assert ask(arm, query, version="2019-04-01").json["data"] == expected


def test_refusals() -> None:
    """What is not supported is refused by name."""
    with ArmHarness() as arm:
        response = ask(arm, "HealthResources | count")
        assert refused(response) == (400, "InvalidQuery")
        assert "Resources, ResourceContainers, MaintenanceResources" in response.error_message
        for options in (
            {"$top": 0}, {"$top": 1001}, {"$skip": -1}, {"$top": "x"}, {"resultFormat": "csv"},
        ):  # fmt: skip
            assert refused(ask(arm, "Resources", **options)) == (400, "InvalidParameter")
        bad = ask(arm, "Resources", **{"$skipToken": "x"})
        assert refused(bad) == (400, "InvalidSkipToken")
        others: list[Json] = [
            {"subscriptions": ["x"]}, {"managementGroups": ["m"]}, {"facets": [{}]},
        ]  # fmt: skip
        for member in others:
            response = arm.post(GRAPH, {"query": "Resources", **member})
            assert refused(response) == (400, "InvalidParameter")
