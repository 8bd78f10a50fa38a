"""The campaigns of a release: their commands exist, go on where they stopped, and can fail."""

import asyncio
import os
import signal
from importlib.util import find_spec
from pathlib import Path

import pytest
from rich.console import Console
from rich.progress import Progress

from tests.fixtures.programs import ROOT
from tests.fixtures.waiting import run_async, wait_until_async
from tests.release.campaigns import progress, soak
from tests.release.campaigns.__main__ import Release, RunFailed, table
from tests.release.campaigns.plan import CAMPAIGNS, ENGINE, Campaign


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of what was done, in a folder of the test."""
    monkeypatch.setattr(progress, "FILE", tmp_path / "done.json")
    monkeypatch.setattr(progress, "OUTPUTS", tmp_path)
    return tmp_path / "done.json"


def run(campaign: Campaign) -> progress.ReleaseProgress:
    """Run a campaign with two jobs, from what was saved."""
    done = progress.ReleaseProgress()
    bars = Progress(console=Console(quiet=True))
    asyncio.run(Release([campaign], done, bars).run(jobs=2))
    return done


def counting(goal: int, statement: str = "pass") -> Campaign:
    """Return a campaign whose runs execute a statement and count as two."""
    return Campaign("counting", "things", goal, 2, ENGINE, lambda _: ("timeit", "-n1", statement))


@pytest.mark.parametrize("campaign", CAMPAIGNS, ids=lambda campaign: campaign.name)
def test_a_command_exists(campaign: Campaign) -> None:
    """Each campaign runs a module of the tests."""
    assert find_spec(campaign.words(1)[0])


@pytest.mark.parametrize("campaign", CAMPAIGNS, ids=lambda campaign: campaign.name)
def test_the_code_that_it_tests_exists(campaign: Campaign) -> None:
    """A change of each package is noticed."""
    digests = [progress.digest(campaign.packages[:count]) for count in range(4)]
    assert len(set(digests)) == 1 + min(3, len(campaign.packages))


def test_the_page_has_what_was_done() -> None:
    """The table of the documentation is that of the file."""
    page = (ROOT / "docs" / "reliability.md").read_text("utf-8")
    for row in table(progress.ReleaseProgress().done):
        assert row in page


@pytest.mark.usefixtures("file")
def test_it_runs_as_often_as_needed_and_goes_on() -> None:
    """Five things take three runs of two; a second call adds what a larger goal needs."""
    assert sorted(run(counting(5)).of(counting(0)).runs) == [0, 1, 2]
    assert run(counting(5)).of(counting(0)).count == 6
    assert sorted(run(counting(8)).of(counting(0)).runs) == [0, 1, 2, 3]


@pytest.mark.usefixtures("file")
def test_other_source_starts_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was done with other code says nothing about this one."""
    run(counting(2))
    monkeypatch.setattr(progress, "digest", lambda _: "other")
    assert progress.ReleaseProgress().of(counting(0)).count == 0


def test_a_failed_run_ends_it(file: Path) -> None:
    """The message has the command, and the output is kept."""
    with pytest.raises(ExceptionGroup) as caught:
        run(counting(2, "1/0"))
    (failure,) = caught.value.exceptions
    assert isinstance(failure, RunFailed)
    assert "python -m timeit -n1 1/0: exit code 1" in str(failure)
    assert "ZeroDivisionError" in file.with_name("release-counting-0.log").read_text()


@pytest.mark.usefixtures("file")
@run_async
async def test_sigterm_ends_it_and_its_runs(tmp_path: Path) -> None:
    """What was not finished has to be done again."""
    path, done = tmp_path / "process", progress.ReleaseProgress()
    code = f"import os, time; open({str(path)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    release = Release([counting(2, code)], done, Progress(console=Console(quiet=True)))
    task = asyncio.create_task(release.run(jobs=1))
    process = int(await wait_until_async(lambda: path.exists() and path.read_text()))
    os.kill(os.getpid(), signal.SIGTERM)
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)
    assert done.of(counting(0)).runs == []


@pytest.mark.campaign
def test_a_short_soak() -> None:
    """Half a day of a hundred machines."""
    soak.run(machines=100, hours=12, seed=1)
