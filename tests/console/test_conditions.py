"""Time (O5) and faults on demand (M21), through the API."""

import asyncio

import pytest

from tests.fixtures.console import HOST, ConsoleHarness
from tests.fixtures.http import asgi_request, asgi_scope


@pytest.mark.spec("O5", "C4")
def test_virtual_time() -> None:
    """Shown, advanced, set running, frozen."""
    with ConsoleHarness() as it:
        assert it.ok("GET", "/api/clock") == {
            "now": "2026-01-09T12:00:00Z",
            "virtual": True,
            "rate": 0.0,
        }
        assert it.ok("POST", "/api/clock", {"advance": 90})["now"] == "2026-01-09T12:01:30Z"
        assert it.ok("POST", "/api/clock", {"advance": 0.5})["now"] == "2026-01-09T12:01:30Z"
        assert it.ok("POST", "/api/clock", {"advance": 0.5})["now"] == "2026-01-09T12:01:31Z"
        assert it.ok("POST", "/api/clock", {"advance": 0})["now"] == "2026-01-09T12:01:31Z"
        assert it.ok("POST", "/api/clock", {"rate": 1000})["rate"] == 1000
        it.wait_until(lambda: it.clock.now() > 1_767_960_100)
        frozen = it.ok("POST", "/api/clock", {"rate": 0})
        assert frozen["rate"] == 0
        assert it.ok("GET", "/api/clock") == frozen


@pytest.mark.spec("O5", "E9")
def test_time_and_rate_outlive_a_restart() -> None:
    """Without anything else that happened."""
    with ConsoleHarness() as it:
        it.ok("POST", "/api/clock", {"advance": 3600})
        it.restart_service()
        assert it.ok("GET", "/api/clock")["now"] == "2026-01-09T13:00:00Z"


@pytest.mark.spec("O5")
def test_what_is_due_happens_while_time_passes() -> None:
    """All of it, before the answer."""
    with ConsoleHarness() as it:
        it.created("machines", name="vm")
        it.poll("vm")
        it.act("vm", "restart", key="op")
        it.ok("POST", "/api/clock", {"advance": 960})
        done = it.ok("GET", "/api/operations/op")
        assert (done["status"], done["ended_at"]) == ("Succeeded", "2026-01-09T12:16:00Z")


@pytest.mark.spec("O5")
def test_several_let_time_pass_at_once() -> None:
    """Nothing is lost and nothing gets stuck; time never runs backwards."""
    with ConsoleHarness() as it:
        it.created("machines", name="vm", count=20)
        it.poll(*(f"vm_{n}" for n in range(20)))
        for number in range(20):
            it.act(f"vm_{number}", "restart", key=f"op{number}")
        headers = [("Host", HOST), ("Authorization", f"Bearer {it.token}")]

        async def all_at_once() -> list[str]:
            wishes = [
                asgi_request(it.app, asgi_scope("POST", "/api/clock", headers), b'{"advance": 500}')
                for _ in range(5)
            ]
            return [reply.json["now"] for reply in await asyncio.gather(*wishes)]

        told = it.run(all_at_once())
        assert all("2026-01-09T12:08:20Z" <= now <= "2026-01-09T12:41:40Z" for now in told)
        it.ok("POST", "/api/clock", {"advance": 3600})
        for number in range(20):
            assert it.ok("GET", f"/api/operations/op{number}")["status"] == "Succeeded"


@pytest.mark.spec("O5", "C4")
@pytest.mark.parametrize(
    "body",
    [
        b"{}", b'{"advance": 1, "rate": 1}', b'{"advance": -1}', b'{"advance": 1e12}',
        b'{"advance": NaN}', b'{"advance": Infinity}', b'{"advance": 1e400}',
        b'{"advance": true}', b'{"advance": "60"}', b'{"advance": null}', b'{"advance": [1]}',
        b'{"rate": -1}', b'{"rate": 1e7}', b'{"rate": 1e400}', b'{"rate": true}', b'{"rate": "1"}',
        b'{"advance": ' + b"9" * 400 + b"}", b'{"rate": ' + b"9" * 5000 + b"}",
        b'{"now": "2026-01-09T12:00:00Z"}', b'{"advance": -0.001}',
    ],
)  # fmt: skip
def test_time_that_cannot_be(body: bytes) -> None:
    """Refused, and the clock is not moved."""
    with ConsoleHarness() as it:
        before = it.whole()
        reply = it.api("POST", "/api/clock", body)
        assert reply.status == 400
        assert reply.error_code
        assert it.whole() == before
        assert it.ok("GET", "/api/clock")["now"] == "2026-01-09T12:00:00Z"


@pytest.mark.spec("O5")
@pytest.mark.parametrize("change", [{"advance": 1}, {"rate": 2}, {"rate": 0}])
def test_real_time_cannot_be_moved(change: dict[str, float]) -> None:
    """It is refused with what to do instead."""
    with ConsoleHarness(real=True) as it:
        reply = it.api("POST", "/api/clock", change)
        assert (reply.status, reply.error_code) == (400, "RealTime")
        assert "virtual" in reply.error_message
        shown = it.ok("GET", "/api/clock")
        assert (shown["virtual"], shown["rate"]) == (False, 1.0)


# --- Faults ---


@pytest.mark.spec("M21", "C4")
def test_faults_come_and_go() -> None:
    """For a machine, for a scope, for all; counted down as they are met."""
    with ConsoleHarness() as it:
        it.created("machines", name="vm")
        it.created("machines", name="other")
        it.poll("vm", "other")
        assert (
            it.api("POST", "/api/faults", {"kind": "500", "machine": "vm", "count": 2}).status
            == 204
        )
        it.ok("POST", "/api/faults", {"kind": "404", "scope": "other", "seconds": 60})
        shown = it.ok("GET", "/api/faults")["faults"]
        names = ("kind", "scope", "machine", "count", "seconds", "delay_seconds")
        assert [[one[name] for name in names] for one in shown] == [
            ["500", "vm", "vm", 2, 0.0, 1.0],
            ["404", "other", "", 0, 60.0, 1.0],
        ]
        assert it.get("vm").status == 500
        assert it.ok("GET", "/api/faults")["faults"][0]["count"] == 1
        assert it.get("vm").status == 500
        assert it.get("vm").status == 200
        assert it.get("other").status == 404
        it.advance(61)
        assert it.get("other").status == 200
        assert it.ok("GET", "/api/faults")["faults"] == []
        it.ok("POST", "/api/faults", {"kind": "410"})
        assert (it.get("vm").status, it.get("other").status) == (410, 410)
        assert it.api("DELETE", "/api/faults").status == 204
        assert it.get("vm").status == 200


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
def test_faults_that_cannot_be(fault: dict[str, object], status: int) -> None:
    """Refused with what is allowed; none is in force then."""
    with ConsoleHarness() as it:
        reply = it.api("POST", "/api/faults", fault)
        assert reply.status == status
        assert reply.error_code
        assert it.ok("GET", "/api/faults") == {"faults": []}
