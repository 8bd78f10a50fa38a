"""Runs the demo beside a service: simulated handlers, and events for them (O1)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress

from fairwarning.core.errors import Refused
from fairwarning.metadata.callers import for_machine
from fairwarning.metadata.listeners import open_tcp
from fairwarning.server.wiring import ServerProcess
from fairwarning.service.lookup import MachineLocation, find_machine
from fairwarning.testing.demo.events import DemoEvents
from fairwarning.testing.demo.handlers import SimulatedHandler

_APPROVING = ("batch_0", "api_0", "api_1", "api_2")
_POLLING = ("web_0", "web_1", "web_2", "db_0", "db_1", "mail")
"""Their handlers leave the approval to the user, who may run a handler in the same machine."""
_FIRST_POLL_SECONDS = 20.0  # the service starts without a handler that cannot poll


@asynccontextmanager
async def running(server: ServerProcess) -> AsyncIterator[None]:
    """Run the demo inside the context, which begins once the handlers poll."""
    async with AsyncExitStack() as stack:
        handlers = [
            await _start(server, stack, name, approves=name in _APPROVING)
            for name in (*_POLLING, *_APPROVING)
        ]
        polls = [
            handler.has_polled.wait()
            for handler in handlers
            if handler and await handler.is_running()
        ]
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*polls), _FIRST_POLL_SECONDS)
        events = DemoEvents(server.fleet)
        await events.begin()
        stack.push_async_callback(_stop, asyncio.create_task(events.run(), name="demo events"))
        yield


async def _start(
    server: ServerProcess, stack: AsyncExitStack, name: str, *, approves: bool
) -> SimulatedHandler | None:
    """Start the handler of a machine; None if there is no such machine."""
    try:
        location = await find_machine(server.fleet, name)
    except Refused:
        return None
    endpoint = await _endpoint(server, stack, location)
    handler = SimulatedHandler(server.fleet, location, endpoint, approves=approves)
    stack.push_async_callback(_stop, asyncio.create_task(handler.run(), name=f"demo {name}"))
    return handler


async def _endpoint(server: ServerProcess, stack: AsyncExitStack, location: MachineLocation) -> str:
    """Return the URL of a listener for this machine alone.

    It works on every system, also if machines have no URL because they are identified by their
    source address.
    """
    try:
        sock = open_tcp("127.0.0.1", 0, exact=True)
    except Refused:  # there is only IPv6
        sock = open_tcp("::1", 0, exact=True)
    host, port = sock.getsockname()[:2]
    resolve_key = for_machine(location.scope, location.machine.name)
    listener = await server.server.listen(sock, resolve_key)
    stack.callback(server.server.close, listener)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def _stop(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])
