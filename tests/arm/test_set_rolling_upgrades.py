"""Rolling upgrades of scale sets: `az vmss rolling-upgrade start|cancel|get-latest` (C1, C6)."""

from typing import Any

import pytest

from tests.arm.bodies import WEB, WEB_SCOPE, created, refused, scale_set, visible_events
from tests.fixtures.arm import SUBSCRIPTION, ArmHarness
from tests.fixtures.http import Response

pytestmark = [pytest.mark.spec("C6"), pytest.mark.spec("E7")]

LATEST = f"{WEB}/rollingUpgrades/latest"
SIZE = {"sku": {"name": "Standard_D2s_v5"}}


def rolling(**policy: object) -> dict[str, Any]:
    """Return an upgrade policy of mode Rolling."""
    return {"mode": "Rolling", "rollingUpgradePolicy": policy}


def start(arm: ArmHarness) -> Response:
    """Start a rolling upgrade of the set."""
    return arm.post(f"{WEB}/osRollingUpgrade")


def latest(arm: ArmHarness) -> dict[str, Any]:
    """Return the properties of the latest rolling upgrade."""
    properties: dict[str, Any] = arm.get(LATEST).json["properties"]
    return properties


def sizes(arm: ArmHarness) -> list[str]:
    """Return the sizes of the instances."""
    instances = arm.get(f"{WEB}/virtualMachines").json["value"]
    return [instance["sku"]["name"] for instance in instances]


def test_an_upgrade_goes_through_the_update_domains() -> None:
    """Each is announced as a Reboot; the operation and the progress follow the rollout."""
    with ArmHarness() as arm:
        scale_set(arm, capacity=10)
        arm.poll(WEB_SCOPE)
        created(arm.patch(WEB, SIZE))
        response = start(arm)
        assert response.status == 202
        assert arm.ended(response)["status"] == "InProgress"
        assert visible_events(arm, WEB_SCOPE) == [("Reboot", "Scheduled", ["web_0", "web_5"])]
        upgrade = latest(arm)
        assert upgrade["runningStatus"]["code"] == "RollingForward"
        assert upgrade["progress"] == {
            "successfulInstanceCount": 0,
            "failedInstanceCount": 0,
            "inProgressInstanceCount": 2,
            "pendingInstanceCount": 8,
        }
        arm.advance(1000)
        assert sizes(arm).count("Standard_D2s_v5") == 2
        arm.advance(5000)
        assert arm.ended(response)["status"] == "Succeeded"
        assert arm.follow(response.headers["location"]).status == 200
        upgrade = latest(arm)
        assert upgrade["runningStatus"]["code"] == "Completed"
        assert upgrade["progress"]["successfulInstanceCount"] == 10
        assert upgrade["progress"]["pendingInstanceCount"] == 0
        assert set(sizes(arm)) == {"Standard_D2s_v5"}


def test_the_latest_upgrade() -> None:
    """The document has Azure's id, type and policy, with its defaults."""
    with ArmHarness() as arm:
        scale_set(arm, upgradePolicy=rolling(maxBatchInstancePercent=40))
        start(arm)
        document = arm.get(LATEST).json
        assert document["id"] == f"{SUBSCRIPTION}{LATEST}"
        assert document["type"] == "Microsoft.Compute/virtualMachineScaleSets/rollingUpgrades"
        assert document["properties"]["policy"] == {
            "maxBatchInstancePercent": 40,
            "maxUnhealthyInstancePercent": 20,
            "maxUnhealthyUpgradedInstancePercent": 20,
            "pauseTimeBetweenBatches": "PT0S",
        }


def test_a_set_without_an_upgrade() -> None:
    """There is no latest one, and none to cancel."""
    with ArmHarness() as arm:
        scale_set(arm)
        assert refused(arm.get(LATEST)) == (404, "ResourceNotFound")
        cancel = arm.post(f"{WEB}/rollingUpgrades/cancel")
        assert refused(cancel) == (409, "OperationNotAllowed")


def test_an_upgrade_is_canceled() -> None:
    """Its Scheduled events are withdrawn, and the other instances keep their model."""
    with ArmHarness() as arm:
        scale_set(arm, capacity=2)
        arm.poll(WEB_SCOPE)
        created(arm.patch(WEB, SIZE))
        response = start(arm)
        assert arm.post(f"{WEB}/rollingUpgrades/cancel").status == 200
        assert visible_events(arm, WEB_SCOPE) == []
        assert arm.ended(response)["status"] == "Canceled"
        assert latest(arm)["runningStatus"]["code"] == "Cancelled"
        assert set(sizes(arm)) == {"Standard_B1s"}
        assert start(arm).status == 202


def test_one_upgrade_at_a_time() -> None:
    """A second one is refused while the first is under way, and so is a change of the model."""
    with ArmHarness() as arm:
        scale_set(arm, upgradePolicy=rolling())
        arm.poll(WEB_SCOPE)
        assert start(arm).status == 202
        for response in (start(arm), arm.patch(WEB, SIZE)):
            assert refused(response) == (409, "OperationNotAllowed")
            assert "rolling upgrade" in response.error_message
        assert arm.get(WEB).json["sku"]["name"] == "Standard_B1s"
        assert arm.patch(WEB, {"sku": {"capacity": 4}}).status == 200


@pytest.mark.spec("T3")
def test_a_rolling_set_upgrades_by_itself() -> None:
    """In the mode Rolling, a change of the model starts a rolling upgrade."""
    with ArmHarness() as arm:
        scale_set(arm, capacity=2, upgradePolicy=rolling())
        arm.poll(WEB_SCOPE)
        created(arm.patch(WEB, {"tags": {"team": "a"}}))
        assert arm.get(WEB).json["properties"]["upgradePolicy"]["mode"] == "Rolling"
        assert visible_events(arm, WEB_SCOPE) == [("Reboot", "Scheduled", ["web_0"])]
        instances = arm.get(f"{WEB}/virtualMachines").json["value"]
        assert [instance.get("tags") for instance in instances] == [None, None]
        arm.advance(5000)
        instances = arm.get(f"{WEB}/virtualMachines").json["value"]
        assert [instance["tags"] for instance in instances] == [{"team": "a"}] * 2
        created(arm.patch(WEB, {"properties": {"scaleInPolicy": {"rules": ["NewestVM"]}}}))
        assert visible_events(arm, WEB_SCOPE) == []


def test_a_pause_between_batches() -> None:
    """The next update domain is announced after `pauseTimeBetweenBatches`."""
    with ArmHarness() as arm:
        policy = rolling(pauseTimeBetweenBatches="PT1H")
        scale_set(arm, capacity=2, upgradePolicy=policy)
        arm.poll(WEB_SCOPE)
        start(arm)
        arm.advance(1200)
        assert visible_events(arm, WEB_SCOPE) == []
        assert latest(arm)["progress"]["successfulInstanceCount"] == 1
        arm.advance(3600)
        assert latest(arm)["progress"]["pendingInstanceCount"] == 0


@pytest.mark.parametrize(("percent", "at_once"), [(5, 1), (10, 1), (20, 2), (100, 2)])
def test_large_sets_upgrade_several_placement_groups(percent: int, at_once: int) -> None:
    """At most the given share of the instances is upgraded at once, by update domain."""
    with ArmHarness() as arm:
        policy = rolling(maxBatchInstancePercent=percent)
        scale_set(arm, capacity=200, upgradePolicy=policy)
        for scope in ("rg:web/0", "rg:web/1"):
            arm.poll(scope)
        start(arm)
        assert latest(arm)["progress"]["inProgressInstanceCount"] == 20 * at_once


def test_an_extension_upgrade_freezes() -> None:
    """It has the mildest impact there is, and keeps the instances running."""
    with ArmHarness() as arm:
        scale_set(arm, capacity=1)
        arm.poll(WEB_SCOPE)
        assert arm.post(f"{WEB}/extensionRollingUpgrade").status == 202
        assert visible_events(arm, WEB_SCOPE) == [("Freeze", "Scheduled", ["web_0"])]


def test_a_set_without_instances() -> None:
    """The upgrade has nothing to do and succeeds at once."""
    with ArmHarness() as arm:
        scale_set(arm, capacity=0, upgradePolicy=rolling())
        assert start(arm).status == 200
        created(arm.patch(WEB, SIZE))


@pytest.mark.parametrize(
    ("policy", "name"),
    [
        ({"maxBatchInstancePercent": 4}, "maxBatchInstancePercent"),
        ({"maxBatchInstancePercent": 101}, "maxBatchInstancePercent"),
        ({"maxUnhealthyInstancePercent": "many"}, "maxUnhealthyInstancePercent"),
        ({"maxUnhealthyUpgradedInstancePercent": -1}, "maxUnhealthyUpgradedInstancePercent"),
        ({"pauseTimeBetweenBatches": "5 minutes"}, "pauseTimeBetweenBatches"),
        ({"pauseTimeBetweenBatches": "PT48H"}, "pauseTimeBetweenBatches"),
    ],
)
def test_invalid_policies(policy: dict[str, Any], name: str) -> None:
    """The error names the member, and no set is created."""
    with ArmHarness() as arm:
        arm.group()
        body = {"location": "local", "properties": {"upgradePolicy": rolling(**policy)}}
        response = arm.put(WEB, body)
        assert refused(response) == (400, "InvalidParameter")
        assert name in response.error_message
        assert arm.get(WEB).status == 404
