"""The events of the operator API's stream, as an outline, from a real stream."""

import asyncio
from typing import Any

from tests.console.stream_client import open_stream
from tests.fixtures.console import ConsoleHarness
from tests.fixtures.waiting import LIMIT_SECONDS
from tests.release.promises.json_surface import type_of
from tests.release.promises.outline import Outline, outline_of

_EVENTS = {"line", "clock"}


def stream() -> Outline:
    """Return the type of the data of each event."""
    events: dict[str, Any] = {}
    with ConsoleHarness() as console:
        listener = open_stream(console)
        console.created("machines", name="web")
        console.ok("POST", "/api/clock", {"advance_seconds": 1})
        while not events.keys() >= _EVENTS:
            message = console.run(asyncio.wait_for(listener.next(), LIMIT_SECONDS))
            if message.kind:
                events[message.kind] = message.data
        console.run(listener.disconnect())
    return outline_of(f"event {name}: {type_of(events[name])}" for name in sorted(events))
