"""What the campaigns of a release have done, so that they continue after an interruption."""

import hashlib
from pathlib import Path

from tests.fixtures.programs import ROOT
from tests.release.campaigns import page
from tests.release.campaigns.plan import CAMPAIGNS, Campaign, Done

FOLDER = ROOT / ".local" / "release"
"""Of the outputs of failed runs."""
_SOURCE = ROOT / "src" / "fairwarning"
_DIGITS = 12  # of a digest


class ReleaseProgress:
    """What was done of each campaign, as the page says."""

    def __init__(self) -> None:
        self._done = page.read(page.PAGE.read_text("utf-8"))

    def of(self, campaign: Campaign) -> Done:
        """Return what was done of a campaign; nothing if the code that it tests has changed."""
        source = digest(campaign.packages)
        done = self._done.get(campaign.name)
        if done is None or done.source != source:
            self._done[campaign.name] = done = Done(source)
        return done

    def add(self, campaign: Campaign, run: int, count: int, seconds: float) -> None:
        """Add a run, and write the page."""
        done = self.of(campaign)
        done.runs.append(run)
        done.count += count
        done.seconds += seconds
        text = page.PAGE.read_text("utf-8")
        part = page.PAGE.with_suffix(".part")
        part.write_text(page.with_figures(text, self.all()), "utf-8")
        part.replace(page.PAGE)

    def all(self) -> dict[Campaign, Done]:
        """Return what was done of each campaign."""
        return {campaign: self.of(campaign) for campaign in CAMPAIGNS}


def digest(packages: tuple[str, ...]) -> str:
    """Return a digest of the source that these patterns match, with all in their folders."""
    hashed = hashlib.sha256()
    matches = {match for package in packages for match in _SOURCE.glob(package)}
    paths = {path for match in matches for path in (match, *match.rglob("*"))}
    for path in sorted(path for path in paths if path.suffix in {".py", ".sql"}):
        hashed.update(f"{path.relative_to(_SOURCE).as_posix()}\n".encode() + path.read_bytes())
    return hashed.hexdigest()[:_DIGITS]


def path_of_output(campaign: str, run: int) -> Path:
    """Return where the output of a failed run is kept."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    return FOLDER / f"{campaign}-{run}.log"
