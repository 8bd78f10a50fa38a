"""The clock (O5) and fault injection (M21), through the API."""

import asyncio

import pytest

from tests.fixtures.console import HOST, ConsoleHarness
from tests.fixtures.http import asgi_request, asgi_scope


@pytest.mark.spec("O5", "C4")
def test_virtual_time(console: ConsoleHarness) -> None:
    """The clock is read, advanced, run and stopped."""
    assert console.ok("GET", "/api/clock") == {
        "now": "2026-01-09T12:00:00Z",
        "virtual": True,
        "rate": 0.0,
        "ahead_seconds": 0.0,
    }
    assert (
        console.ok("POST", "/api/clock", {"advance_seconds": 90})["now"] == "2026-01-09T12:01:30Z"
    )
    assert (
        console.ok("POST", "/api/clock", {"advance_seconds": 0.5})["now"] == "2026-01-09T12:01:30Z"
    )
    assert (
        console.ok("POST", "/api/clock", {"advance_seconds": 0.5})["now"] == "2026-01-09T12:01:31Z"
    )
    assert console.ok("POST", "/api/clock", {"advance_seconds": 0})["now"] == "2026-01-09T12:01:31Z"
    assert console.ok("POST", "/api/clock", {"rate": 1000})["rate"] == 1000
    console.wait_until(lambda: console.clock.now() > 1_767_960_100)
    stopped = console.ok("POST", "/api/clock", {"rate": 0})
    assert stopped["rate"] == 0
    assert console.ok("GET", "/api/clock") == stopped


@pytest.mark.spec("O5", "E9")
def test_time_survives_a_restart(console: ConsoleHarness) -> None:
    """Advanced time is stored even if nothing else happened."""
    console.ok("POST", "/api/clock", {"advance_seconds": 3600})
    console.restart_service()
    assert console.ok("GET", "/api/clock")["now"] == "2026-01-09T13:00:00Z"


@pytest.mark.spec("O5")
def test_concurrent_advances(console: ConsoleHarness) -> None:
    """No work is lost or stuck, and time never runs backwards."""
    console.created("machines", name="vm", count=20)
    console.poll(*(f"vm_{n}" for n in range(20)))
    for number in range(20):
        console.act(f"vm_{number}", "restart", key=f"op{number}")
    headers = [("Host", HOST), ("Authorization", f"Bearer {console.token}")]

    async def all_at_once() -> list[str]:
        requests = [
            asgi_request(
                console.app,
                asgi_scope("POST", "/api/clock", headers),
                b'{"advance_seconds": 500}',
            )
            for _ in range(5)
        ]
        return [reply.json["now"] for reply in await asyncio.gather(*requests)]

    times = console.run(all_at_once())
    assert all("2026-01-09T12:08:20Z" <= now <= "2026-01-09T12:41:40Z" for now in times)
    console.ok("POST", "/api/clock", {"advance_seconds": 3600})
    for number in range(20):
        assert console.ok("GET", f"/api/operations/op{number}")["status"] == "Succeeded"


@pytest.mark.spec("O5", "C4")
@pytest.mark.parametrize(
    "body",
    [
        b"{}", b'{"advance_seconds": 1, "rate": 1}', b'{"advance_seconds": -1}',
        b'{"advance_seconds": 1e12}', b'{"advance_seconds": NaN}', b'{"advance_seconds": Infinity}',
        b'{"advance_seconds": 1e400}', b'{"advance_seconds": true}', b'{"advance_seconds": "60"}',
        b'{"advance_seconds": null}', b'{"advance_seconds": [1]}',
        b'{"rate": -1}', b'{"rate": 1e7}', b'{"rate": 1e400}', b'{"rate": true}', b'{"rate": "1"}',
        b'{"advance_seconds": ' + b"9" * 400 + b"}", b'{"rate": ' + b"9" * 5000 + b"}",
        b'{"now": "2026-01-09T12:00:00Z"}', b'{"advance_seconds": -0.001}',
    ],
)  # fmt: skip
def test_invalid_clock_changes(console: ConsoleHarness, body: bytes) -> None:
    """They are refused, and the clock does not move."""
    before = console.state()
    reply = console.api("POST", "/api/clock", body)
    assert reply.status == 400
    assert reply.error_code
    assert console.state() == before
    assert console.ok("GET", "/api/clock")["now"] == "2026-01-09T12:00:00Z"


@pytest.mark.spec("O5")
@pytest.mark.parametrize("change", [{"advance_seconds": 1}, {"rate": 2}, {"rate": 0}])
def test_a_real_clock_cannot_be_changed(change: dict[str, float]) -> None:
    """The error says to use a virtual clock."""
    with ConsoleHarness(real=True) as console:
        reply = console.api("POST", "/api/clock", change)
        assert (reply.status, reply.error_code) == (400, "RealTime")
        assert "virtual" in reply.error_message
        shown = console.ok("GET", "/api/clock")
        assert (shown["virtual"], shown["rate"]) == (False, 1.0)


# --- Faults ---


@pytest.mark.spec("M21", "C4")
def test_faults_apply_and_expire(console: ConsoleHarness) -> None:
    """For a machine, a scope or all; each affected request counts."""
    console.created("machines", name="vm")
    console.created("machines", name="other")
    console.poll("vm", "other")
    assert (
        console.api("POST", "/api/faults", {"kind": "500", "machine": "vm", "count": 2}).status
        == 204
    )
    console.ok("POST", "/api/faults", {"kind": "404", "scope": "other", "seconds": 60})
    shown = console.ok("GET", "/api/faults")["faults"]
    names = ("kind", "scope", "machine", "count", "seconds", "delay_seconds")
    assert [[fault[name] for name in names] for fault in shown] == [
        ["500", "vm", "vm", 2, 0.0, 1.0],
        ["404", "other", "", 0, 60.0, 1.0],
    ]
    assert console.get("vm").status == 500
    assert console.ok("GET", "/api/faults")["faults"][0]["count"] == 1
    assert console.get("vm").status == 500
    assert console.get("vm").status == 200
    assert console.get("other").status == 404
    console.advance(61)
    assert console.get("other").status == 200
    assert console.ok("GET", "/api/faults")["faults"] == []
    console.ok("POST", "/api/faults", {"kind": "410"})
    assert (console.get("vm").status, console.get("other").status) == (410, 410)
    assert console.api("DELETE", "/api/faults", b"it has no body").status == 204
    assert console.get("vm").status == 200


@pytest.mark.spec("M21", "C4")
@pytest.mark.parametrize(
    ("fault", "status"),
    [
        ({}, 400),
        ({"kind": "502"}, 400),
        ({"kind": 500}, 400),
        ({"kind": "500", "count": -1}, 400),
        ({"kind": "500", "count": 1.5}, 400),
        ({"kind": "500", "count": 10**30}, 400),
        ({"kind": "500", "seconds": -1}, 400),
        ({"kind": "500", "seconds": True}, 400),
        ({"kind": "delay", "delay_seconds": 121}, 400),
        ({"kind": "500", "machine": "none"}, 404),
        ({"kind": "500", "scope": "none"}, 404),
        ({"kind": "500", "for": "all"}, 400),
    ],
)
def test_invalid_faults(console: ConsoleHarness, fault: dict[str, object], status: int) -> None:
    """An invalid fault is refused, and no fault is active."""
    reply = console.api("POST", "/api/faults", fault)
    assert reply.status == status
    assert reply.error_code
    assert console.ok("GET", "/api/faults") == {"faults": []}
