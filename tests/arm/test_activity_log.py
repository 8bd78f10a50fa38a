"""The activity log, read from the journal (C1)."""

from typing import Any

import pytest

from fairwarning.core.times import iso
from fairwarning.service.tokens import Principal, Role
from tests.arm.bodies import VM, WEB, Json, machine, refused, scale_set
from tests.fixtures.arm import SUBSCRIPTION, ArmHarness

pytestmark = pytest.mark.spec("C1")

LOG = "/providers/Microsoft.Insights/eventtypes/management/values"


def log(arm: ArmHarness, *terms: str, **options: Any) -> list[Json]:  # noqa: ANN401  (any JSON)
    """Return the records that a filter allows, as `az monitor activity-log list` does."""
    response = arm.get(LOG, **{"$filter": " and ".join(terms)}, **options)
    assert response.status == 200, response.body
    value: list[Json] = response.json["value"]
    return value


def operations(records: list[Json]) -> list[tuple[str, str]]:
    """Return the operation and the status of each record."""
    return [(r["operationName"]["value"], r["status"]["value"]) for r in records]


def test_a_machine() -> None:
    """A machine's creation, restart and deletion are in the log, the newest first."""
    with ArmHarness() as arm:
        machine(arm)
        arm.poll("rg:vm")
        accepted = arm.post(f"{VM}/restart")
        arm.advance(2000)
        arm.delete(VM)
        arm.advance(2000)
        resource = "Microsoft.Compute/virtualMachines"
        records = log(arm, f"resourceId eq '{SUBSCRIPTION}{VM}'")
        assert operations(records) == [
            (f"{resource}/delete", "Succeeded"),
            (f"{resource}/delete", "Accepted"),
            (f"{resource}/restart/action", "Succeeded"),
            (f"{resource}/restart/action", "Accepted"),
            (f"{resource}/write", "Succeeded"),
        ]
        restart = records[3]
        assert restart["correlationId"] == accepted.headers["x-ms-request-id"]
        assert restart["caller"] == "operator"
        assert restart["resourceGroupName"] == "rg"
        assert restart["resourceProviderName"]["value"] == "Microsoft.Compute"
        assert len({record["eventDataId"] for record in records}) == len(records)


def test_filters() -> None:
    """The filters of `az monitor activity-log list`: period, group, correlation, caller, status."""
    with ArmHarness() as arm:
        machine(arm)
        scale_set(arm)
        machine(arm, VM.replace("rg", "other"))
        start = arm.clock.now()
        arm.advance(100)
        accepted = arm.post(f"{WEB}/restart", {"instanceIds": ["0"]})
        arm.advance(100)
        since = f"eventTimestamp ge {iso(int(start + 50))}"
        assert operations(log(arm, since)) == [
            ("Microsoft.Compute/virtualMachineScaleSets/restart/action", "Succeeded"),
            ("Microsoft.Compute/virtualMachineScaleSets/restart/action", "Accepted"),
        ]
        until = f"eventTimestamp le '{iso(int(start + 50))}'"
        assert {status for _, status in operations(log(arm, until))} == {"Succeeded"}
        groups = log(arm, "resourceGroupName eq 'OTHER'")
        assert {record["resourceGroupName"] for record in groups} == {"other"}
        operation = accepted.headers["x-ms-request-id"]
        assert len(log(arm, f"correlationId eq '{operation}'")) == 2
        assert len(log(arm, f"correlationId eq '{operation}'", "status eq 'Accepted'")) == 1
        assert log(arm, "caller eq 'nobody'") == []
        (record, *_) = arm.get(LOG, **{"$select": "caller,status"}).json["value"]
        assert set(record) == {"caller", "status"}


def test_a_tenant_sees_its_group() -> None:
    """The log of a tenant has the records of its group only."""
    with ArmHarness() as arm:
        machine(arm)
        machine(arm, VM.replace("rg", "other"))
        arm.post(f"{VM.replace('rg', 'other')}/restart")
        ann = Principal(name="ann", role=Role.TENANT, group="RG")
        records = log(arm, principal=ann)
        assert {record["resourceGroupName"] for record in records} == {"rg"}


def test_pages() -> None:
    """A long log has several pages, with each record once."""
    with ArmHarness() as arm:
        machine(arm)
        for number in range(250):
            arm.patch(VM, {"tags": {"n": str(number)}})
        first = arm.get(LOG).json
        second = arm.follow(first["nextLink"]).json
        ids = [record["id"] for record in [*first["value"], *second["value"]]]
        assert len(first["value"]) == 200
        assert len(ids) == len(set(ids)) == 252
        assert "nextLink" not in second


@pytest.mark.parametrize(
    "expression",
    [
        "color eq 'red'",
        "caller ne 'me'",
        "caller eq 'a' or caller eq 'b'",
        "eventTimestamp ge yesterday",
        "eventTimestamp eq '2026-01-01T00:00:00Z'",
        "nonsense",
    ],
)
def test_a_bad_filter(expression: str) -> None:
    """An unknown filter is refused, with what is supported."""
    with ArmHarness() as arm:
        response = arm.get(LOG, **{"$filter": expression})
        assert refused(response) == (400, "InvalidFilterInQueryString")
        assert refused(arm.get(LOG, **{"$skiptoken": "x"})) == (400, "InvalidSkipToken")
