"""Takes the screenshots of the documentation: `python -m tests.real.screenshots`."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.real.browser import (
    PHONE,
    SCREENSHOT_FLEET,
    WIDE,
    BrowserHarness,
    Scheme,
    advance,
    browser_harness,
    event_of,
    fill_timeline,
)
from tests.real.test_large_fleet import announce, fleet

FOLDER = Path("docs/images")

Screenshot = tuple[str, str, tuple[int, int], Scheme]
"""The name of the image, the path of the page, the size of the window, and the colours."""

LARGE: Sequence[Screenshot] = (
    ("large-fleet", "/", WIDE, "light"),
    ("large-fleet-phone", "/", PHONE, "dark"),
    ("large-events", "/events", WIDE, "dark"),
    ("large-events-phone", "/events", PHONE, "light"),
    ("large-map", "/map", WIDE, "light"),
    ("large-map-phone", "/map", PHONE, "dark"),
    ("large-timeline", "/timeline", WIDE, "dark"),
    ("large-timeline-phone", "/timeline", PHONE, "light"),
)


def take(harness: BrowserHarness, screenshots: Sequence[Screenshot]) -> None:
    """Write an image of each page."""
    for name, path, size, scheme in screenshots:
        tab = harness.open(harness.context(size, scheme), path)
        tab.screenshot(path=FOLDER / f"{name}.png")
        tab.context.close()


def fill(harness: BrowserHarness) -> None:
    """Create 500 events, of which one in ten is approved and in progress."""
    for event in announce(harness)[::10]:
        harness.service.ok("POST", f"/api/events/{event['id']}/approve", {})
    advance(harness.tab("/"), "0.5")


def main() -> None:
    """Take them of a small fleet, and of one with ten thousand machines."""
    with TemporaryDirectory() as name:
        with browser_harness(Path(name) / "small", SCREENSHOT_FLEET) as harness:
            page = fill_timeline(harness)
            small: Sequence[Screenshot] = (
                ("page-light", "/", WIDE, "light"),
                ("page-dark", "/", WIDE, "dark"),
                ("page-phone", "/", PHONE, "light"),
                ("page-event", event_of(page, "web_2"), WIDE, "light"),
                ("page-rollout", "/rollouts/patches", WIDE, "dark"),
            )
            take(harness, small)
        with browser_harness(Path(name) / "large", fleet()) as harness:
            fill(harness)
            take(harness, LARGE)


if __name__ == "__main__":
    main()
