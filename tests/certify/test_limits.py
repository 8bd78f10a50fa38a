"""Certify ends, and fills no disk, whatever the handler does (IB6)."""

import asyncio
from pathlib import Path

import pytest

from fairwarning.core.commands import Command
from fairwarning.testing.certify import environment, trap_run
from fairwarning.testing.certify.environment import CertifyEnvironment, Observations, TrapFailed
from fairwarning.testing.certify.trap_run import CertifyOptions, TrapRun
from tests.fixtures.requirements import needs_namespaces
from tests.fixtures.waiting import LIMIT_SECONDS

pytestmark = pytest.mark.spec("O11")


@needs_namespaces
def test_a_handler_that_floods_its_output(tmp_path: Path) -> None:
    """Its output is dropped before it fills the disk."""
    output, sizes = tmp_path / "trap" / "output", [0]

    def has_shrunk() -> bool:
        sizes.append(output.stat().st_size)
        return sizes[-1] < sizes[-2]

    async def watch() -> bool:
        async with CertifyEnvironment(("cat", "/dev/zero"), tmp_path / "trap").open() as machine:
            machine.start()
            return await machine.until(has_shrunk, LIMIT_SECONDS)

    assert asyncio.run(watch())


@needs_namespaces
def test_a_program_that_cannot_be_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Certify waits for a limited time, says so and goes on."""
    monkeypatch.setattr(environment, "_KILL_SECONDS", 0.1)
    monkeypatch.setattr(CertifyEnvironment, "_is_attached", lambda _: True)

    async def lose_power() -> None:
        async with CertifyEnvironment(("true",), tmp_path / "trap", "gone").open() as machine:
            machine.start()
            await machine.lose_power()
            assert not machine.is_on

    asyncio.run(lose_power())
    assert "gone: the program still runs" in caplog.text


class AlwaysPolled:
    """An environment in which a poll enables the feature before it can be disabled."""

    def __init__(self) -> None:
        self.seen = Observations(polls=1)
        self.rules: list[object] = []
        self.fleet = self

    async def until(self, condition: object, _: float) -> bool:
        return bool(callable(condition) and condition())

    async def advance(self, _: float) -> None:
        pass

    async def submit(self, _: Command) -> None:
        raise AssertionError("the feature was not disabled")


def test_a_program_that_never_stops_polling(monkeypatch: pytest.MonkeyPatch) -> None:
    """A day without a poll cannot pass: the trap fails."""
    monkeypatch.setattr(trap_run, "_DISABLE_ATTEMPTS", 3)
    run = TrapRun(AlwaysPolled(), CertifyOptions(("true",)))  # type: ignore[arg-type]
    with pytest.raises(TrapFailed, match="polled so often"):
        asyncio.run(run.run([TrapRun.disable_feature]))
