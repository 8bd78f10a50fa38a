"""Requests that only read have a bounded share, and stop when their callers are gone (IB3)."""

import asyncio
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any

import pytest

from fairwarning.core import limits
from fairwarning.service import read_share
from fairwarning.service.read_share import CallerGone, ReadShare
from fairwarning.service.tokens import Role, TokenUse
from tests.fixtures.arm import ArmHarness
from tests.fixtures.console import HOST, ConsoleHarness
from tests.fixtures.http import Response
from tests.fixtures.waiting import LIMIT_SECONDS


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
