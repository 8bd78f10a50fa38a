"""Requests that only read have a bounded share, and stop when their callers are gone (IB3)."""

import asyncio
import gc
import time
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any

import pytest

from fairwarning.console.api import section
from fairwarning.core import limits
from fairwarning.service import read_share
from fairwarning.service.read_share import CallerGone, ReadShare
from fairwarning.service.tokens import Role, TokenUse
from tests.fixtures.arm import ArmHarness
from tests.fixtures.console import HOST, ConsoleHarness
from tests.fixtures.http import Response, asgi_request, asgi_scope
from tests.fixtures.waiting import LIMIT_SECONDS, on_this_machine


class _Silent:
    """A caller or a receiver of which nothing comes; it tells once it is asked."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def __call__(self, *_: object) -> MutableMapping[str, Any]:
        self.asked.set()
        return await never()


async def never() -> MutableMapping[str, Any]:
    """A caller that stays."""
    return await asyncio.Future[MutableMapping[str, Any]]()


async def at_once() -> MutableMapping[str, Any]:
    """A caller that sends an empty body."""
    return {"type": "http.request", "body": b"", "more_body": False}


async def ignore(_: Mapping[str, Any]) -> None:
    """Send to nobody."""


async def gone() -> Mapping[str, Any]:
    """A caller that has left."""
    return {"type": "http.disconnect"}


def test_reads_beyond_the_share_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """API and page answer 503 with Retry-After; commands still work, and later reads do again."""
    monkeypatch.setattr(limits, "READS", 1)
    with ConsoleHarness() as console:
        console.created("machines", name="vm")
        cookie = f"fairwarning={console.token_of(Role.OPERATOR, use=TokenUse.PAGE)}"

        def page(*headers: tuple[str, str]) -> Response:
            return console.send("GET", "/journal", [("Host", HOST), ("Cookie", cookie), *headers])

        with occupied(console):
            refused = console.api("GET", "/api/journal")
            assert refused.json["error"]["code"] == "TooManyReads"
            for response in (refused, page(), page(("X-Page", "/"))):
                assert (response.status, response.headers["retry-after"]) == (503, "1")
                assert b"try again" in response.body
            console.act("vm", "restart")
        assert console.api("GET", "/api/journal").status == page().status == 200


def test_reads_of_azures_api_beyond_the_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """They get 503 with Retry-After in Azure's form; a write still works."""
    monkeypatch.setattr(limits, "READS", 1)
    with ArmHarness() as arm:
        with occupied(arm):
            response = arm.get("/resourceGroups")
            assert (response.status, response.headers["retry-after"]) == (503, "5")
            assert response.json["error"]["code"] == "ServiceUnavailable"
            arm.put("/resourceGroups/rg", {"location": "local"})
        assert arm.get("/resourceGroups/rg").status == 200


@pytest.mark.parametrize("slow", ["a body", "a receiver"])
def test_no_read_waits_for_a_slow_command(monkeypatch: pytest.MonkeyPatch, slow: str) -> None:
    """A caller may send its body slowly, and a receiver may be slow to answer (IB4)."""
    monkeypatch.setattr(read_share, "_LOOK_SECONDS", 10 * LIMIT_SECONDS)
    with ConsoleHarness() as console:
        path = "/api/machines" if slow == "a body" else "/api/webhooks/hook/test"

        async def read() -> Response:
            scope, silent = console.api_scope("POST", path), _Silent()
            console.webhooks.test = silent  # type: ignore[assignment]
            receive = silent if slow == "a body" else at_once
            posting = asyncio.create_task(console.app(scope, receive, ignore))
            await asyncio.wait_for(silent.asked.wait(), LIMIT_SECONDS)
            reading = console.request("GET", "/api/journal")
            response = await asyncio.wait_for(reading, LIMIT_SECONDS)
            posting.cancel()
            return response

        assert console.run(read()).status == 200


@contextmanager
def occupied(harness: ConsoleHarness | ArmHarness) -> Iterator[None]:
    """Hold a place of the share, on the event loop of a harness."""
    ended = asyncio.Event()

    async def hold(begun: asyncio.Event) -> None:
        async with harness.fleet.reader.share.enter("somebody", never):
            begun.set()
            await ended.wait()

    async def begin() -> asyncio.Task[None]:
        begun = asyncio.Event()
        task = asyncio.create_task(hold(begun))
        await begun.wait()
        return task

    async def end() -> None:
        ended.set()
        await task

    task = harness.run(begin())
    yield
    harness.run(end())


async def test_one_caller_leaves_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller that reads as much as it may does not keep another from reading."""
    monkeypatch.setattr(limits, "READS_OF_CALLER", 1)
    share = ReadShare(lambda: True)
    async with share.enter("greedy", never):
        with pytest.raises(Exception, match="TooManyReads"):
            async with share.enter("greedy", never):
                pytest.fail("there is room for one")
        async with share.enter("modest", never):
            pass


@pytest.mark.parametrize("waits", [False, True], ids=["at work", "waiting"])
async def test_a_read_without_a_caller_is_stopped(
    monkeypatch: pytest.MonkeyPatch, *, waits: bool
) -> None:
    """Whether it has begun or waits for others; then its place is free."""
    monkeypatch.setattr(read_share, "_QUICK_SECONDS", 0.0)
    monkeypatch.setattr(read_share, "_AT_WORK", 1)
    monkeypatch.setattr(limits, "READS", 2)
    share = ReadShare(lambda: True)

    async def read(receive: read_share.Receive) -> None:
        async with share.enter("caller", receive):
            await asyncio.Event().wait()

    first = asyncio.create_task(read(never)) if waits else None
    await asyncio.sleep(0)
    with pytest.raises(CallerGone):
        await read(gone)
    if first:
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
    async with share.enter("caller", never):
        pass


async def test_commands_go_before_the_next_step_of_a_read() -> None:
    """A read waits while a command is at work, and goes on beside commands without end."""
    steps: list[int] = []

    async def read() -> None:
        async with share.enter("caller", never):
            await share.map(steps.append, range(read_share.STEP * 2))

    share = ReadShare(lambda: False)
    reading = asyncio.create_task(read())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not steps
    await reading
    assert len(steps) == read_share.STEP * 2


# --- No request takes the event loop for long, however large the fleet is ---

STEP_SECONDS = 0.03  # of CPU; ten times what a step takes, and less than what one took by itself
READS = (
    *("/api/openapi.json", "/api/summary", "/api/machines?limit=1000", "/api/machines/set1_8x"),
    *("/api/sets/set1", "/api/events?limit=1000", "/api/events?status=Over", "/api/operations"),
    *("/", "/map", "/timeline", "/machines?size=100", "/machines?q=9"),
    *("/sets", "/sets/set1", "/events", "/events?group=set", "/machines/set1/0/set1_1"),
    *("/confirm/sets/set1/delete", "/confirm/sets/set1/scale?capacity=0", "/search?q=set"),
    *("/events/confirm?action=approve", "/operations", "/journal?q=nothing"),
)


@contextmanager
def large_fleet() -> Iterator[ConsoleHarness]:
    """Ten thousand machines, one in ten with an event."""
    with ConsoleHarness() as console:
        for number in range(10):
            console.ok("POST", "/api/sets", {"name": f"set{number}", "capacity": 900})
        console.created("machines", name="vm", count=1000)
        console.poll(*(f"set{number}_{100 * group}" for number in range(10) for group in range(9)))
        for number in range(10):
            instances = {"instances": list(range(0, 900, 9))}
            console.ok("POST", f"/api/sets/set{number}/restart", instances)
        gc.collect()
        gc.freeze()
        yield console
        gc.unfreeze()


async def longest_step(console: ConsoleHarness, path: str) -> float:
    """Read a page; return the longest CPU time without a turn for others."""
    session = console.token_of(Role.OPERATOR, use=TokenUse.PAGE)
    auth = (
        ("Authorization", f"Bearer {console.token}")
        if path.startswith("/api")
        else ("Cookie", f"fairwarning={session}")
    )
    reading = asyncio.create_task(
        asgi_request(console.app, asgi_scope("GET", path, [("Host", HOST), auth]))
    )
    longest, last = 0.0, time.thread_time()
    while not reading.done():
        await asyncio.sleep(0)
        now = time.thread_time()
        longest, last = max(longest, now - last), now
    assert (await reading).status in {200, 404}, path
    return longest


def test_no_read_takes_the_event_loop_for_long() -> None:
    """Of three attempts the best: the first also fills caches."""
    with large_fleet() as console:
        for path in READS:
            steps = [console.run(longest_step(console, path)) for _ in range(3)]
            assert min(steps) < on_this_machine(STEP_SECONDS), (path, steps)


@pytest.mark.parametrize(
    ("unknown", "meant"), [("set1_87x", "set1_87"), ("zet7_899", "set7_899"), ("qqqqqqqq", "")]
)
def test_a_suggestion_compares_few_names(
    monkeypatch: pytest.MonkeyPatch, unknown: str, meant: str
) -> None:
    """A typo in either half of a name is found among thousands."""
    compared: list[int] = []

    def counted(word: str, names: list[str], most: int) -> list[str]:
        compared.append(len(names))
        return get_close_matches(word, names, most)

    monkeypatch.setattr(section, "get_close_matches", counted)
    with ConsoleHarness() as console:
        for number in range(10):
            console.ok("POST", "/api/sets", {"name": f"set{number}", "capacity": 900})
        message = console.api("GET", f"/api/machines/{unknown}").error_message
        assert (f"did you mean {meant!r}?" in message) == bool(meant), message
    assert compared[0] <= 75
