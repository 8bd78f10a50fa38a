"""A machine takes a while to boot, by the clock of the service."""

from pathlib import Path

import pytest

from tests.fixtures.requirements import needs_namespaces
from tests.fixtures.waiting import wait_until_async
from tests.machines.process_harness import process_harness

pytestmark = [needs_namespaces, pytest.mark.spec("O4")]

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
