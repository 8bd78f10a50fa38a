import asyncio
from datetime import datetime, timedelta
from urllib.parse import quote

import pytest
from starlette.types import Message

from fairwarning.core.commands import CreateScope
from fairwarning.core.model import Machine, ScopeKind
from tests.console.conftest import each_store
from tests.fixtures.console import HOST, ConsoleHarness
from tests.fixtures.http import asgi_scope

pytestmark = pytest.mark.spec("C4")


@each_store
def test_a_standalone_machine(console: ConsoleHarness) -> None:
    """A machine is created from a fleet-file entry and returned with all its settings."""
    entry = {
        "name": "vm", "host_name": "h", "host": "rack", "address": "10.0.0.7",
        "priority": "Spot", "eviction": "Delete", "size": "S", "zone": "1",
        "tags": {"a": "b"}, "group": "g",
    }  # fmt: skip
    reply = console.api("POST", "/api/machines", entry)
    assert reply.status == 201
    (created,) = reply.json["machines"]
    assert (
        created == console.ok("GET", "/api/machines/vm") == console.ok("GET", "/api/machines/vm/vm")
    )
    assert created == {
        **entry, "subnet": "", "url": None, "scope": "vm", "set": "", "instance": -1,
        "number": 1, "kind": "Standalone",
        "power": "running", "update_domain": 0, "fault_domain": 0, "terminate_notice": None,
        "polled": False, "doing": None, "events": [],
    }  # fmt: skip
    console.learn_addresses()
    console.poll("vm")
    assert console.ok("GET", "/api/machines/vm")["polled"]


@each_store
def test_lists_come_in_pages(console: ConsoleHarness) -> None:
    """Every page size lists each machine, scope and set once, in order."""
    console.created("machines", name="vm", count=23)
    for number in range(5):
        console.created("sets", name=f"set{number}", capacity=number)
    every = console.ok("GET", "/api/machines?limit=1000")["machines"]
    assert [machine["number"] for machine in every] == sorted(
        machine["number"] for machine in every
    )
    assert len(every) == 23 + 10
    for limit in (1, 7, 33, 100):
        for target, what, count in (
            ("/api/machines", "machines", 33),
            ("/api/scopes", "scopes", 27),
            ("/api/sets", "sets", 5),
        ):
            pages = console.pages(target, what, limit)
            entries = [entry for page in pages for entry in page]
            assert len(entries) == count, (target, limit)
            assert all(len(page) == limit for page in pages[:-1])
            ids = [entry.get("id") or entry["name"] for entry in entries]
            assert len(set(ids)) == count
            if what != "machines":
                assert ids == sorted(ids)
    assert console.pages("/api/machines", "machines", 33)[0] == every


ODD_NAMES = (
    *("ü?#%&+x", "...", "a:b", "a\\b", "explain", "restart", "';--", "雪🙂", '"', "%2F", "x" * 200),
)


@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_names(console: ConsoleHarness, name: str) -> None:
    """A machine with any valid name can be read, explained and restarted."""
    console.polling(name)
    path = quote(name, safe="")
    assert console.ok("GET", f"/api/machines/{path}")["name"] == name
    assert console.act(path, "restart", key="op")["events"][0]["resources"] == [name]
    assert console.ok("GET", f"/api/machines/{path}/explain")["id"] == name
    assert console.ok("GET", f"/api/scopes/{path}")["machines"][0]["name"] == name
    assert len(console.ok("GET", f"/api/events?machine={path}")["events"]) == 1


def test_two_machines_with_the_same_name(console: ConsoleHarness) -> None:
    """Scope and name identify each; the error for the name alone lists both."""
    for scope in ("one", "two"):
        machines = (Machine(name="twin"),)
        console.do(CreateScope(scope=scope, kind=ScopeKind.AVAILABILITY_SET, machines=machines))
    for method, target in (
        ("GET", "/api/machines/twin"),
        ("GET", "/api/machines/twin/explain"),
        ("POST", "/api/machines/twin/restart"),
        ("GET", "/api/events?machine=twin"),
    ):
        reply = console.api(method, target)
        assert (reply.status, reply.error_code) == (400, "SeveralMachines")
        assert "one/twin, two/twin" in reply.error_message
    assert console.ok("GET", "/api/machines/two/twin")["scope"] == "two"
    console.act("two/twin", "stop", key="op")
    console.advance(60)
    assert console.ok("GET", "/api/machines/two/twin")["power"] == "stopped"
    assert console.ok("GET", "/api/machines/one/twin")["power"] == "running"
    assert console.ok("GET", "/api/machines/two%2Ftwin/explain")["title"] == "twin in two"


@pytest.mark.parametrize(
    ("target", "media_type"),
    [("/api/machines", "application/json"), ("/login", "application/x-www-form-urlencoded")],
)
def test_an_incomplete_body(console: ConsoleHarness, target: str, media_type: str) -> None:
    """A client that disconnects within the body changes nothing, and is no error of ours."""
    before = console.state()
    headers = [("Host", HOST), ("Authorization", f"Bearer {console.token}")]
    headers += [("Content-Type", media_type)]
    parts: list[Message] = [
        {"type": "http.disconnect"},
        {"type": "http.request", "body": b'{"name":"x"', "more_body": True},
    ]

    async def receive() -> Message:
        return parts.pop()

    async def send(_: Message) -> None:
        """Send to nobody."""

    async def disconnect() -> None:
        await console.app(asgi_scope("POST", target, headers), receive, send)

    console.run(disconnect())
    assert console.state() == before


def test_unknown_paths_and_methods_are_json_errors(console: ConsoleHarness) -> None:
    """A 405 names the allowed methods."""
    for method, target, status in (
        ("GET", "/api/nothing", 404),
        ("GET", "/api/machines/a%0Ab", 404),
        ("DELETE", "/api/machines", 405),
        ("PUT", "/api/clock", 405),
    ):
        reply = console.api(method, target)
        assert reply.headers["content-type"] == "application/json", target
        assert reply.status == status
        assert reply.error_code
    assert {"GET", "POST"} <= set(
        console.api("DELETE", "/api/machines").headers["allow"].split(", ")
    )


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
def test_lists_during_deletions(console: ConsoleHarness) -> None:
    """A list does not fail because a machine is deleted meanwhile."""
    console.created("machines", name="vm", count=60)

    async def run_all() -> list[int]:
        targets = ["/api/machines", "/api/scopes"] * 10
        lists = [console.request("GET", target) for target in targets]
        deletes = [console.request("POST", f"/api/machines/vm_{n}/delete") for n in range(60)]
        replies = await asyncio.gather(*deletes, console.fleet.advance(60), *lists)
        return [reply.status for reply in replies if reply is not None]

    assert set(console.run(run_all())) <= {200, 202}


@pytest.mark.spec("M22")
def test_addresses_of_a_subnet(console: ConsoleHarness) -> None:
    """New machines get one; it can be changed, removed and set again."""
    body = {"name": "vm", "count": 2, "subnet": "10.0.0.0/24"}
    created = console.api("POST", "/api/machines", body).json["machines"]
    assert [machine["address"] for machine in created] == ["10.0.0.4", "10.0.0.5"]
    assert created[0]["subnet"] == "10.0.0.0/24"
    for address, shown in (("10.0.9.9", "10.0.9.9"), ("", ""), ("FD00::4", "fd00::4")):
        changed = console.ok("PATCH", "/api/machines/vm_0", {"address": address})
        assert changed["address"] == shown
    reply = console.api("PATCH", "/api/machines/vm_0", {"address": "10.0.0.5"})
    assert (reply.status, reply.json["error"]["code"]) == (409, "AddressTaken")
    reply = console.api("PATCH", "/api/machines/vm_0", {"address": "10.0.0"})
    assert reply.status == 400
    assert "must be an IPv4 or IPv6 address" in reply.json["error"]["message"]
    assert console.ok("GET", "/api/machines/vm_0")["address"] == "fd00::4"


@pytest.mark.spec("E3")
@pytest.mark.parametrize(("settings", "days"), [({}, 3), ({"days": 5}, 5)])
def test_degraded_hardware_gives_days_of_notice(
    console: ConsoleHarness, settings: dict[str, object], days: int
) -> None:
    """Three, unless the operator knows better."""
    console.polling("vm")
    (event,) = console.ok("POST", "/api/machines/vm/degrade", settings)["events"]
    created, start = (datetime.fromisoformat(event[name]) for name in ("created_at", "not_before"))
    assert round((start - created) / timedelta(days=1), 3) == days


# --- Scale sets ---


@pytest.mark.spec("T8")
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


@pytest.mark.spec("T4")
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
