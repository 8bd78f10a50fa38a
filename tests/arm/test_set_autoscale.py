"""Autoscale settings: `az monitor autoscale` on a scale set, by schedules and metrics (C6)."""

from datetime import UTC, datetime
from typing import Any

import pytest

from fairwarning.core.commands import ReportMetric
from fairwarning.service.tokens import Principal, Role
from tests.arm.bodies import (
    WEB,
    WEB_SCOPE,
    created,
    names,
    notice,
    refused,
    scale_set,
    visible_events,
)
from tests.fixtures.arm import SUBSCRIPTION, ArmHarness
from tests.fixtures.http import Response

pytestmark = pytest.mark.spec("C6")

SETTINGS = "/resourceGroups/rg/providers/Microsoft.Insights/autoscaleSettings"
AUTO = f"{SETTINGS}/auto"
VERSION = "2022-10-01"
WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday"]

Json = dict[str, Any]


def capacity(least: object, most: object, default: object = None) -> Json:
    """Return a capacity; Azure's tools send its numbers as strings."""
    return {
        "minimum": str(least),
        "maximum": str(most),
        "default": str(least if default is None else default),
    }


def profile(least: object, most: object, name: str = "default", **more: object) -> Json:
    """Return a profile."""
    return {"name": name, "capacity": capacity(least, most), "rules": [], **more}


def rule(operator: str, threshold: float, direction: str, value: int = 1, **action: object) -> Json:
    """Return a rule for the CPU."""
    return {
        "metricTrigger": {
            "metricName": "Percentage CPU",
            "metricResourceUri": f"{SUBSCRIPTION}{WEB}",
            "timeGrain": "PT1M",
            "statistic": "Average",
            "timeWindow": "PT5M",
            "timeAggregation": "Average",
            "operator": operator,
            "threshold": threshold,
        },
        "scaleAction": {
            "direction": direction,
            "type": "ChangeCount",
            "value": str(value),
            "cooldown": "PT5M",
            **action,
        },
    }


def setting(*profiles: Json, target: str = WEB, enabled: bool = True) -> Json:
    """Return an autoscale setting."""
    uri = f"{SUBSCRIPTION}{target}"
    properties = {"targetResourceUri": uri, "enabled": enabled, "profiles": list(profiles)}
    return {"location": "local", "properties": properties}


def put(arm: ArmHarness, *profiles: Json, path: str = AUTO, **more: Any) -> Response:  # noqa: ANN401  (of `setting`)
    """Write an autoscale setting."""
    return arm.put(path, setting(*profiles, **more), version=VERSION)


def instances(arm: ArmHarness) -> int:
    """Return the capacity of the set."""
    count: int = arm.get(WEB).json["sku"]["capacity"]
    return count


def advance_to(arm: ArmHarness, moment: datetime) -> None:
    """Move the time of the fleet to a moment."""
    arm.advance(moment.timestamp() - arm.clock.now())


# --- The resource ---------------------------------------------------------------------------------


def test_a_setting_is_written_and_read() -> None:
    """It reads back as it was sent, in every list."""
    with ArmHarness() as arm:
        scale_set(arm)
        response = put(arm, profile(2, 5))
        assert response.status == 201
        document = arm.get(AUTO, version=VERSION).json
        assert document == response.json
        assert document["id"] == f"{SUBSCRIPTION}{AUTO}"
        assert document["type"] == "Microsoft.Insights/autoscaleSettings"
        properties = document["properties"]
        assert properties["name"] == "auto"
        assert properties["enabled"] is True
        assert properties["profiles"] == [profile(2, 5)]
        assert properties["targetResourceUri"] == f"{SUBSCRIPTION}{WEB}"
        for path in (SETTINGS, SETTINGS.lower().replace("/resourcegroups", "/resourceGroups")):
            assert names(arm, path) == ["auto"]
        assert names(arm, "/providers/Microsoft.Insights/autoscaleSettings") == ["auto"]
        assert put(arm, profile(2, 6)).status == 200


def test_a_setting_is_changed_and_deleted() -> None:
    """A PATCH keeps the rest; after the deletion the set keeps its capacity."""
    with ArmHarness() as arm:
        scale_set(arm, capacity=1)
        put(arm, profile(2, 5))
        assert instances(arm) == 2
        response = arm.patch(AUTO, {"tags": {"a": "b"}}, version=VERSION)
        assert (response.json["tags"], response.json["properties"]["enabled"]) == ({"a": "b"}, True)
        assert arm.delete(AUTO, version=VERSION).status == 200
        assert arm.get(AUTO).status == 404
        assert arm.delete(AUTO, version=VERSION).status == 204
        created(arm.put(WEB, {"location": "local", "sku": {"capacity": 1}}))
        arm.advance(600)
        assert instances(arm) == 1


def test_a_setting_that_is_off() -> None:
    """The set is not scaled; `enabled` is false by default, and was true in old api-versions."""
    with ArmHarness() as arm:
        scale_set(arm, capacity=1)
        put(arm, profile(2, 5), enabled=False)
        assert instances(arm) == 1
        body = setting(profile(2, 5))
        del body["properties"]["enabled"]
        response = arm.put(AUTO, body, version=VERSION)
        assert response.json["properties"]["enabled"] is False
        assert instances(arm) == 1
        response = arm.put(AUTO, body, version="2015-04-01")
        assert response.json["properties"]["enabled"] is True
        assert instances(arm) == 2


def test_one_setting_for_a_set() -> None:
    """A second one is refused; a setting that moves to another set leaves the first."""
    with ArmHarness() as arm:
        scale_set(arm, capacity=1)
        scale_set(arm, f"{WEB}2", capacity=1)
        put(arm, profile(1, 5))
        response = put(arm, profile(1, 5), path=f"{SETTINGS}/other")
        assert refused(response) == (409, "Conflict")
        assert "already has an autoscale setting" in response.error_message
        assert put(arm, profile(3, 5), target=f"{WEB}2").status == 200
        assert arm.get(f"{WEB}2").json["sku"]["capacity"] == 3
        assert put(arm, profile(2, 5), path=f"{SETTINGS}/other").status == 201
        assert instances(arm) == 2


def test_a_setting_outlives_its_set() -> None:
    """It stays, as on Azure, and can still be deleted; a group goes with its settings."""
    with ArmHarness() as arm:
        scale_set(arm, capacity=1)
        put(arm, profile(1, 5))
        arm.delete(WEB)
        arm.advance(120)
        assert arm.get(WEB).status == 404
        assert names(arm, SETTINGS) == ["auto"]
        scale_set(arm, capacity=1)
        assert put(arm, profile(2, 5)).status == 200
        assert instances(arm) == 2
        accepted = arm.delete("/resourceGroups/rg")
        arm.advance(120)
        assert arm.ended(accepted)["status"] == "Succeeded"


def test_targets() -> None:
    """The target is an existing set of the same group."""
    with ArmHarness() as arm:
        scale_set(arm)
        scale_set(arm, WEB.replace("/rg/", "/other/"))
        other = WEB.replace("/rg/", "/other/")
        assert refused(put(arm, profile(1, 2), target=other)) == (400, "InvalidParameter")
        assert refused(put(arm, profile(1, 2), target="/web")) == (400, "InvalidParameter")
        assert refused(put(arm, profile(1, 2), target=f"{WEB}9")) == (404, "ResourceNotFound")
        assert names(arm, SETTINGS) == []


def test_a_tenant_and_a_reader() -> None:
    """A tenant writes settings of its group only, and a reader none."""
    with ArmHarness() as arm:
        scale_set(arm)
        body = setting(profile(1, 2))
        reader = Principal(name="eve", role=Role.READER)
        foreign = Principal(name="bob", role=Role.TENANT, group="other")
        for principal in (reader, foreign):
            assert arm.put(AUTO, body, principal=principal).status == 403
        own = Principal(name="ann", role=Role.TENANT, group="rg")
        assert arm.put(AUTO, body, principal=own).status == 201


def test_a_single_placement_group() -> None:
    """A maximum that the set cannot reach is refused."""
    with ArmHarness() as arm:
        scale_set(arm, singlePlacementGroup=True)
        assert refused(put(arm, profile(1, 101))) == (409, "OperationNotAllowed")


@pytest.mark.parametrize(
    ("profiles", "member"),
    [
        ([], "profiles"),
        ([1], "profiles[0]"),
        ([profile(1, 2)] * 21, "profiles"),
        ([profile(1, 2), profile(1, 2)], "name"),
        ([profile(1, 2), profile(1, 2, "other")], "profiles"),
        ([profile(3, 2)], "capacity"),
        ([profile(-1, 2)], "capacity.minimum"),
        ([profile(1, 1001)], "capacity.maximum"),
        ([profile(1, "many")], "capacity.maximum"),
        ([{"name": "a", "rules": []}], "capacity.minimum"),
        ([profile(1, 2, "")], "name"),
        ([profile(1, 2, rules=[rule("Above", 1, "Increase")])], "operator"),
        ([profile(1, 2, rules=[rule("GreaterThan", 1, "Up")])], "direction"),
        ([profile(1, 2, rules=[rule("GreaterThan", 1, "Increase", 0)])], "value"),
        ([profile(1, 2, rules=[rule("GreaterThan", 1, "Increase", cooldown="PT1S")])], "cooldown"),
        ([profile(1, 2, rules=[rule("GreaterThan", 1, "Increase", type="Next")])], "type"),
        ([profile(1, 2, rules=[{"scaleAction": {}}])], "metricTrigger"),
        ([profile(1, 2, rules=[rule("GreaterThan", 1, "Increase")] * 11)], "rules"),
        ([profile(1, 2, fixedDate={"start": "noon", "end": "night"})], "fixedDate.start"),
        ([profile(1, 2, fixedDate={"start": "2026-01-02", "end": "2026-01-01"})], "fixedDate.end"),
        ([profile(1, 2, recurrence={"frequency": "Day"})], "frequency"),
        ([profile(1, 2, recurrence={"frequency": "Week", "schedule": {}})], "days"),
    ],
)
def test_invalid_settings(profiles: list[Any], member: str) -> None:
    """The error names the member and what is allowed; nothing is stored."""
    with ArmHarness() as arm:
        scale_set(arm)
        response = put(arm, *profiles)
        assert refused(response) == (400, "InvalidParameter")
        assert member in response.error_message
        assert names(arm, SETTINGS) == []


# --- What it does ---------------------------------------------------------------------------------


def test_the_capacity_stays_within_its_bounds() -> None:
    """A set that is too small grows, and one that is too large shrinks."""
    with ArmHarness() as arm:
        scale_set(arm, capacity=1)
        put(arm, profile(3, 5))
        assert instances(arm) == 3
        put(arm, profile(0, 2))
        assert instances(arm) == 2


def test_metrics_scale_the_set() -> None:
    """A metric past its threshold scales out, and in by the set's policy, with its notice."""
    with ArmHarness() as arm:
        scale_set(arm, capacity=2, model=notice(), scaleInPolicy={"rules": ["NewestVM"]})
        arm.poll(WEB_SCOPE)
        rules = [rule("GreaterThan", 80, "Increase", 2), rule("LessThan", 20, "Decrease")]
        put(arm, profile(1, 4, rules=rules))
        cpu = "Percentage CPU"
        arm.do(ReportMetric(set="rg:web", metric=cpu, value=90.0))
        assert instances(arm) == 4
        arm.advance(600)
        arm.do(ReportMetric(set="rg:web", metric=cpu, value=10.0))
        assert instances(arm) == 3
        assert visible_events(arm, WEB_SCOPE) == [("Terminate", "Scheduled", ["web_3"])]


@pytest.mark.parametrize(
    ("kind", "direction", "value", "after"),
    [
        ("ChangeCount", "Increase", 3, 7),
        ("PercentChangeCount", "Increase", 50, 6),
        ("ExactCount", "Increase", 9, 9),
        ("ChangeCount", "Decrease", 1, 3),
        ("PercentChangeCount", "Decrease", 50, 2),
        ("ExactCount", "Decrease", 1, 1),
    ],
)
def test_kinds_of_actions(kind: str, direction: str, value: int, after: int) -> None:
    """By a number of instances, by a percentage, or to an exact number."""
    with ArmHarness() as arm:
        scale_set(arm, capacity=4)
        rules = [rule("GreaterThanOrEqual", 50.5, direction, value, type=kind)]
        body = profile(0, 10, rules=rules)
        put(arm, body)
        arm.do(ReportMetric(set="rg:web", metric="Percentage CPU", value=50.5))
        assert instances(arm) == after


# --- Schedules ------------------------------------------------------------------------------------


@pytest.mark.parametrize("hours", [2, 24, 72, 73])
def test_a_fixed_date(hours: int) -> None:
    """The profile counts from its start to its end, and then the one without a date."""
    with ArmHarness() as arm:
        scale_set(arm, capacity=1)
        now = datetime.fromtimestamp(arm.clock.now(), UTC)
        start = now.replace(year=now.year + 1, minute=0, second=0, microsecond=0)
        end = datetime.fromtimestamp(start.timestamp() + hours * 3600, UTC)
        date = {"timeZone": "UTC", "start": start.isoformat(), "end": end.isoformat()}
        put(arm, profile(5, 5, "busy", fixedDate=date), profile(1, 2))
        assert instances(arm) == 1
        advance_to(arm, start)
        assert instances(arm) == 5
        arm.advance(hours * 3600 - 1)
        assert instances(arm) == 5
        arm.advance(2)
        assert instances(arm) == 2


def test_a_fixed_date_in_another_zone() -> None:
    """A local time is in the time zone of the profile, also if a client wrote it as UTC."""
    with ArmHarness() as arm:
        scale_set(arm, capacity=1)
        local = {"start": "2026-03-02T08:00:00+00:00", "end": "2026-03-02T10:00:00+00:00"}
        date = {"timeZone": "Pacific Standard Time", **local}
        put(arm, profile(3, 3, "busy", fixedDate=date), profile(1, 1))
        advance_to(arm, datetime(2026, 3, 2, 15, 59, tzinfo=UTC))
        assert instances(arm) == 1
        arm.advance(60)
        assert instances(arm) == 3


def recurring(name: str, count: int, days: list[str], hour: int, zone: str = "UTC") -> Json:
    """Return a profile that begins at an hour of some days."""
    schedule = {"timeZone": zone, "days": days, "hours": [hour], "minutes": [0]}
    recurrence = {"frequency": "Week", "schedule": schedule}
    return profile(count, count, name, recurrence=recurrence)


@pytest.mark.parametrize("zone", [0, -5])
def test_business_hours(zone: int) -> None:
    """A recurring profile counts until the next one begins, also over a weekend."""
    name = "Eastern Standard Time" if zone else "UTC"
    with ArmHarness() as arm:
        scale_set(arm, capacity=1)
        day = recurring("day", 5, WEEKDAYS, 8, name)
        night = recurring("night", 2, WEEKDAYS, 18, name)
        put(arm, day, night)
        for moment, count in (
            (datetime(2026, 3, 2, 7 - zone, 59, tzinfo=UTC), 2),  # a Monday
            (datetime(2026, 3, 2, 8 - zone, 1, tzinfo=UTC), 5),
            (datetime(2026, 3, 2, 17 - zone, 59, tzinfo=UTC), 5),
            (datetime(2026, 3, 2, 18 - zone, 1, tzinfo=UTC), 2),
            (datetime(2026, 3, 3, 8 - zone, 1, tzinfo=UTC), 5),
            (datetime(2026, 3, 6, 18 - zone, 1, tzinfo=UTC), 2),
            (datetime(2026, 3, 7, 12, 0, tzinfo=UTC), 2),
            (datetime(2026, 3, 8, 12, 0, tzinfo=UTC), 2),
            (datetime(2026, 3, 9, 8 - zone, 1, tzinfo=UTC), 5),
        ):
            advance_to(arm, moment)
            assert instances(arm) == count, moment


def test_a_pair_as_az_writes_it() -> None:
    """`az monitor autoscale profile create` ends a profile with a copy of the default one."""
    with ArmHarness() as arm:
        scale_set(arm, capacity=1)
        end = recurring('{"name": "default", "for": "day"}', 2, WEEKDAYS, 18)
        put(arm, profile(2, 2), recurring("day", 5, WEEKDAYS, 8), end)
        advance_to(arm, datetime(2026, 3, 2, 9, tzinfo=UTC))
        assert instances(arm) == 5
        advance_to(arm, datetime(2026, 3, 2, 19, tzinfo=UTC))
        assert instances(arm) == 2
        assert len(arm.get(AUTO).json["properties"]["profiles"]) == 3


@pytest.mark.parametrize(
    ("schedule", "member"),
    [
        ({"timeZone": "Atlantis Standard Time"}, "timeZone"),
        ({"days": ["Someday"]}, "days"),
        ({"hours": [24]}, "hours"),
        ({"minutes": []}, "minutes"),
    ],
)
def test_invalid_schedules(schedule: Json, member: str) -> None:
    """The error names the member and what is allowed."""
    with ArmHarness() as arm:
        scale_set(arm)
        body = recurring("day", 2, WEEKDAYS, 8)
        body["recurrence"]["schedule"] |= schedule
        response = put(arm, body)
        assert refused(response) == (400, "InvalidParameter")
        assert member in response.error_message


def test_profiles_that_begin_together() -> None:
    """It would not be clear which one counts."""
    with ArmHarness() as arm:
        scale_set(arm)
        first, second = (recurring(name, 2, ["Monday"], 8) for name in ("one", "two"))
        assert refused(put(arm, first, second)) == (400, "InvalidParameter")
