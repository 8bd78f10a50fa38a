"""Programs outlive the service, and it finds them again."""

import signal
import sys
from pathlib import Path

import pytest

from fairwarning.machines.process import driver
from tests.fixtures.requirements import needs_namespaces
from tests.fixtures.waiting import run_async, wait_until_async
from tests.machines.process_harness import MACHINES, process_harness, steady

pytestmark = needs_namespaces

# Asks now and again, each time by a new connection; a service that is away keeps it waiting.
POLLER = """
import time, urllib.request
while True:
    with urllib.request.urlopen("http://169.254.169.254/") as answer:
        print(answer.read().decode(), flush=True)
    time.sleep(0.01)
"""


@pytest.mark.spec("O4")
@run_async
async def test_requests_wait_for_the_service_to_come_back(tmp_path: Path) -> None:
    """The endpoint is never gone: no request is refused, whatever the service does."""
    async with process_harness(tmp_path) as harness:
        program = harness.start(sys.executable, "-c", POLLER)
        await wait_until_async(lambda: "web_0" in harness.out(), "it is answered")
        await harness.driver.close()
        answers = harness.out()
        assert await steady(lambda: harness.out()[len(answers) :].count("\n") > 1)
        await harness.begin()
        await wait_until_async(
            lambda: harness.out().count("\n") > answers.count("\n") + 3, "it is answered again"
        )
        assert program.poll() is None
        assert set(harness.out().split()) == {"web/web_0"}


@pytest.mark.spec("O4")
@run_async
async def test_an_impact_is_not_done_twice(tmp_path: Path) -> None:
    """The service restarts in the middle of an impact, and hands it over before anybody is back."""
    async with process_harness(tmp_path) as harness:
        await harness.counting()
        reboot = harness.hit("reboot")
        await wait_until_async(lambda: harness.log().count("started") == 2, "it restarts")
        for _ in range(2):
            harness.reports.clear()
            await harness.driver.close()
            harness.driver = harness.make_driver()
            harness.hit("reboot", again=reboot)
            await harness.driver.listen()
            assert await harness.over(reboot) == ""
        assert harness.log() == ["started", "ended", "started"]
        assert harness.fallback.given == []


@pytest.mark.spec("O4")
@run_async
async def test_an_impact_that_is_under_way_goes_on(tmp_path: Path) -> None:
    """A freeze lasts as long as it was to last, and the next service hears of its end."""
    async with process_harness(tmp_path) as harness:
        await harness.counting()
        await harness.counting()
        freeze = harness.hit("freeze", seconds=2)
        await wait_until_async(
            lambda: harness.err() != "" and harness.err(1) != "", "both are frozen"
        )
        await harness.driver.close()
        assert freeze not in harness.reports
        harness.driver = harness.make_driver()
        harness.hit("freeze", again=freeze, seconds=2)
        await harness.driver.listen()
        assert await harness.over(freeze) == ""
        assert harness.said() + harness.said(1) == ["fairwarning: web_0 is frozen for 2 s"] * 2


@pytest.mark.spec("O4")
@run_async
async def test_a_stopped_machine_finds_the_service_again(tmp_path: Path) -> None:
    """It has no endpoint to pass on until it is started."""
    async with process_harness(tmp_path) as harness:
        await harness.counting()
        assert await harness.over(harness.hit("stop")) == ""
        await harness.driver.close()
        harness.driver = harness.make_driver()
        start = harness.hit("start")
        await harness.driver.listen()
        assert await harness.over(start) == ""
        await wait_until_async(lambda: harness.listeners.open == ["web_0"], "its listener opens")
        await wait_until_async(
            lambda: harness.log() == ["started", "ended", "started"], "it starts again"
        )


@pytest.mark.spec("O4")
@run_async
async def test_programs_that_do_not_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are waited for, but not for long; then the impact is for others."""
    monkeypatch.setattr(driver, "RETURN_SECONDS", 0.5)
    async with process_harness(tmp_path) as harness:
        program = await harness.counting()
        await harness.driver.close()
        program.kill()
        harness.driver = harness.make_driver()
        reboot = harness.hit("reboot")
        assert not harness.fallback.given
        await harness.driver.listen()
        assert await harness.over(reboot) == ""
        assert harness.fallback.given == [reboot]
        assert not list((harness.data / "attached").iterdir())


@pytest.mark.spec("O4")
@run_async
async def test_a_program_that_ended_is_not_waited_for(tmp_path: Path) -> None:
    """Its marker goes when it goes."""
    async with process_harness(tmp_path) as harness:
        program = await harness.counting()
        assert len(list((harness.data / "attached").iterdir())) == 1
        program.send_signal(signal.SIGTERM)
        await harness.code(program)
        await wait_until_async(
            lambda: not list((harness.data / "attached").iterdir()), "its marker goes"
        )
        await harness.driver.close()
        harness.driver = harness.make_driver()
        harness.hit("reboot")
        assert len(harness.fallback.given) == 1
        await harness.driver.listen()


@pytest.mark.spec("O4")
@run_async
async def test_a_machine_that_was_deleted_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its program ends as if it had been told so."""
    async with process_harness(tmp_path) as harness:
        program = await harness.counting()
        await harness.driver.close()
        monkeypatch.delitem(MACHINES, "web_0")
        await harness.begin()
        assert await harness.code(program) == 0
        assert harness.log() == ["started", "ended"]
        assert harness.said() == ["fairwarning: web_0 is deleted"]
