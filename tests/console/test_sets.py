import pytest

from tests.fixtures.console import ConsoleHarness


@pytest.mark.spec("C4", "T8")
def test_a_set_from_beginning_to_end(console: ConsoleHarness) -> None:
    """A set is created with termination notice, changed, upgraded, scaled and deleted."""
    reply = console.api(
        "POST", "/api/sets", {"name": "web", "capacity": 3, "terminate_notice": "PT5M"}
    )
    assert reply.status == 201
    assert reply.json == console.ok("GET", "/api/sets/web")
    assert reply.json == {
        "name": "web", "group": "", "capacity": 3, "leaving": 0, "model": 1,
        "terminate_notice": "PT5M",
        "upgrade": "Manual", "scale_in": "Default", "priority": "Regular",
        "eviction": "Deallocate", "size": "", "zones": [], "tags": {}, "subnet": "",
        "scopes": ["web/0"],
        "deleting": False, "outdated": [],
    }  # fmt: skip
    console.learn_addresses()
    console.poll("web_0")
    changed = console.ok(
        "PATCH", "/api/sets/web", {"terminate_notice": "PT15M", "tags": {"a": "b"}}
    )
    assert (changed["terminate_notice"], changed["model"]) == ("PT15M", 2)
    assert changed["outdated"] == ["web_0", "web_1", "web_2"]
    upgraded = console.ok("POST", "/api/sets/web/upgrade", {"instances": [1]})
    assert upgraded["outdated"] == ["web_0", "web_2"]
    assert console.ok("POST", "/api/sets/web/upgrade")["outdated"] == []
    assert (
        console.ok("PATCH", "/api/sets/web", {"terminate_notice": None})["terminate_notice"] is None
    )
    scaled = console.ok("POST", "/api/sets/web/scale", {"capacity": 2})
    assert [event["type"] for event in scaled["events"]] == ["Terminate"]
    console.advance(3600)
    assert console.ok("GET", "/api/sets/web")["capacity"] == 2
    deleted = console.api("DELETE", "/api/sets/web", key="gone")
    assert deleted.status == 202
    console.settle()
    assert console.ok("GET", "/api/sets/web")["deleting"]
    console.advance(3600)
    assert console.api("GET", "/api/sets/web").error_code == "UnknownSet"
    assert console.ok("GET", "/api/operations/gone")["status"] == "Succeeded"


@pytest.mark.spec("C4", "T4")
@pytest.mark.parametrize(
    "action", ["restart", "redeploy", "reimage", "stop", "deallocate", "start", "evict"]
)
def test_actions_on_instances(console: ConsoleHarness, action: str) -> None:
    """An action applies to the named instances, or to all."""
    console.created("sets", name="web", capacity=3, priority="Spot")
    console.poll("web_0")
    some = console.ok("POST", f"/api/sets/web/{action}", {"instances": [0, 2]}, key="some")
    assert some["operation"]["kind"].lower() == action
    named = [name for event in some["events"] for name in event["resources"]]
    assert sorted(named) in ([], ["web_0", "web_2"])
    console.advance(3600)
    if action != "evict":
        console.ok("POST", f"/api/sets/web/{action}", key="all")
        console.advance(3600)
        assert console.ok("GET", "/api/operations/all")["status"] == "Succeeded"
