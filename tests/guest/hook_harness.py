"""A runner of hooks that keeps their results."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from fairwarning.guest.agent.actions import RunHook
from fairwarning.guest.agent.config import HookSettings
from fairwarning.guest.agent.hooks import HookRunner
from fairwarning.guest.events import Event, EventSource, EventStatus, EventType, Phase
from tests.fixtures.waiting import LIMIT_SECONDS

SOON_SECONDS = 20.0  # to start and end a process on a busy machine

EVENT = Event(
    id="602D9444-D2CD-49C7-8624-8643E7171297",
    type=EventType.REBOOT,
    status=EventStatus.SCHEDULED,
    resources=("vm-1", "vm-2"),
    not_before=datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC),
    source=EventSource.PLATFORM,
    duration=timedelta(seconds=9),
    description="Host \u00fcber all",
)

HookResult = tuple[str, Phase, str, str]


class HookHarness:
    """A hook runner, and the results that it reported."""

    def __init__(self, state: Path | None = None) -> None:
        self._results: list[HookResult] = []
        self._changed = threading.Condition()
        self.hooks = HookRunner("vm-1", self._ended, state=state)
        self._runs = 0

    def _ended(self, event: str, phase: Phase, hook: str, failed: str) -> None:
        with self._changed:
            self._results.append((event, phase, hook, failed))
            self._changed.notify_all()

    def run(
        self,
        hook: HookSettings,
        *,
        seconds: float = LIMIT_SECONDS,
        event: Event = EVENT,
        cancelled: bool = False,
    ) -> RunHook:
        deadline = datetime.now(UTC) + timedelta(seconds=seconds)
        run = RunHook(hook, hook.phase, event, deadline, cancelled)
        self._runs += 1
        self.hooks.run(run)
        return run

    def results(self) -> list[HookResult]:
        """Wait for all started hooks; return their results."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self._results) >= self._runs, LIMIT_SECONDS)
            return list(self._results)

    def failure(self) -> str:
        """Return the failure of the only hook."""
        ((event, phase, _, failed),) = self.results()
        assert (event, phase) == (EVENT.id, Phase.SCHEDULED)
        return failed


@contextmanager
def hook_harness(state: Path | None = None) -> Iterator[HookHarness]:
    """Check that no thread is left and that each end was reported once."""
    harness = HookHarness(state)
    try:
        yield harness
    finally:
        harness.hooks.close()
        for thread in threading.enumerate():
            if "hook" in thread.name:
                thread.join(LIMIT_SECONDS)
                assert not thread.is_alive(), thread.name
    assert len(harness.results()) == harness._runs
