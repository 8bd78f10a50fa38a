"""The map of the fleet: a square for each machine, and the same in numbers."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from html import unescape
from urllib.parse import quote_plus

import pytest

from fairwarning.console.page import fleet_map
from fairwarning.service.tokens import Role
from tests.console.test_page import Browser
from tests.fixtures.console import ConsoleHarness

pytestmark = pytest.mark.spec("O8", "O14")

PART = re.compile(r'<li data-key="(\d+) ([^"]*)"><a href="([^"]*)">(.*?)</li>', re.DOTALL)
PATH = re.compile(r'<path class="([^"]*)" d="([^"]*)"/>')
LENGTH = re.compile(r"h(\d+)")
ROW = re.compile(r'<tr><th scope="row"><a href="[^"]*">(.*?)</a>(.*)')
CELL = re.compile(r"<td>([\d,]+)")


@pytest.fixture
def console() -> Iterator[ConsoleHarness]:
    """A scale set that polls, an availability set that does not, and standalone machines."""
    with ConsoleHarness() as harness:
        harness.created("sets", name="web", capacity=23)
        harness.created("sets", name="api", capacity=4)
        harness.created("machines", name="vm", count=3)
        harness.poll("web_0", "vm_0")
        yield harness


def parts(text: str) -> dict[str, list[str]]:
    """The drawings of each group."""
    found: dict[str, list[str]] = {}
    for _, key, _, drawing in PART.findall(text):
        found.setdefault(unescape(key), []).append(drawing)
    return found


def drawn(text: str) -> dict[str, Counter[str]]:
    """How many squares of each state each group has, by the length of its lines."""
    return {
        key: sum(
            (
                Counter({state: sum(map(int, LENGTH.findall(lines)))})
                for drawing in drawings
                for state, lines in PATH.findall(drawing)
            ),
            Counter[str](),
        )
        for key, drawings in parts(text).items()
    }


def machine_at(browser: Browser, group: str, place: int, q: str = "") -> str:
    """The name and state of the machine at a place of a group."""
    text = browser.text(f"/map/machine?q={q}&group={quote_plus(group)}&place={place}")
    found = re.search(r"<b>(.*?)</b></a> <span>(.*?)</span>", text)
    assert found
    return unescape(f"{found[1]} {found[2]}")


def test_each_machine_is_a_square_in_its_state(console: ConsoleHarness) -> None:
    """Also while events are scheduled and carried out, and after an impact has failed."""
    browser = Browser(console)
    assert drawn(browser.text("/map")) == {
        "set api": {"no-polls": 4},
        "set web": {"running": 23},
        "standalone": {"running": 1, "no-polls": 2},
    }
    console.act("web_3", "restart")
    console.act("vm_2", "stop")
    assert drawn(browser.text("/map"))["standalone"] == {"running": 1, "no-polls": 1, "impact": 1}
    console.advance(60)
    console.settle()
    shown = drawn(browser.text("/map"))
    assert shown["set web"] == {"running": 22, "notice": 1}
    assert shown["standalone"] == {"running": 1, "no-polls": 1, "stopped": 1}
    event = console.ok("GET", "/api/events?machine=web_3")["events"][0]["id"]
    console.driver.fail = "no such disk"
    console.ok("POST", f"/api/events/{event}/approve")
    assert drawn(browser.text("/map"))["set web"] == {"running": 22, "impact": 1}
    console.advance(600)
    console.settle()
    assert drawn(browser.text("/map"))["set web"] == {"running": 22, "failed": 1}
    console.driver.fail = ""
    console.act("web_3", "stop")  # without notice: the machine does something else
    assert drawn(browser.text("/map"))["set web"]["failed"] == 0


def test_a_place_names_its_machine(console: ConsoleHarness) -> None:
    """Machines are drawn by update domain, then in the order of their creation."""
    console.act("web_7", "restart")
    console.settle()
    browser = Browser(console)
    (drawing,) = parts(browser.text("/map"))["set web"]
    assert 'data-domains="5,5,5,4,4"' in drawing
    names = [machine_at(browser, "set web", place) for place in range(23)]
    assert names[:6] == [*(f"web_{n} running" for n in (0, 5, 10, 15, 20)), "web_1 running"]
    assert names[names.index("web_2 running") + 1] == "web_7 notice"
    assert len(set(names)) == 23
    for query in ("group=set+web&place=23", "group=nothing&place=0", "group=standalone&place=3"):
        assert browser.get(f"/map/machine?{query}").status == 404
    assert browser.get("/map/machine?group=set+web&place=x").status == 400


def test_the_table_has_the_same_numbers(console: ConsoleHarness) -> None:
    """For readers of screens; the drawings have them as labels too."""
    browser = Browser(console, Role.READER)
    table = {
        name: [int(cell) for cell in CELL.findall(cells)]
        for name, cells in ROW.findall(browser.text("/map?view=table").replace("<tr>", "\n<tr>"))
    }
    assert table == {
        "api": [4, 0, 0, 0, 0, 0, 4],
        "web": [23, 23, 0, 0, 0, 0, 0],
        "Standalone machines": [3, 1, 0, 0, 0, 0, 2],
    }
    text = browser.text("/map")
    assert 'aria-label="1 running, 2 no polls"' in text
    assert list(parts(browser.text("/map?q=W"))) == ["set web"]
    assert "No group matches" in browser.text("/map?q=nothing")


def test_only_what_has_changed_is_drawn_again(
    console: ConsoleHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change of a machine costs the drawing of its group."""
    again: list[int] = []
    draw = fleet_map.draw

    def recorded(squares: Sequence[fleet_map.Square], columns: int) -> dict[str, object]:
        again.append(len(squares))
        return draw(squares, columns)

    monkeypatch.setattr(fleet_map, "draw", recorded)
    browser = Browser(console)
    first = drawn(browser.text("/map"))
    assert sorted(again) == [3, 4, 23]
    assert drawn(browser.text("/map")) == first
    assert len(again) == 3
    console.act("web_3", "restart")
    browser.text("/map")
    assert again[3:] == [23]


@pytest.mark.parametrize("name", ["a?b#c", "d'e\"<f>", "x><script>", "ü&ö"])
def test_any_name_is_only_text(name: str) -> None:
    """Names may contain any printable character: they are escaped, and their links work."""
    with ConsoleHarness() as console:
        console.created("sets", name=name, capacity=2)
        browser = Browser(console)
        text = browser.text("/map")
        ((first, key, link, _),) = PART.findall(text)
        assert (first, unescape(key)) == ("0", f"set {name}")
        assert name in unescape(text)
        assert not re.search(r"<f>|<script>", text)
        assert f"{name}_1" in unescape(browser.text(unescape(link)))
        assert machine_at(browser, f"set {name}", 1) == f"{name}_1 no polls"
        assert not re.search(r"<f>|<script>", browser.text("/map?view=table"))


def test_many_groups_are_drawn_together(
    console: ConsoleHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond a number of groups the smaller ones share a block; beyond a number, none is drawn."""
    monkeypatch.setattr(fleet_map, "GROUPS", 1)
    browser = Browser(console)
    text = browser.text("/map")
    assert drawn(text) == {"set web": {"running": 23}, "others": {"running": 1, "no-polls": 6}}
    assert "2 smaller groups" in text
    assert machine_at(browser, "others", 6) == "vm_2 no polls"
    monkeypatch.setattr(fleet_map, "MACHINES", 25)
    text = browser.text("/map")
    assert {key: count.total() for key, count in drawn(text).items()} == {
        "set web": 23,
        "others": 2,
    }
    assert "5 more machines, not drawn" in text


def test_a_place_of_a_filtered_map(
    console: ConsoleHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It names the machine that is drawn there, whatever other maps were drawn since."""
    monkeypatch.setattr(fleet_map, "GROUPS", 1)
    console.created("sets", name="apx", capacity=2)
    browser = Browser(console)
    *_, group = parts(browser.text("/map?q=ap"))
    *_, every = parts(browser.text("/map"))
    assert machine_at(browser, group, 1, q="ap") == "apx_1 no polls"
    assert machine_at(browser, every, 1) == "api_1 no polls"
    assert machine_at(browser, group, 1, q="ap") == "apx_1 no polls"


def test_ten_thousand_machines_are_less_than_100_kb() -> None:
    """Without compression, while one machine in ten has an event."""
    with ConsoleHarness() as console:
        for number in range(100):
            console.ok("POST", "/api/sets", {"name": f"set{number}", "capacity": 100})
        console.learn_addresses()
        console.poll(*(f"set{number}_0" for number in range(100)))
        for number in range(100):
            instances = {"instances": list(range(0, 100, 10))}
            console.ok("POST", f"/api/sets/set{number}/restart", instances)
        console.settle()
        text = Browser(console).text("/map")
        assert sum((counts for counts in drawn(text).values()), Counter[str]()) == {
            "running": 9000,
            "notice": 1000,
        }
        assert len(text.encode()) < 100_000
