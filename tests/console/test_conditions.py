"""The clock (O5) and fault injection (M21), through the API."""

import asyncio

import pytest

from tests.fixtures.console import ConsoleHarness


@pytest.mark.spec("O5", "C4")
def test_virtual_time(console: ConsoleHarness) -> None:
    """The clock is read, advanced, run and stopped."""
    assert console.ok("GET", "/api/clock") == {
        "now": "2026-01-09T12:00:00Z",
        "virtual": True,
        "rate": 0.0,
        "ahead_seconds": 0.0,
    }
    for seconds, now in ((90, "12:01:30"), (0.5, "12:01:30"), (0.5, "12:01:31"), (0, "12:01:31")):
        advanced = console.ok("POST", "/api/clock", {"advance_seconds": seconds})
        assert advanced["now"] == f"2026-01-09T{now}Z"
    assert console.ok("POST", "/api/clock", {"rate": 1000})["rate"] == 1000
    console.wait_until(lambda: console.clock.now() > 1_767_960_100)
    stopped = console.ok("POST", "/api/clock", {"rate": 0})
    assert stopped["rate"] == 0
    assert console.ok("GET", "/api/clock") == stopped


@pytest.mark.spec("O5")
def test_concurrent_advances(console: ConsoleHarness) -> None:
    """No work is lost or stuck, and time never runs backwards."""
    console.created("machines", name="vm", count=20)
    console.poll(*(f"vm_{n}" for n in range(20)))
    for number in range(20):
        console.act(f"vm_{number}", "restart", key=f"op{number}")

    async def all_at_once() -> list[str]:
        body = b'{"advance_seconds": 500}'
        requests = [console.request("POST", "/api/clock", body) for _ in range(5)]
        return [reply.json["now"] for reply in await asyncio.gather(*requests)]

    times = console.run(all_at_once())
    assert all("2026-01-09T12:08:20Z" <= now <= "2026-01-09T12:41:40Z" for now in times)
    console.ok("POST", "/api/clock", {"advance_seconds": 3600})
    for number in range(20):
        assert console.ok("GET", f"/api/operations/op{number}")["status"] == "Succeeded"


# --- Faults ---


@pytest.mark.spec("M21", "C4")
def test_faults_apply_and_expire(console: ConsoleHarness) -> None:
    """For a machine, a scope or all; each affected request counts."""
    console.created("machines", name="vm")
    console.created("machines", name="other")
    console.poll("vm", "other")
    fault = {"kind": "500", "machine": "vm", "count": 2}
    assert console.api("POST", "/api/faults", fault).status == 204
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
