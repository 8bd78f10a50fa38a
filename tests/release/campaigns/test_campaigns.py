"""The campaigns of a release: their commands exist, and they continue where they stopped."""

import asyncio
from importlib.util import find_spec
from pathlib import Path

import pytest

import fairwarning
from tests.release.campaigns import progress, soak
from tests.release.campaigns.__main__ import Release
from tests.release.campaigns.plan import CAMPAIGNS, ENGINE, Campaign, Done


@pytest.fixture(autouse=True)
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A page of what was done, for one test."""
    path = tmp_path / "page.md"
    path.write_text(progress.with_figures(progress.PAGE.read_text("utf-8"), {}), "utf-8")
    monkeypatch.setattr(progress, "PAGE", path)
    return path


def run(campaign: Campaign, monkeypatch: pytest.MonkeyPatch) -> progress.ReleaseProgress:
    """Run a campaign with two jobs, from what was saved."""
    monkeypatch.setattr(progress, "CAMPAIGNS", (campaign,))
    done = progress.ReleaseProgress()
    asyncio.run(Release([campaign], done).run(jobs=2))
    return done


def counting(goal: int) -> Campaign:
    """Return a campaign whose runs do nothing and count as two."""
    return Campaign("counting", "things", goal, 2, ENGINE, lambda _: ("timeit", "-n1"))


@pytest.mark.parametrize("campaign", CAMPAIGNS, ids=lambda campaign: campaign.name)
def test_a_command_exists(campaign: Campaign) -> None:
    """Each campaign runs a module of the tests."""
    assert find_spec(campaign.words(1)[0])


@pytest.mark.parametrize("campaign", CAMPAIGNS, ids=lambda campaign: campaign.name)
def test_the_code_that_it_tests_exists(campaign: Campaign) -> None:
    """A change of each package is noticed."""
    digests = [progress.digest(campaign.packages[:count]) for count in range(4)]
    assert len(set(digests)) == 1 + min(3, len(campaign.packages))


def test_the_figures_are_written_to_the_page() -> None:
    """The page gets the version and a row for each campaign; the rest of it stays as it is."""
    text = progress.PAGE.read_text("utf-8")
    runs = [0, 1, 2, 7, 9, 10]
    done = {campaign: Done("1a2b", runs, campaign.goal, 72.0) for campaign in CAMPAIGNS}
    written = progress.with_figures(text, done)
    assert f"found nothing in version {fairwarning.__version__}:" in written
    assert progress.with_figures(written, done) == written
    assert progress.read(written) == {campaign.name: part for campaign, part in done.items()}
    assert text.partition("## At a release")[0] == written.partition("## At a release")[0]
    done[CAMPAIGNS[0]].count -= 1
    unfinished = progress.with_figures(written, done)
    assert f"have found nothing in version {fairwarning.__version__} so far:" in unfinished


def test_it_runs_as_often_as_needed_and_continues(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five things take three runs of two; a second call adds what a larger goal needs."""
    assert sorted(run(counting(5), monkeypatch).of(counting(0)).runs) == [0, 1, 2]
    assert run(counting(5), monkeypatch).of(counting(0)).count == 6
    assert sorted(run(counting(8), monkeypatch).of(counting(0)).runs) == [0, 1, 2, 3]
    text = copy.read_text("utf-8")
    assert "| counting | 8 | 8 | things | 0.00 | 0-3 |" in text
    copy.write_text(text.replace(progress.digest(ENGINE), "other code"), "utf-8")
    assert run(counting(2), monkeypatch).of(counting(0)).runs == [0]


@pytest.mark.campaign
def test_a_short_soak() -> None:
    """Half a day of a hundred machines."""
    soak.run(machines=100, hours=12, seed=1)
