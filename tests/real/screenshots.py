"""Takes the screenshots of the documentation: `python -m tests.real.screenshots`."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.real.browser import PHONE, WIDE, BrowserHarness, Scheme, browser_harness
from tests.real.test_large_fleet import fill, fleet

FOLDER = Path("docs/images")

FLEET = """
[[scale_set]]
name = "web"
capacity = 12
terminate_notice = "PT10M"

[[availability_set]]
name = "db"
machines = 3

[[machine]]
name = "batch"
count = 5
priority = "Spot"
eviction = "Delete"

[[cloud_service]]
name = "legacy"
roles = { FrontEnd = 2 }
"""

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


def fill_timeline(harness: BrowserHarness) -> None:
    """Create half an hour of events of every kind on the timeline."""
    for machine in ("web_0", "db_0", "batch_0", "FrontEnd_IN_0"):
        harness.poll(machine)
    harness.act("machines/batch_0/evict")
    harness.act("machines/FrontEnd_IN_1/redeploy")
    harness.service.advance(12 * 60)
    harness.act("machines/web_5/restart")
    harness.act("rollouts", id="patches", scopes=["db"])
    harness.service.advance(4 * 60)
    harness.act(f"events/{harness.event_of('web_5')}/cancel")
    harness.service.advance(9 * 60)
    harness.act("machines/web_2/restart")
    harness.act("sets/web/scale", capacity=10)
    harness.act("machines/web_7/redeploy")
    harness.service.advance(3 * 60)
    harness.act(f"events/{harness.event_of('web_7')}/approve")
    harness.service.advance(2 * 60)
    harness.act("machines/db_2/degrade")
    harness.poll("web_2")
    harness.poll("web_3")


def take(harness: BrowserHarness, screenshots: Sequence[Screenshot]) -> None:
    """Write an image of each page."""
    for name, path, size, scheme in screenshots:
        tab = harness.open(harness.context(size, scheme), path)
        tab.screenshot(path=FOLDER / f"{name}.png")
        tab.context.close()


def main() -> None:
    """Take them of a small fleet, and of one with ten thousand machines."""
    with TemporaryDirectory() as name:
        with browser_harness(Path(name) / "small", FLEET) as harness:
            fill_timeline(harness)
            small: Sequence[Screenshot] = (
                ("page-light", "/", WIDE, "light"),
                ("page-dark", "/", WIDE, "dark"),
                ("page-phone", "/", PHONE, "light"),
                ("page-event", f"/events/{harness.event_of('web_2')}", WIDE, "light"),
                ("page-rollout", "/rollouts/patches", WIDE, "dark"),
            )
            take(harness, small)
        with browser_harness(Path(name) / "large", fleet()) as harness:
            fill(harness)
            harness.service.advance(30)
            take(harness, LARGE)


if __name__ == "__main__":
    main()
