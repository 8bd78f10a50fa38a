"""`Idempotency-Key`: a repeated key has no further effect and gets the same response (IC2)."""

import pytest

from tests.fixtures.console import ConsoleHarness, bare

pytestmark = pytest.mark.spec("C4")

Repeat = tuple[str, str, dict[str, object]]

REQUESTS: list[Repeat] = [
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


def make_fleet(console: ConsoleHarness) -> None:
    """Create the machines that the requests act on."""
    console.created("machines", name="vm", priority="Spot")
    console.created("sets", name="web", capacity=2, terminate_notice="PT5M")
    console.poll("vm", "web_0")


@pytest.mark.parametrize(("method", "target", "body"), REQUESTS)
def test_an_immediate_repeat(
    console: ConsoleHarness, method: str, target: str, body: dict[str, object]
) -> None:
    """A repeat of any request that creates or changes something has no effect."""
    make_fleet(console)
    first = console.api(method, target, body, key="key")
    assert first.status in {201, 202}
    console.settle()
    before = console.state()
    again = console.api(method, target, body, key="key")
    assert bare(again) == bare(first)
    assert console.state() == before


@pytest.mark.parametrize(
    ("method", "target"), [("POST", "/api/machines/vm/delete"), ("DELETE", "/api/sets/web")]
)
def test_a_repeat_after_deletion(console: ConsoleHarness, method: str, target: str) -> None:
    """A client that lost the response repeats the request and gets the operation, not a 404."""
    make_fleet(console)
    assert console.api(method, target, key="key").status == 202
    console.advance(3600)
    again = console.api(method, target, key="key")
    assert again.status == 202
    assert again.json["operation"]["status"] == "Succeeded"


@pytest.mark.parametrize("key", ["a/b", " ", "x" * 201, "é\x7f"])
def test_invalid_keys(console: ConsoleHarness, key: str) -> None:
    """A key is the id of the operation; an invalid id is refused and changes nothing."""
    make_fleet(console)
    before = console.state()
    assert console.api("POST", "/api/machines/vm/restart", key=key).status == 400
    assert console.state() == before


OTHERS: list[tuple[Repeat, Repeat]] = [
    (("POST", "/api/machines/vm/evict", {}), ("POST", "/api/machines/vm/restart", {})),
    (("POST", "/api/machines/vm/restart", {}), ("POST", "/api/machines/web_0/restart", {})),
    (
        ("POST", "/api/sets/web/scale", {"capacity": 1}),
        ("POST", "/api/sets/web/scale", {"capacity": 5}),
    ),
    (("POST", "/api/machines", {"name": "new"}), ("POST", "/api/machines", {"name": "newer"})),
    (("POST", "/api/machines/vm/restart", {}), ("POST", "/api/rollouts", {"scopes": ["vm"]})),
    (("POST", "/api/rollouts", {"scopes": ["vm"]}), ("POST", "/api/machines/vm/restart", {})),
    (("POST", "/api/rollouts", {"scopes": ["vm"]}), ("POST", "/api/rollouts", {"sets": ["web"]})),
    (
        ("POST", "/api/rollouts", {"id": "one", "scopes": ["vm"]}),
        ("POST", "/api/rollouts", {"id": "two", "scopes": ["web/0"]}),
    ),
    (
        ("POST", "/api/rollouts", {"id": "one", "scopes": ["vm"]}),
        ("POST", "/api/machines/vm/restart", {}),
    ),
    (("POST", "/api/rollouts", {"scopes": ["vm"]}), ("POST", "/api/machines", {"name": "new"})),
]


@pytest.mark.spec("E9")
@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize(("first", "second"), OTHERS)
def test_a_key_is_for_one_request(
    console: ConsoleHarness, first: Repeat, second: Repeat, restarted: bool
) -> None:
    """The key of another request is a conflict that names both, and nothing changes."""
    make_fleet(console)
    assert console.api(*first, key="key").status in {201, 202}
    console.settle()
    if restarted:
        console.restart_service()
    before = console.state()
    refused = console.api(*second, key="key")
    assert (refused.status, refused.json["error"]["code"]) == (409, "KeyReused")
    for request in (first, second):
        words = request[1].removeprefix("/api/").split("/")
        assert words[-1].removesuffix("s") in refused.json["error"]["message"]
    assert console.state() == before
