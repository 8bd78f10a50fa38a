"""What the campaigns of a release have done, so that they continue after an interruption.

They write the figures to `docs/reliability.md`, and read them again. So a release can be tested on
several machines, one after the other: commit the page in between.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import fairwarning
from tests.fixtures.programs import ROOT
from tests.release.campaigns.plan import CAMPAIGNS, Campaign, Done

PAGE = ROOT / "docs" / "reliability.md"
_BEGIN = "<!-- Written by `make test-release`; do not edit by hand. -->\n"
_END = "<!-- The end of what `make test-release` writes. -->\n"
_FIGURES = re.compile(re.escape(_BEGIN) + "(.*)" + re.escape(_END), re.DOTALL)
_ROW = re.compile(
    r"^\| (\w+) \| ([\d,]+) \| [\d,]+ \| [^|]* \| ([\d.]+) \| ([\d, -]+) \| (\w+) \|$", re.MULTILINE
)
_HEAD = """\
| campaign | done | of | | hours of a core | runs | code |
|---|--:|--:|---|--:|---|---|
"""
FOLDER = ROOT / ".local" / "release"
"""Of the outputs of runs that have not ended well."""
_SOURCE = ROOT / "src" / "fairwarning"
_DIGITS = 12  # of a digest


class ReleaseProgress:
    """What was done of each campaign, as the page says."""

    def __init__(self) -> None:
        self._done = read(PAGE.read_text("utf-8"))

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
        text = PAGE.read_text("utf-8")
        part = PAGE.with_suffix(".part")
        part.write_text(with_figures(text, self.all()), "utf-8")
        part.replace(PAGE)

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
    """Return where the output of a run is until it has ended well."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    return FOLDER / f"{campaign}-{run}.log"


# --- The page -------------------------------------------------------------------------------------


def read(text: str) -> dict[str, Done]:
    """Return what was done of each campaign, by its name, from the text of the page."""
    found = _FIGURES.search(text)
    assert found, f"{PAGE} has no place for the figures"
    return {
        name: Done(source, list(_numbers(runs)), int(count.replace(",", "")), float(hours) * 3600)
        for name, count, hours, runs, source in _ROW.findall(found[1])
    }


def with_figures(text: str, done: Mapping[Campaign, Done]) -> str:
    """Return the text of the page with these figures, as those of the present version."""
    complete = all(part.count >= campaign.goal for campaign, part in done.items())
    lines = [
        f"{_BEGIN}\nThe campaigns {'found' if complete else 'have found'} nothing in version "
        f"{fairwarning.__version__}{'' if complete else ' so far'}:\n\n{_HEAD}".rstrip("\n"),
        *(_row(campaign, part) for campaign, part in done.items() if part.count),
        f"\n{_END}",
    ]
    return _FIGURES.sub(lambda _: "\n".join(lines), text)


def _row(campaign: Campaign, part: Done) -> str:
    cells = (
        campaign.name, f"{part.count:,}", f"{campaign.goal:,}", campaign.unit,
        f"{part.seconds / 3600:.2f}", _ranges(part.runs), part.source,
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"


def _ranges(numbers: Iterable[int]) -> str:
    """Return numbers as text, such as `0-3, 7`."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and number == ranges[-1][-1] + 1:
            ranges[-1][1:] = [number]
        else:
            ranges.append([number])
    return ", ".join("-".join(map(str, ends)) for ends in ranges)


def _numbers(ranges: str) -> Iterator[int]:
    for ends in ranges.split(", "):
        first, _, last = ends.partition("-")
        yield from range(int(first), int(last or first) + 1)
