"""The figures of a release in `docs/reliability.md`. The campaigns write them, and read them again.

So a release can be tested on several machines, one after the other: commit the page in between.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

import fairwarning
from tests.fixtures.programs import ROOT
from tests.release.campaigns.plan import Campaign, Done

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
