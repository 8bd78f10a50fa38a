"""The figures of a release in `docs/reliability.md`, which the campaigns write themselves."""

import re
from collections.abc import Mapping

import fairwarning
from tests.fixtures.programs import ROOT
from tests.release.campaigns.plan import Campaign
from tests.release.campaigns.progress import Done

PAGE = ROOT / "docs" / "reliability.md"
_BEGIN = "<!-- Written by `make test-release`; do not edit by hand. -->\n"
_END = "<!-- The end of what `make test-release` writes. -->\n"


def rows(done: Mapping[Campaign, Done]) -> list[str]:
    """Return a row for each campaign of which something was done."""
    return [
        f"| {part.count:,} {campaign.unit} | {part.seconds / 3600:.1f} |"
        for campaign, part in done.items()
        if part.count
    ]


def with_figures(text: str, done: Mapping[Campaign, Done]) -> str:
    """Return the text of the page with these figures, as those of the present version."""
    lines = [
        _BEGIN,
        f"The campaigns found nothing in version {fairwarning.__version__}:",
        "",
        "| done | hours of a core |",
        "|---|---|",
        *rows(done),
        "",
        _END,
    ]
    pattern = re.escape(_BEGIN) + ".*" + re.escape(_END)
    text, count = re.subn(pattern, lambda _: "\n".join(lines), text, flags=re.DOTALL)
    assert count == 1, f"{PAGE} has no place for the figures"
    return text


def write(done: Mapping[Campaign, Done]) -> None:
    """Write the figures to the page."""
    PAGE.write_text(with_figures(PAGE.read_text("utf-8"), done), "utf-8")
