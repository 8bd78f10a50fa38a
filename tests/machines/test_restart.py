"""Programs outlive the service, and it finds them again."""

import signal
import sys
from pathlib import Path

import pytest

from fairwarning.machines import process
from tests.fixtures.requirements import needs_namespaces
from tests.fixtures.waiting import run_async, wait_until_async
from tests.machines.process_harness import MACHINES, process_harness, steady

pytestmark = needs_namespaces

# Asks now and again, each time by a new connection; a service that is away keeps it waiting.
POLLER = """
import time, urllib.request
while True:
    with urllib.request.urlopen("http://169.254.169.254/", timeout=20) as answer:
        print(answer.read().decode(), flush=True)
    time.sleep(0.01)
"""


@pytest.mark.spec("O4")
@run_async
async def test_requests_wait_for_the_service_to_come_back(tmp_path: Path) -> None:
    """The endpoint is never gone: no request is refused, whatever the service does."""
    async with process_harness(tmp_path) as it:
        program = it.start(sys.executable, "-c", POLLER)
        await wait_until_async(lambda: "web_0" in it.out(), "it is answered")
        await it.driver.close()
        answers = it.out()
        assert await steady(lambda: it.out()[len(answers) :].count("\n") > 1)
        await it.begin()
        await wait_until_async(
            lambda: it.out().count("\n") > answers.count("\n") + 3, "it is answered again"
        )
        assert program.poll() is None
        assert set(it.out().split()) == {"web/web_0"}


@pytest.mark.spec("O4")
@run_async
async def test_an_impact_is_not_done_twice(tmp_path: Path) -> None:
    """The service restarts in the middle of an impact, and hands it over before anybody is back."""
    async with process_harness(tmp_path) as it:
        await it.counting()
        reboot = it.hit("reboot")
        await wait_until_async(lambda: it.log().count("started") == 2, "it restarts")
        for _ in range(2):
            it.reports.clear()
            await it.driver.close()
            it.driver = it.make_driver()
            it.hit("reboot", again=reboot)
            await it.driver.listen()
            assert await it.over(reboot) == ""
        assert it.log() == ["started", "ended", "started"]
        assert it.fallback.given == []


@pytest.mark.spec("O4")
@run_async
async def test_an_impact_that_is_under_way_goes_on(tmp_path: Path) -> None:
    """A freeze lasts as long as it was to last, and the next service hears of its end."""
    async with process_harness(tmp_path) as it:
        await it.counting()
        await it.counting()
        freeze = it.hit("freeze", seconds=2)
        await wait_until_async(lambda: it.err() != "" and it.err(1) != "", "both are frozen")
        await it.driver.close()
        assert freeze not in it.reports
        it.driver = it.make_driver()
        it.hit("freeze", again=freeze, seconds=2)
        await it.driver.listen()
        assert await it.over(freeze) == ""
        assert it.said() + it.said(1) == ["fairwarning: web_0 is frozen for 2 s"] * 2


@pytest.mark.spec("O4")
@run_async
async def test_a_stopped_machine_finds_the_service_again(tmp_path: Path) -> None:
    """It has no endpoint to pass on until it is started."""
    async with process_harness(tmp_path) as it:
        await it.counting()
        assert await it.over(it.hit("stop")) == ""
        await it.driver.close()
        it.driver = it.make_driver()
        start = it.hit("start")
        await it.driver.listen()
        assert await it.over(start) == ""
        await wait_until_async(lambda: it.listeners.open == ["web_0"], "its door opens")
        await wait_until_async(
            lambda: it.log() == ["started", "ended", "started"], "it starts again"
        )


@pytest.mark.spec("O4")
@run_async
async def test_programs_that_do_not_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are waited for, but not for long; then the impact is for others."""
    monkeypatch.setattr(process, "RETURN_SECONDS", 0.5)
    async with process_harness(tmp_path) as it:
        program = await it.counting()
        await it.driver.close()
        program.kill()
        it.driver = it.make_driver()
        reboot = it.hit("reboot")
        assert not it.fallback.given
        await it.driver.listen()
        assert await it.over(reboot) == ""
        assert it.fallback.given == [reboot]
        assert not list((it.data / "attached").iterdir())


@pytest.mark.spec("O4")
@run_async
async def test_a_program_that_ended_is_not_waited_for(tmp_path: Path) -> None:
    """Its marker goes when it goes."""
    async with process_harness(tmp_path) as it:
        program = await it.counting()
        assert len(list((it.data / "attached").iterdir())) == 1
        program.send_signal(signal.SIGTERM)
        await it.code(program)
        await wait_until_async(
            lambda: not list((it.data / "attached").iterdir()), "its marker goes"
        )
        await it.driver.close()
        it.driver = it.make_driver()
        it.hit("reboot")
        assert len(it.fallback.given) == 1
        await it.driver.listen()


@pytest.mark.spec("O4")
@run_async
async def test_a_machine_that_was_deleted_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its program ends as if it had been told so."""
    async with process_harness(tmp_path) as it:
        program = await it.counting()
        await it.driver.close()
        monkeypatch.delitem(MACHINES, "web_0")
        await it.begin()
        assert await it.code(program) == 0
        assert it.log() == ["started", "ended"]
        assert it.said() == ["fairwarning: web_0 is deleted"]
