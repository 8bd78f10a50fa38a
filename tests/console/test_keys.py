"""`Idempotency-Key`: the same key again has no further effect, and is answered alike (IC2)."""

from collections.abc import Callable

import pytest

from tests.fixtures.console import ConsoleHarness, bare

Repeat = tuple[str, str, dict[str, object]]

LASTING: list[Repeat] = [
    ("POST", "/api/machines", {"name": "new"}),
    ("POST", "/api/machines", {"name": "new", "count": 3, "group": "g"}),
    ("POST", "/api/sets", {"name": "new", "capacity": 2}),
    ("POST", "/api/sets/web/scale", {"capacity": 1}),
    ("POST", "/api/sets/web/scale", {"capacity": 5}),
    ("POST", "/api/sets/web/delete", {"instances": [0]}),
    ("POST", "/api/sets/web/restart", {}),
    ("POST", "/api/rollouts", {"scopes": ["vm"]}),
    ("POST", "/api/rollouts", {"id": "mine", "scopes": ["vm"]}),
    ("POST", "/api/machines/vm/evict", {}),
]


def town(it: ConsoleHarness) -> None:
    """What the requests are about."""
    it.created("machines", name="vm", priority="Spot")
    it.created("sets", name="web", capacity=2, terminate_notice="PT5M")
    it.poll("vm", "web_0")


@pytest.mark.spec("C4")
@pytest.mark.parametrize(
    ("method", "target", "body"),
    LASTING,
)
def test_a_repeat_at_once(method: str, target: str, body: dict[str, object]) -> None:
    """Of whatever makes or changes something; another key is another wish."""
    with ConsoleHarness() as it:
        town(it)
        first = it.api(method, target, body, key="key")
        assert first.status in {201, 202}
        it.settle()
        before = it.whole()
        again = it.api(method, target, body, key="key")
        assert bare(again) == bare(first)
        assert it.whole() == before


def _delete_machine(it: ConsoleHarness) -> tuple[str, str]:
    return "POST", "/api/machines/vm/delete"


def _delete_set(it: ConsoleHarness) -> tuple[str, str]:
    return "DELETE", "/api/sets/web"


@pytest.mark.spec("C4")
@pytest.mark.parametrize("wish", [_delete_machine, _delete_set])
def test_a_repeat_when_it_is_gone(wish: Callable[[ConsoleHarness], tuple[str, str]]) -> None:
    """Who did not hear the answer asks again: it was done, and is not unknown."""
    with ConsoleHarness() as it:
        town(it)
        method, target = wish(it)
        assert it.api(method, target, key="key").status == 202
        it.advance(3600)
        again = it.api(method, target, key="key")
        assert again.status == 202
        assert again.json["operation"]["status"] == "Succeeded"


@pytest.mark.spec("C4")
def test_a_repeat_of_a_cancellation() -> None:
    """It is cancelled: so it was, and so it is."""
    with ConsoleHarness() as it:
        town(it)
        event = it.act("vm", "freeze", key="op")["events"][0]["id"]
        first = it.api("POST", f"/api/events/{event}/cancel", key="key")
        assert first.status == 200
        assert bare(it.api("POST", f"/api/events/{event}/cancel", key="key")) == bare(first)


@pytest.mark.spec("C4")
@pytest.mark.parametrize("key", ["a/b", " ", "x" * 201, "é\x7f"])
def test_keys_that_cannot_be(key: str) -> None:
    """A key names the operation; one that cannot is refused, and nothing is done."""
    with ConsoleHarness() as it:
        town(it)
        before = it.whole()
        assert it.api("POST", "/api/machines/vm/restart", key=key).status == 400
        assert it.whole() == before


@pytest.mark.spec("C4", "E9")
def test_a_repeat_after_a_restart() -> None:
    """Keys are kept as long as operations are."""
    with ConsoleHarness() as it:
        town(it)
        first = it.api("POST", "/api/machines/vm/freeze", {}, key="key")
        it.restart_service()
        assert bare(it.api("POST", "/api/machines/vm/freeze", {}, key="key")) == bare(first)
