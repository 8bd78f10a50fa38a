"""Coroutine tests whose first argument is a harness in the folder of the test."""

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
import uvloop

from tests.fixtures.waiting import OUTER_LIMIT_SECONDS

MakeLoop = Callable[[], asyncio.AbstractEventLoop]
Test = Callable[..., Coroutine[Any, Any, None]]
OpenHarness = Callable[[Path], AbstractAsyncContextManager[Any]]

LOOPS = [
    pytest.param(uvloop.new_event_loop, id="uvloop"),
    pytest.param(asyncio.new_event_loop, id="asyncio", marks=pytest.mark.campaign),
]


def with_harness(open_harness: OpenHarness, test: Test, *before: str) -> Callable[..., None]:
    """Run a test with a harness, and with the arguments of pytest; fail if it hangs."""
    _, *own = inspect.signature(test).parameters.values()

    def run(tmp_path: Path, make_loop: MakeLoop | None = None, **arguments: object) -> None:
        async def work() -> None:
            async with open_harness(tmp_path) as harness:
                if any(parameter.name == "tmp_path" for parameter in own):
                    arguments["tmp_path"] = tmp_path
                await test(harness, **arguments)

        with asyncio.Runner(loop_factory=make_loop) as runner:
            runner.run(asyncio.wait_for(work(), OUTER_LIMIT_SECONDS))

    functools.update_wrapper(run, test)
    others = [parameter for parameter in own if parameter.name != "tmp_path"]
    kind = inspect.Parameter.KEYWORD_ONLY
    ours = [inspect.Parameter(name, kind) for name in ("tmp_path", *before)]
    parameters = [parameter.replace(kind=kind) for parameter in others]
    run.__signature__ = inspect.Signature([*ours, *parameters])  # type: ignore[attr-defined]
    return run


def in_both_loops(open_harness: OpenHarness, test: Test) -> Callable[..., None]:
    """Run a test on the loop of the service, and on the asyncio loop."""
    both: Callable[..., Callable[..., None]] = pytest.mark.parametrize("make_loop", LOOPS)
    return both(with_harness(open_harness, test, "make_loop"))


async def steady(read: Callable[[], object]) -> bool:
    """Return whether a value stays the same for longer than any test program ever pauses."""
    before = read()
    await asyncio.sleep(0.3)
    return read() == before
