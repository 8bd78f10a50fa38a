"""The first difference, and how it is told."""

import re

import pytest

from fairwarning.testing.scenarios import read
from tests.scenarios.scenario_builder import difference, verdict

pytestmark = pytest.mark.spec("O6")

RESTART = 'do = "restart"\nmachine = "db_0"\nas = "it"'

TOLD = """\
my.toml: step 2 (line 20), expect, status
  at        15m
  expected  machine db_0: status 'Scheduled'
  found     'Started'
  document  DocumentIncarnation 3
            {"EventId":"ID","EventStatus":"Started","EventType":"Reboot",\
"ResourceType":"VirtualMachine","Resources":["db_0"],"NotBefore":"",\
"Description":"Virtual machine is going to be restarted as requested by authorized user.",\
"EventSource":"User","DurationInSeconds":-1}
"""


def test_a_difference_is_told_whole() -> None:
    """Where in the file, when, what was expected and found, what the machine reads, what was."""
    found = difference(
        RESTART,
        'at = "15m"\nexpect = { machine = "db_0", type = "Reboot", status = "Scheduled" }',
        'expect = { machine = "db_0", status = "Started" }',
    )
    text = "\n".join(found.lines())
    told, _, journal = text.partition("  journal ")
    assert re.sub(r"[0-9A-F]{8}(-[0-9A-F]{4}){3}-[0-9A-F]{12}", "ID", told) == TOLD
    times = [line.split()[0] for line in journal.splitlines()]
    assert set(times) == {"0s", "15m"}
    assert re.search(r"^ +15m  db: Started ", journal, re.MULTILINE)


def test_it_stops_there() -> None:
    """Nothing after the first difference is done."""
    found = verdict(
        'expect = { machine = "spot", events = 0 }',
        'at = "1m"\nexpect = { machine = "spot", events = 1 }',
        'at = "2m"\nexpect = { machine = "spot", events = 2 }',
    )
    assert (found.passed, found.done, found.seconds) == (False, 1, 60)
    assert found.line.startswith("FAILED  my: step 2 of 3, 1m of virtual time in ")


@pytest.mark.parametrize(
    ("step", "place", "expected", "found"),
    [
        ('expect = { machine = "db_1", type = "Reboot" }', "expect, type",
         "machine db_1: type 'Reboot'", "nothing is announced for it"),
        ('expect = { machine = "db_0", events = 2 }', "expect, events",
         "machine db_0: events 2", "1"),
        ('expect = { machine = ["spot", "db_1", "db_0"], sees = [] }', "expect, sees",
         "machine db_1: sees []", "['Reboot']"),
        ('expect = [{ machine = "db_0", events = 1 }, { machine = "db_0", not_before = "1d" }]',
         "expect, 2, not_before", "machine db_0: not_before '1d'", "'15m'"),
        ('expect = { machine = "db_0", not_before = "" }', "expect, not_before",
         "machine db_0: not_before ''", "'15m'"),
        ('expect = { machine = "db_0", duration = "5s" }', "expect, duration",
         "machine db_0: duration '5s'", "'unknown'"),
        ('expect = { machine = "db_0", resources = ["db_0", "db_1"] }', "expect, resources",
         "machine db_0: resources ['db_0', 'db_1']", "['db_0']"),
        ('expect = { machine = "db_0", gone = true }', "expect, gone",
         "machine db_0: gone true", "false"),
        ('expect = { machine = "db_0", power = "stopped" }', "expect, power",
         "machine db_0: power 'stopped'", "'running'"),
        ('expect = { machine = "db_0", history = ["reboot"] }', "expect, history",
         "machine db_0: history ['reboot']", "[]"),
        ('expect = { machine = "db_0", incarnation = 1 }', "expect, incarnation",
         "machine db_0: incarnation 1", "2"),
        ('expect = { machine = "db_0", answer = "500" }', "expect, answer",
         "machine db_0: answer '500'", "its poll met: document"),
        ('expect = { machine = "web_9", events = 0 }', "expect, events",
         "machine web_9: events 0", "there is no machine 'web_9'"),
        ('expect = { set = "web", machines = ["web_0"] }', "expect, machines",
         "set web: machines ['web_0']", "['web_0', 'web_1', 'web_2']"),
        ('expect = { set = "web", gone = true }', "expect, gone", "set web: gone true", "false"),
        ('expect = { operation = "it", status = "Succeeded" }', "expect, status",
         "operation it: status 'Succeeded'", "'InProgress'"),
        ('do = "evict"\nmachine = "db_0"', "do", "evict is accepted",
         "refused: NotSpot, 'db_0' has priority Regular; this is for Spot machines"),
        ('do = "evict"\nmachine = "spot"\nrefused = "NotSpot"', "do",
         "evict is refused: NotSpot", "accepted"),
        ('do = "scale"\nset = "web"\ncapacity = 0\nrefused = "Whatever"', "do",
         "scale is refused: Whatever", "accepted"),
    ],
)  # fmt: skip
def test_each_kind_of_difference(step: str, place: str, expected: str, found: str) -> None:
    """What was expected and what was found, in the file's own words."""
    told = difference(RESTART, step)
    assert told.place == f"my.toml: step 2 (line 20), {place}"
    assert (told.expected, told.found) == (expected, found)
    assert told.journal


def test_of_several_events_the_nearest_is_told() -> None:
    """A machine may have two: the one that fits best is compared."""
    recommend = 'do = "recommend"\nmachine = "spot"'
    restart = 'do = "restart"\nmachine = "spot"'
    wanted = 'type = "Reboot", source = "User", not_before = "10m"'
    told = difference(recommend, restart, f'expect = {{ machine = "spot", {wanted} }}')
    assert (told.expected, told.found) == ("machine spot: not_before '10m'", "'15m'")


def test_what_was_refused_is_not_there() -> None:
    """A rollout or an operation that was refused can be expected nothing of."""
    rollout = 'do = "rollout"\nrollout = "r"\nby_host = true\nrefused = "NoHost"'
    told = difference(rollout, 'expect = { rollout = "r", done = 0 }')
    assert told.found == "the rollout 'r' was refused, so there is none"
    evict = 'do = "evict"\nmachine = "db_0"\nas = "e"\nrefused = "NotSpot"'
    told = difference(evict, 'expect = { operation = "e", status = "Failed" }')
    assert told.found == "'e' was refused, so there is no operation"


def test_a_machine_that_is_gone() -> None:
    """Its document is what it would be answered; its end is in the journal."""
    told = difference(
        'do = "delete"\nmachine = "spot"',
        'at = "1m"\nexpect = { machine = "spot", power = "running" }',
    )
    assert (told.expected, told.found) == ("machine spot: power 'running'", "'gone'")
    assert "404" in told.document[0]
    told = difference(
        'do = "delete"\nset = "web"',
        'at = "1h"\nexpect = { set = "web", machines = [] }',
    )
    assert told.found == "'the set is gone'"


def test_steps_that_are_written_in_a_line() -> None:
    """TOML allows it; then the place has no line."""
    text = 'fleet.machine = [{ name = "a" }]\nstep = [{ expect = { machine = "a", events = 0 } }]'
    assert read(text).steps[0].place == "step 1"
