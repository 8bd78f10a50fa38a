import asyncio
from datetime import datetime, timedelta
from pathlib import Path
from urllib.parse import quote

import pytest
from starlette.types import Message

from fairwarning.console.api.machines import ACTIONS
from fairwarning.core.commands import CreateScope
from fairwarning.core.model import Machine, ScopeKind
from fairwarning.store.memory import MemoryStore
from fairwarning.store.sqlite import SQLiteStore
from fairwarning.store.store import Store
from tests.fixtures.console import HOST, ConsoleHarness, bare
from tests.fixtures.http import asgi_request as send
from tests.fixtures.http import asgi_scope

STORES = ("memory", "sqlite")


def store_of(kind: str, folder: Path) -> Store:
    """Return a new, empty store."""
    if kind == "memory":
        return MemoryStore()
    return SQLiteStore(folder / "fleet.db", reserved_bytes=4096)


@pytest.mark.spec("C4")
@pytest.mark.parametrize("kind", STORES)
def test_a_standalone_machine(kind: str, tmp_path: Path) -> None:
    """A machine is created from a fleet-file entry and returned with all its settings."""
    with ConsoleHarness(store=store_of(kind, tmp_path)) as console:
        entry = {
            "name": "vm", "host_name": "h", "host": "rack", "address": "10.0.0.7",
            "priority": "Spot", "eviction": "Delete", "size": "S", "zone": "1",
            "tags": {"a": "b"}, "group": "g",
        }  # fmt: skip
        reply = console.api("POST", "/api/machines", entry)
        assert reply.status == 201
        (created,) = reply.json["machines"]
        assert (
            created
            == console.ok("GET", "/api/machines/vm")
            == console.ok("GET", "/api/machines/vm/vm")
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


@pytest.mark.spec("C4")
@pytest.mark.parametrize("kind", STORES)
def test_lists_come_in_pages(kind: str, tmp_path: Path) -> None:
    """Every page size lists each machine, scope and set once, in order."""
    with ConsoleHarness(store=store_of(kind, tmp_path)) as console:
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


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=1001", "limit=x", "limit=-1", "after=x", "limit=1.0"]
)
def test_bad_queries(console: ConsoleHarness, query: str) -> None:
    """The error names the allowed range."""
    reply = console.api("GET", f"/api/machines?{query}")
    assert (reply.status, reply.error_code) == (400, "BadQuery")
    assert "must be a whole number from" in reply.error_message


ODD_NAMES = [
    "ü?#%&+x",
    "...",
    "a:b",
    "a\\b",
    "explain",
    "restart",
    "';--",
    "雪🙂",
    '"',
    "%2F",
    "x" * 200,
]


@pytest.mark.spec("C4")
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


@pytest.mark.parametrize(
    "name", ["", " x", "a b", "..", ".", "a/b", "a,b", "x" * 201, "a\nb", "\ud800", None, 3, ["x"]]
)
def test_invalid_names(console: ConsoleHarness, name: object) -> None:
    """An invalid name is refused, and nothing is created."""
    before = console.state()
    reply = console.api("POST", "/api/machines", {"name": name})
    assert (reply.status, reply.error_code in {"BadEntry", "BadBody"}) == (400, True)
    assert console.state() == before


@pytest.mark.spec("C4")
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


@pytest.mark.spec("C4")
@pytest.mark.parametrize("action", ACTIONS)
def test_every_action(console: ConsoleHarness, action: str) -> None:
    """Each action is accepted with an operation, which succeeds; a repeat has no effect."""
    console.polling("vm", priority="Spot")
    if action == "start":
        console.act("vm", "stop")
        console.advance(60)
    reply = console.api("POST", f"/api/machines/vm/{action}", {}, key="op")
    assert reply.status == 202
    assert set(reply.json) == {"operation", "events", "polled"}
    assert (reply.json["operation"]["id"], reply.json["polled"]) == ("op", True)
    console.settle()
    before = console.state()
    assert bare(console.api("POST", f"/api/machines/vm/{action}", {}, key="op")) == bare(reply)
    assert console.state() == before
    console.advance(8 * 24 * 3600)
    assert console.ok("GET", "/api/operations/op")["status"] == "Succeeded"


@pytest.mark.parametrize(
    ("action", "settings", "status"),
    [
        ("jump", {}, 404),
        ("restart", {"days": 1}, 400),
        ("freeze", {"days": 1}, 400),
        ("freeze", {"duration_seconds": -2}, 400),
        ("freeze", {"duration_seconds": 10**30}, 400),
        ("freeze", {"duration_seconds": True}, 400),
        ("freeze", {"duration_seconds": "9"}, 400),
        ("freeze", {"unknown": 1}, 400),
        ("maintain", {"kind": "delete"}, 400),
        ("degrade", {"days": -1}, 400),
        ("degrade", {"days": 8}, 400),
        ("degrade", {"days": "1"}, 400),
        ("degrade", {"days": 1e305}, 400),
        ("degrade", {"days": 1e308}, 400),
    ],
)
def test_bad_settings(
    console: ConsoleHarness, action: str, settings: dict[str, object], status: int
) -> None:
    """Invalid settings are refused and change nothing."""
    console.polling("vm")
    before = console.state()
    reply = console.api("POST", f"/api/machines/vm/{action}", settings)
    assert reply.status == status
    assert reply.error_code
    assert console.state() == before


@pytest.mark.parametrize(
    "body",
    [
        *(b"[]", b"null", b'"x"', b"{", b"\xff", b'{"name":}', b"[" * 60_000, b'{"a":1} x'),
        *(b"{}" * 2, b'{"name":"' + b"a" * 66_000),
    ],
)
def test_bodies_that_are_not_objects(console: ConsoleHarness, body: bytes) -> None:
    """A body that is not a JSON object, or too large, is refused."""
    for target in ("/api/machines", "/api/clock", "/api/faults", "/api/rollouts"):
        assert console.api("POST", target, body).error_code == "BadBody"


@pytest.mark.parametrize(
    ("target", "media_type"),
    [("/api/machines", "application/json"), ("/login", "application/x-www-form-urlencoded")],
)
def test_an_incomplete_body(console: ConsoleHarness, target: str, media_type: str) -> None:
    """A client that disconnects within the body changes nothing, and is no error of ours."""
    before = console.state()
    headers = [("Host", HOST), ("Authorization", f"Bearer {console.token}")]
    headers += [("Content-Type", media_type)]
    sent = []

    async def disconnect() -> None:
        parts: list[Message] = [
            {"type": "http.disconnect"},
            {"type": "http.request", "body": b'{"name":"x"', "more_body": True},
        ]

        async def receive() -> Message:
            return parts.pop()

        async def send_(message: object) -> None:
            sent.append(message)

        await console.app(asgi_scope("POST", target, headers), receive, send_)

    console.run(disconnect())
    assert console.state() == before


@pytest.mark.spec("E5", "C4")
def test_conflicts_name_the_other_operation(console: ConsoleHarness) -> None:
    """A conflict gets 409 and changes nothing."""
    console.polling("vm")
    console.act("vm", "restart", key="first")
    before = console.state()
    reply = console.api("POST", "/api/machines/vm/redeploy", {})
    assert reply.status == 409
    assert "first" in reply.error_message or "reboot" in reply.error_message.lower()
    assert console.api("POST", "/api/machines", {"name": "vm"}).status == 409
    assert console.state() == before


@pytest.mark.spec("C4")
@pytest.mark.parametrize("entry", [{"name": "vm", "count": 3}, {"name": "vm_1", "group": "new"}])
def test_a_refused_creation_leaves_nothing(
    console: ConsoleHarness, entry: dict[str, object]
) -> None:
    """If one name is taken, no machine is created, and no resource group either."""
    console.created("machines", name="vm_1")
    before = console.state()
    assert console.api("POST", "/api/machines", entry).status == 409
    assert console.state() == before


@pytest.mark.spec("C4")
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


def test_lists_during_deletions(tmp_path: Path) -> None:
    """A list does not fail because a machine is deleted meanwhile."""
    with ConsoleHarness(store=store_of("sqlite", tmp_path)) as console:
        console.created("machines", name="vm", count=60)
        headers = [("Host", HOST), ("Authorization", f"Bearer {console.token}")]

        async def run_all() -> list[int]:
            targets = ["/api/machines", "/api/scopes"] * 10
            lists = [send(console.app, asgi_scope("GET", target, headers)) for target in targets]
            deletes = [
                send(console.app, asgi_scope("POST", f"/api/machines/vm_{n}/delete", headers))
                for n in range(60)
            ]
            replies = await asyncio.gather(*deletes, console.fleet.advance(60), *lists)
            return [reply.status for reply in replies if reply is not None]

        assert set(console.run(run_all())) <= {200, 202}


@pytest.mark.spec("C4", "M22")
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
