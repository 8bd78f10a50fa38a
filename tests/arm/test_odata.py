import pytest

from tests.arm.bodies import COMPUTE, VM, WEB, created, machine, refused, scale_set
from tests.arm.everything import FleetSnapshot
from tests.fixtures.arm import SUBSCRIPTION, ArmHarness

pytestmark = pytest.mark.spec("C6")

MACHINES = f"{COMPUTE}/virtualMachines"
NETWORK = "/resourceGroups/rg/providers/Microsoft.Network"


def four_machines(arm: ArmHarness) -> None:
    """Create machines with different tags and locations."""
    arm.group()
    for name, location, tags in (
        ("web-1", "westus", {"env": "prod", "Team": "a"}),
        ("web-2", "West US", {"env": "test"}),
        ("db-1", "local", {"env": "dev", "other": "prod"}),
        ("jobs", "local", {"note": "it's"}),
    ):
        created(arm.put(f"{MACHINES}/{name}", {"location": location, "tags": tags}))


def matching(arm: ArmHarness, path: str, expression: str) -> list[str]:
    """Return the names that a filter matches."""
    response = arm.get(path, **{"$filter": expression})
    assert response.status == 200, response.body
    return [item["name"] for item in response.json["value"]]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("", {"web-1", "web-2", "db-1", "jobs"}),
        ("name eq 'WEB-1'", {"web-1"}),
        ("name ne 'web-1'", {"web-2", "db-1", "jobs"}),
        ("tagValue eq 'it''s'", {"jobs"}),
        ("location eq 'westus'", {"web-1", "web-2"}),
        ("location eq 'West US' and name ne 'web-2'", {"web-1"}),
        ("tagName eq 'env' and tagValue eq 'prod'", {"web-1"}),
        ("tagName eq 'ENV' and tagValue eq 'PROD'", set()),
        ("tagName eq 'team'", {"web-1"}),
        ("tagValue eq 'prod'", {"web-1", "db-1"}),
        ("tagName ne 'env'", {"jobs"}),
        ("name eq 'web-1' or name eq 'db-1' and location eq 'nowhere'", {"web-1"}),
        ("resourceType eq 'microsoft.compute/virtualmachines'", {"web-1", "web-2", "db-1", "jobs"}),
        ("resourceGroup eq 'RG'", {"web-1", "web-2", "db-1", "jobs"}),
        ("resourceGroup eq 'other'", set()),
    ],
)
def test_a_filter_of_machines(arm: ArmHarness, expression: str, expected: set[str]) -> None:
    """The list and that of all resources contain exactly what the filter matches."""
    four_machines(arm)
    assert set(matching(arm, MACHINES, expression)) == expected
    assert set(matching(arm, "/resources", expression)) == expected
    assert set(matching(arm, "/resourceGroups/rg/resources", expression)) == expected


def test_machines_of_a_scale_set(arm: ArmHarness) -> None:
    """A filter by `virtualMachineScaleSet/id` matches no machine outside the set."""
    machine(arm)
    scale_set(arm)
    expression = f"'virtualMachineScaleSet/id' eq '{SUBSCRIPTION}{WEB}'"
    assert "vm" not in matching(arm, MACHINES, expression)
    assert matching(arm, MACHINES, "virtualMachineScaleSet/id eq ''") == ["vm"]


def test_documents_without_what_a_filter_compares(arm: ArmHarness) -> None:
    """A resource of the subscription has no group, and a part may have anything as its tags."""
    net = f"{NETWORK}/virtualNetworks/net"
    subnets = [{"name": "a", "tags": "x"}, {"name": "b", "tags": {"x": 1, "y": "z"}}]
    machine(arm)
    arm.put("/providers/Microsoft.X/y/one", {})
    assert matching(arm, "/resources", "resourceGroup ne 'rg'") == ["one"]
    created(arm.put(net, {"location": "local", "properties": {"subnets": subnets}}))
    assert matching(arm, f"{net}/subnets", "tagName eq 'x'") == []
    assert matching(arm, f"{net}/subnets", "tagName eq 'y'") == ["b"]


@pytest.mark.parametrize(
    "expression",
    [
        "name",
        "name eq",
        "name eq x",
        "name eq 'a' name eq 'b'",
        "name lt 'a'",
        "color eq 'red'",
        "startswith(name, 'a')",
        "(name eq 'a')",
        "name eq 'a')",
        "name eq 'a",
        "name eq 'a' and",
        "name eq 'a' order",
        "and",
        "$",
        "name eq 'a' and " * 500,
    ],
)
def test_a_filter_that_cannot_be_evaluated(arm: ArmHarness, expression: str) -> None:
    """It is refused, and the error says what a filter may be."""
    for path in (MACHINES, "/resources", "/resourceGroups", f"{NETWORK}/virtualNetworks"):
        response = arm.get(path, **{"$filter": expression})
        assert refused(response) == (400, "InvalidFilterInQueryString")
        if len(expression) < 1000:
            assert "FIELD is one of name, " in response.error_message


def test_top_limits_all_pages(arm: ArmHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list ends after `$top` entries, on whatever page that is; a nextLink keeps the filter."""
    four_machines(arm)
    monkeypatch.setattr("fairwarning.arm.types.context.PAGE", 2)
    for top in range(1, 6):
        page = arm.get(MACHINES, **{"$top": str(top), "$filter": "name ne 'x'"}).json
        seen = [item["name"] for item in page["value"]]
        while "nextLink" in page:
            page = arm.follow(page["nextLink"]).json
            seen += [item["name"] for item in page["value"]]
        assert seen == ["db-1", "jobs", "web-1", "web-2"][:top]


@pytest.mark.parametrize("top", ["0", "-1", "x", "1.5", "10001", "9" * 30, "²"])
def test_an_invalid_top(arm: ArmHarness, top: str) -> None:
    """The error says what is allowed."""
    response = arm.get(MACHINES, **{"$top": top})
    assert refused(response) == (400, "InvalidParameter")
    assert "from 1 to 10000" in response.error_message


def test_expand(arm: ArmHarness) -> None:
    """Known words add their members; another one is refused with those that are allowed."""
    machine(arm)
    for path in (VM, MACHINES):
        document = arm.get(path, **{"$expand": "InstanceView,userData"}).json
        properties = document.get("value", [document])[0]["properties"]
        assert properties["instanceView"]["statuses"]
        response = arm.get(path, **{"$expand": "everything"})
        assert refused(response) == (400, "InvalidParameter")
        assert "instanceView" in response.error_message
    (entry,) = arm.get("/resources", **{"$expand": "changedTime,provisioningState"}).json["value"]
    assert entry["provisioningState"] == "Succeeded"
    assert entry["changedTime"].endswith("Z")
    assert "changedTime" not in arm.get("/resources").json["value"][0]


def test_no_option_is_ignored() -> None:
    """An option that a path does not have is refused on every path that can be read."""
    with FleetSnapshot().restore() as arm:
        requests = [request for request in arm.requests() if request.route.method == "GET"]
        for request in requests:
            if request.names_nothing:
                continue
            for option in ("$select", "$search", "$count"):
                response = arm.get(f"/{request.path}", **{option: "name"})
                assert response.status == 400, (request.label, option)
            assert arm.call(request).status == 200, request.label
