"""Long computations of several clients work in turn (IB4)."""

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from fairwarning.arm import turns
from fairwarning.arm.resources import deployments
from fairwarning.arm.templates.evaluation import ValueBudget
from fairwarning.arm.templates.expressions import parse
from fairwarning.arm.templates.relaxed_json import decode
from fairwarning.arm.templates.template import Template
from fairwarning.arm.turns import ComputeTurns, pause
from fairwarning.core.errors import Refused
from tests.arm.bodies import ANN
from tests.arm.templates import deployment, resource
from tests.fixtures.arm import OPERATOR, ArmHarness

pytestmark = pytest.mark.spec("X7")

DEPLOYMENTS = "/resourceGroups/rg/providers/Microsoft.Resources/deployments"
PATIENCE_SECONDS = 60


@pytest.fixture(autouse=True)
def short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn ends at the next pause."""
    monkeypatch.setattr(turns, "TURN_SECONDS", 0)


def until(condition: Callable[[], bool]) -> None:
    """Wait in a thread."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


class Clients:
    """Clients whose computations have steps, between which they pause."""

    def __init__(self, together: int) -> None:
        self.turns = ComputeTurns()
        self.log: list[str] = []
        self._together = together  # that have to wait before the first one goes on

    async def compute(self, client: str, steps: int = 3) -> None:
        """Compute for a client, after all are there."""
        await self.turns.run(client, lambda: self._work(client, steps))

    def _work(self, client: str, steps: int) -> None:
        if not self.log:
            until(lambda: len(self.turns.queue) == self._together)
        for _ in range(steps):
            self.log.append(client)
            pause()

    def run(self, *names: str) -> str:
        """Compute once for each of these; return whose steps were done, in their order."""

        async def run_all() -> None:
            await asyncio.gather(*map(self.compute, names))

        asyncio.run(run_all())
        return "".join(self.log)


def test_a_long_computation_lets_others_work() -> None:
    """After each turn of a client, each other client has one."""
    log = Clients(2).run("a", "b")
    assert log[0] != log[1]
    assert log == log[:2] * 3


def test_a_client_with_many_computations() -> None:
    """It has one at a time: another client waits for one turn, not for one of each."""
    log = Clients(2).run("a", "a", "a", "a", "b")
    assert sorted(log[:6]) == ["a"] * 3 + ["b"] * 3
    assert "bb" not in log
    assert log[6:] == "a" * 9


def test_more_clients_than_threads() -> None:
    """The others begin when one has ended; all of them end."""
    begun = turns._BEGUN
    names = [str(number) for number in range(begun + 3)]
    log = Clients(begun).run(*names)
    assert len(set(log[: begun * 3])) == begun
    assert sorted(log) == sorted(names * 3)


def test_a_computation_that_fails() -> None:
    """Its error reaches the client, and the next one has its turn."""
    clients = Clients(1)

    async def fail_then_work() -> None:
        with pytest.raises(ZeroDivisionError):
            await clients.turns.run("a", lambda: 1 // 0)
        await clients.compute("b")

    asyncio.run(fail_then_work())
    assert clients.log == ["b"] * 3


def test_a_computation_for_which_nobody_waits() -> None:
    """It ends at its next pause, so that a stop waits for nothing."""
    ended: list[str] = []
    begun = asyncio.Event()

    def endless(loop: asyncio.AbstractEventLoop) -> None:
        loop.call_soon_threadsafe(begun.set)
        try:
            while True:
                pause()
        finally:
            ended.append("a")

    async def cancel() -> None:
        clients = Clients(1)
        work = partial(endless, asyncio.get_running_loop())
        task = asyncio.create_task(clients.turns.run("a", work))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await clients.compute("b")

    asyncio.run(cancel())
    assert ended == ["a"]


def test_a_pause_outside_a_computation() -> None:
    """It does nothing: the same functions are called for short texts, in the event loop."""
    pause()


@pytest.mark.parametrize(
    "work",
    [
        lambda: parse({"a": [1] * 20}, {}),
        lambda: ValueBudget().spend_on([1] * 20),
        lambda: decode(b"{a: [" + b"b, " * 20 + b"]}"),
    ],
    ids=["parse", "evaluate", "decode"],
)
def test_templates_pause(work: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """The steps that are as many as the values of a template have pauses."""
    pauses = 0

    def count() -> None:
        nonlocal pauses
        pauses += 1

    for module in ("evaluation", "expressions", "relaxed_json"):
        monkeypatch.setattr(f"fairwarning.arm.templates.{module}.pause", count)
    with suppress(Refused):  # a text that is no JSON, at its end
        work()
    assert pauses >= 20


def test_a_deployment_beside_a_long_one(arm: ArmHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client's template that takes long lets another client's deployment end."""
    ended = threading.Event()

    def paused() -> bool:
        pause()
        return ended.is_set()

    def slow(properties: Any, scope: Any) -> object:  # noqa: ANN401  (as the class)
        if scope.name == "long":
            until(paused)
        return Template(properties, scope)

    monkeypatch.setattr(deployments, "Template", slow)

    async def deploy_both() -> None:
        path = f"{DEPLOYMENTS}/long"
        long = asyncio.create_task(arm.send_async("PUT", path, deployment(), ANN))
        network = resource("Microsoft.Network/virtualNetworks", "net")
        path = f"{DEPLOYMENTS}/short"
        short = await arm.send_async("PUT", path, deployment(network), OPERATOR)
        assert short.status == 201
        ended.set()
        assert (await long).status == 201

    arm.run(deploy_both())


def test_a_deployment_computes_its_resources_together(
    arm: ArmHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for its turn as often with many resources as with one, but for references."""
    calls = 0
    run = ComputeTurns.run

    async def count(*arguments: Any) -> Any:  # noqa: ANN401  (as the method)
        nonlocal calls
        calls += 1
        return await run(*arguments)

    monkeypatch.setattr(ComputeTurns, "run", count)
    kind, name = "Microsoft.Network/virtualNetworks", "[concat('n', copyIndex())]"

    def deploy(*resources: Any) -> int:  # noqa: ANN401  (JSON)
        nonlocal calls
        calls = 0
        assert arm.put(f"{DEPLOYMENTS}/d", deployment(*resources)).status == 201
        document = arm.get(f"{DEPLOYMENTS}/d").json["properties"]
        assert document["provisioningState"] == "Succeeded"
        return calls

    one = deploy(resource(kind, "one"))
    many = resource(kind, name, copy={"name": "n", "count": 30})
    assert deploy(many) == one
    needs = resource(kind, "two", "one", tags={"a": "[reference('one').provisioningState]"})
    assert deploy(resource(kind, "one"), needs) == one + 2
