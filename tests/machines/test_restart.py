"""Programs outlive the service and reconnect to the next one; machines take a while to boot."""

import signal
import sys
from pathlib import Path

import pytest

from fairwarning.machines.process import driver
from tests.fixtures.requirements import needs_namespaces
from tests.fixtures.waiting import wait_until_async
from tests.machines.harness import steady
from tests.machines.process_harness import (
    MACHINES,
    ProcessHarness,
    process_harness,
    with_process_harness,
)

pytestmark = [needs_namespaces, pytest.mark.spec("O4")]

# Polls on a new connection each time; without a service its request waits.
POLLER = """
import time, urllib.request
while True:
    with urllib.request.urlopen("http://169.254.169.254/") as answer:
        print(answer.read().decode(), flush=True)
    time.sleep(0.01)
"""


@with_process_harness
async def test_requests_wait_for_the_service_to_restart(harness: ProcessHarness) -> None:
    """The endpoint stays open: no request is refused while the service is down."""
    program = harness.start(sys.executable, "-c", POLLER)
    await wait_until_async(lambda: "web_0" in harness.out(), "it is answered")
    await harness.driver.close()
    answers = harness.out()
    assert await steady(lambda: harness.out()[len(answers) :].count("\n") > 1)
    await harness.start_service()
    await wait_until_async(
        lambda: harness.out().count("\n") > answers.count("\n") + 3, "it is answered again"
    )
    assert program.poll() is None
    assert set(harness.out().split()) == {"web/web_0"}


@with_process_harness
async def test_an_impact_is_not_executed_twice(harness: ProcessHarness) -> None:
    """The service restarts during an impact and hands it over before any program reconnects."""
    await harness.start_counter()
    reboot = harness.submit("reboot")
    await harness.started(2)
    for _ in range(2):
        harness.reports.clear()
        await harness.replace_driver()
        harness.submit("reboot", again=reboot)
        await harness.driver.listen()
        assert await harness.result(reboot) == ""
    assert harness.log() == ["started", "ended", "started"]
    assert harness.fallback.executed == []


@with_process_harness
async def test_an_impact_in_progress_continues(harness: ProcessHarness) -> None:
    """A freeze lasts as long as announced, and the next service reports its end."""
    await harness.start_counter()
    await harness.start_counter()
    freeze = harness.submit("freeze", seconds=2)
    await wait_until_async(lambda: harness.err() != "" and harness.err(1) != "", "both are frozen")
    await harness.driver.close()
    assert freeze not in harness.reports
    harness.driver = harness.make_driver()
    harness.submit("freeze", again=freeze, seconds=2)
    await harness.driver.listen()
    assert await harness.result(freeze) == ""
    assert harness.messages() + harness.messages(1) == ["fairwarning: web_0 is frozen for 2 s"] * 2


@with_process_harness
async def test_a_stopped_machine_reconnects(harness: ProcessHarness) -> None:
    """It has no endpoint to pass on until it is started."""
    await harness.start_counter()
    assert await harness.result(harness.submit("stop")) == ""
    await harness.replace_driver()
    start = harness.submit("start")
    await harness.driver.listen()
    assert await harness.result(start) == ""
    await wait_until_async(lambda: harness.listeners.open == ["web_0"], "its listener opens")
    await harness.logged("started", "ended", "started")


@with_process_harness
async def test_programs_that_do_not_reconnect(
    harness: ProcessHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service waits for them for a short time; then the fallback driver takes over."""
    monkeypatch.setattr(driver, "RETURN_SECONDS", 0.5)
    program = await harness.start_counter()
    await harness.driver.close()
    program.kill()
    await wait_until_async(lambda: not harness.remaining_processes(), "no process remains")
    harness.driver = harness.make_driver()
    reboot = harness.submit("reboot")
    assert not harness.fallback.executed
    await harness.driver.listen()
    assert await harness.result(reboot) == ""
    assert harness.fallback.executed == [reboot]
    assert not list((harness.data / "attached").iterdir())


@with_process_harness
async def test_a_program_that_ended_is_not_waited_for(harness: ProcessHarness) -> None:
    """Its marker is removed when it ends."""
    program = await harness.start_counter()
    assert len(list((harness.data / "attached").iterdir())) == 1
    program.send_signal(signal.SIGTERM)
    await harness.exit_code(program)
    await wait_until_async(
        lambda: not list((harness.data / "attached").iterdir()), "its marker goes"
    )
    await harness.replace_driver()
    harness.submit("reboot")
    assert len(harness.fallback.executed) == 1
    await harness.driver.listen()


@with_process_harness
async def test_a_machine_that_was_deleted_while_disconnected(
    harness: ProcessHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its program ends as if the service had ordered it."""
    program = await harness.start_counter()
    await harness.driver.close()
    monkeypatch.delitem(MACHINES, "web_0")
    await harness.start_service()
    assert await harness.exit_code(program) == 0
    assert harness.log() == ["started", "ended"]
    assert harness.messages() == ["fairwarning: web_0 is deleted"]


# --- A machine takes a while to boot, by the clock of the service ---


BOOT_SECONDS = 30


@pytest.mark.parametrize("kind", ["reboot", "redeploy", "start"])
async def test_a_machine_boots_for_as_long_as_the_setting_says(tmp_path: Path, kind: str) -> None:
    """Meanwhile the impact is in progress and the endpoint is closed."""
    async with process_harness(tmp_path, boot_seconds=BOOT_SECONDS) as harness:
        await harness.start_counter()
        if kind == "start":
            assert await harness.result(harness.submit("stop")) == ""
        impact = harness.submit(kind)
        await wait_until_async(lambda: harness.boots == 1, "it is down")
        await harness.clock.advance(BOOT_SECONDS - 1)
        assert harness.log() == ["started", "ended"]
        assert harness.listeners.open == []
        assert impact not in harness.reports
        await harness.clock.advance(1)
        assert await harness.result(impact) == ""
        await harness.started(2)
        assert harness.listeners.open == ["web_0"]


async def test_a_machine_boots_when_all_its_programs_are_down(tmp_path: Path) -> None:
    """No program starts while another one of the machine is still ending."""
    go = tmp_path / "go"
    trap = f"trap 'until [ -e {go} ]; do sleep 0.01; done; exit' TERM"
    slow = f"{trap}; echo up; while :; do sleep 0.01; done"
    async with process_harness(tmp_path, boot_seconds=BOOT_SECONDS) as harness:
        await harness.start_counter()
        harness.start("sh", "-c", slow, options=("--grace", "1000"))
        await harness.printed("up\n", 1)
        reboot = harness.submit("reboot")
        await harness.logged("started", "ended")
        await harness.clock.advance(10 * BOOT_SECONDS)
        assert harness.boots == 0
        go.touch()
        await wait_until_async(lambda: harness.boots == 1, "both are down")
        await harness.clock.advance(BOOT_SECONDS)
        assert await harness.result(reboot) == ""
        await harness.printed("up\nup\n", 1)


async def test_a_booting_machine_outlives_a_service_that_forgets_it(tmp_path: Path) -> None:
    """The next service, which keeps its fleet in memory, lets the machine boot."""
    async with process_harness(tmp_path, boot_seconds=BOOT_SECONDS) as harness:
        await harness.start_counter()
        harness.submit("reboot")
        await wait_until_async(lambda: harness.boots == 1, "it is down")
        await harness.driver.close()
        await harness.start_service()
        await wait_until_async(lambda: harness.boots == 2, "it is attached again")
        await harness.clock.advance(BOOT_SECONDS)
        await harness.started(2)
