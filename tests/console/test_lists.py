"""Lists with filters, and the summary of the fleet, over the API (O14)."""

from random import Random

import pytest

from fairwarning.service.listing.index import FleetIndex
from tests.console.conftest import each_store
from tests.fixtures.console import ConsoleHarness

pytestmark = pytest.mark.spec("O14")


def counted(console: ConsoleHarness) -> dict[str, object]:
    """The summary, counted from the lists of everything."""
    machines = [m for page in console.pages("/api/machines", "machines", 7) for m in page]
    scopes = [s for page in console.pages("/api/scopes", "scopes", 7) for s in page]
    events = {event["id"]: event for scope in scopes for event in scope["events"]}.values()
    unpolled = [scope for scope in scopes if scope["machines"] and not scope["enabled"]]
    powers = sorted({machine["power"] for machine in machines})
    return {
        "machines": len(machines),
        "power": {power: sum(m["power"] == power for m in machines) for power in powers},
        "scopes": len(scopes),
        "scopes_not_polled": len(unpolled),
        "machines_not_polled": sum(len(scope["machines"]) for scope in unpolled),
        "unapproved": sum(e["status"] == "Scheduled" and not e["approved_by"] for e in events),
        "events": len(events),
    }


def summary(console: ConsoleHarness) -> dict[str, object]:
    """The same members of the summary."""
    full = console.ok("GET", "/api/summary")
    events = {"events": sum(each["count"] for each in full["events"])}
    names = ("machines", "power", "scopes", "scopes_not_polled", "machines_not_polled")
    power = {"power": dict(sorted(full["power"].items()))}
    return {name: full[name] for name in (*names, "unapproved")} | events | power


@each_store
def test_the_summary_follows_every_change(console: ConsoleHarness) -> None:
    """It counts what the lists have, whatever was created, removed, polled or moved in time."""
    random = Random(7)
    for step in range(60):
        match random.randrange(6):
            case 0:
                console.created("machines", name=f"m{step}", count=random.randint(1, 3))
            case 1:
                console.created("sets", name=f"s{step}", capacity=random.randint(0, 4))
            case 2 | 3:
                listed = console.ok("GET", "/api/machines?limit=1000")["machines"]
                if listed:
                    chosen = random.choice(listed)["name"]
                    action = random.choice(("restart", "stop", "deallocate", "delete", "start"))
                    console.api("POST", f"/api/machines/{chosen}/{action}", {})
            case 4:
                listed = console.ok("GET", "/api/machines?limit=1000")["machines"]
                polling = random.sample(listed, min(2, len(listed)))
                console.poll(*(machine["name"] for machine in polling))
            case _:
                console.advance(random.choice((1, 60, 900, 7200)))
        assert summary(console) == counted(console), step


@each_store
def test_a_machine_that_is_created_again_is_listed_by_its_new_number(
    console: ConsoleHarness,
) -> None:
    """The number is in its URL; that of its predecessor answers 404."""
    for _ in range(2):
        console.created("machines", name="vm")
        (listed,) = console.ok("GET", "/api/machines")["machines"]
        assert listed == console.ok("GET", "/api/machines/vm")
        console.ok("POST", "/api/machines/vm/delete")
        console.advance(60)


def test_an_unused_index_is_forgotten_and_built_again(console: ConsoleHarness) -> None:
    """Its memory is free then; the next list reads everything."""
    console.created("machines", name="vm", count=3)
    index = FleetIndex(console.fleet)
    console.run(index.refresh())
    console.call(index._forget_if_unused)
    assert len(index.scopes) == 3
    index._used_at -= 10_000
    console.call(index._forget_if_unused)
    assert index.scopes == {}
    console.run(index.refresh())
    assert len(index.scopes) == 3


@pytest.mark.spec("C7")
def test_pages_of_tokens(console: ConsoleHarness) -> None:
    """They are in the order of ids, and complete."""
    body = {"name": "ann", "role": "operator"}
    made = [console.ok("POST", "/api/tokens", body)["info"]["id"] for _ in range(4)]
    pages = console.pages("/api/tokens", "tokens", 2)
    assert [token["id"] for page in pages for token in page] == sorted(made)


def test_when_events_start(console: ConsoleHarness) -> None:
    """`within`, `since` and `until` select by NotBefore; `soon` counts the next hour."""
    console.created("machines", name="vm", count=2)
    console.poll("vm_0", "vm_1")
    console.act("vm_0", "restart")
    console.ok("POST", "/api/machines/vm_1/degrade", {"days": 2})
    assert console.ok("GET", "/api/summary")["soon"] == 1
    first, second = console.ok("GET", "/api/events")["events"]
    assert (first["resources"], second["resources"]) == (["vm_0"], ["vm_1"])
    for query, expected in (
        ("within=3600", [first]),
        ("within=60", []),
        (f"since={second['not_before']}", [second]),
        (f"until={first['not_before']}", [first]),
        (f"prefix={second['id'][:8].lower()}", [second]),
        ("type=redeploy", [second]),
    ):
        assert console.ok("GET", f"/api/events?{query}")["events"] == expected, query
