"""The campaigns of a release: their commands exist, and the page has their figures."""

from importlib.util import find_spec

import pytest

import fairwarning
from tests.release.campaigns import progress, soak
from tests.release.campaigns.plan import CAMPAIGNS, Campaign, Done


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


@pytest.mark.campaign
def test_a_short_soak() -> None:
    """Half a day of a hundred machines."""
    soak.run(machines=100, hours=12, seed=1)
