"""Refused approvals are in the journal of their machine, and in its explanation (O7)."""

import pytest

from fairwarning.core.commands import RecordRefusal
from fairwarning.service.refusals import RefusalLog
from tests.fixtures.console import ConsoleHarness
from tests.fixtures.endpoint import EVENTS, approval

pytestmark = pytest.mark.spec("O7", "M13")

POST = f"{EVENTS}?api-version=2020-07-01"
HEADER = {"Metadata": "true"}
STRANGE = approval("00000000-1111-2222-3333-444444444444")


def refused(
    console: ConsoleHarness, headers: dict[str, str], body: str = STRANGE, target: str = POST
) -> None:
    """Send an approval of `vm` that is refused."""
    assert 400 <= console.send_from("vm", "POST", target, headers, body).status < 500


def refusals(console: ConsoleHarness) -> list[str]:
    """Return what the explanation of `vm` says about refused approvals."""
    console.settle()
    steps = console.ok("GET", "/api/machines/vm/explain")["steps"]
    lines = console.ok("GET", "/api/journal?newest=true&type=ApprovalRefused")["lines"]
    texts = [step["text"] for step in steps if step["type"] == "ApprovalRefused"]
    assert [line["machines"] for line in lines] == [["vm"]] * len(texts)
    return texts


@pytest.mark.parametrize(
    ("headers", "body", "target", "reason"),
    [
        ({}, STRANGE, POST, "Required metadata header not specified: add Metadata: true"),
        ({}, "", POST, "Required metadata header not specified: add Metadata: true"),
        (HEADER, STRANGE, POST, "this scope has no event '00000000-1111-2222-3333-444444444444'"),
        (HEADER, "{}", POST, "Object missing required field `StartRequests`"),
        (HEADER, STRANGE, EVENTS, "api-version is invalid or was not specified"),
        (HEADER, "x" * 70_000, POST, "A body may have at most"),
        ({**HEADER, "X-Forwarded-For": "10.0.0.1"}, STRANGE, POST, "x-forwarded-for is not"),
    ],
)
@pytest.mark.parametrize("polled", [True, False])
def test_an_explanation_names_the_reason(
    console: ConsoleHarness, headers: dict[str, str], *, body: str, target: str, reason: str,
    polled: bool,
) -> None:  # fmt: skip
    """Whether the machine has polled before or not; the document stays as it is."""
    console.created("machines", name="vm")
    console.learn_addresses()
    if polled:
        console.poll("vm")
    before = console.scope("vm")
    refused(console, headers, body, target)
    (text,) = refusals(console)
    assert text.startswith(f"approval refused: {reason}")
    assert console.scope("vm") == before


def test_repetitions_are_journaled_once_an_hour(console: ConsoleHarness) -> None:
    """A client that repeats itself for a day gets a line an hour; another reason gets its own."""
    console.created("machines", name="vm")
    console.learn_addresses()
    for _ in range(20):
        refused(console, HEADER)
    assert len(refusals(console)) == 1
    refused(console, {})
    assert len(refusals(console)) == 2
    for _ in range(24 * 6):
        console.advance(600)
        refused(console, HEADER)
    assert len(refusals(console)) == 2 + 24


def test_only_machines_are_journaled(console: ConsoleHarness) -> None:
    """An approval from an address of no machine, and a refused poll, leave no line."""
    console.created("machines", name="vm")
    console.learn_addresses()
    assert console.send_from("vm", "GET", POST, {}).status == 400
    console.act("vm", "delete")
    console.advance(60)
    assert console.send_from("vm", "POST", POST, {}, STRANGE).status == 400
    console.settle()
    assert not console.ok("GET", "/api/journal?newest=true&type=ApprovalRefused")["lines"]


def test_many_machines_at_once() -> None:
    """Each of ten thousand gets its line (O14), and the lines of an hour are limited."""
    lines: list[RecordRefusal] = []
    now = [0.0]
    log = RefusalLog(lines.append, lambda: now[0])
    for number in range(10_000):
        log.add("web/0", f"web_{number}", "approval", "bad")
    assert len(lines) == 10_000
    for number in range(60_000):
        log.add("web/0", f"web_{number % 10_000}", f"approval {number // 10_000}", "bad")
    assert len(lines) == 65_536
    now[0] += 3600
    log.add("web/0", "web_9999", "another", "bad")
    assert lines[-1].machine == "web_9999"
