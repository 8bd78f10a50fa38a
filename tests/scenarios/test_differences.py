"""The first difference of a run, and how it is described."""

import re

import pytest

from fairwarning.testing.scenarios import read
from tests.scenarios.scenario_builder import difference, run_steps

pytestmark = pytest.mark.spec("O6")

RESTART = 'do = "restart"\nmachine = "db_0"\nas = "it"'

EXPECTED = """\
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


def test_the_text_of_a_difference() -> None:
    """It has the place, the time, both values, the document of the machine and the journal."""
    actual = difference(
        RESTART,
        'at = "15m"\nexpect = { machine = "db_0", type = "Reboot", status = "Scheduled" }',
        'expect = { machine = "db_0", status = "Started" }',
    )
    text = "\n".join(actual.lines())
    before_journal, _, journal = text.partition("  journal ")
    assert re.sub(r"[0-9A-F]{8}(-[0-9A-F]{4}){3}-[0-9A-F]{12}", "ID", before_journal) == EXPECTED
    times = [line.split()[0] for line in journal.splitlines()]
    assert set(times) == {"0s", "15m"}
    assert re.search(r"^ +15m  db: Started ", journal, re.MULTILINE)


def test_a_run_stops_at_the_first_difference() -> None:
    """The steps after the first difference do not run."""
    result = run_steps(
        'expect = { machine = "spot", events = 0 }',
        'at = "1m"\nexpect = { machine = "spot", events = 1 }',
        'at = "2m"\nexpect = { machine = "spot", events = 2 }',
    )
    assert (result.passed, result.done, result.seconds) == (False, 1, 60)
    assert result.line.startswith("FAILED  my: step 2 of 3, 1m of virtual time in ")


@pytest.mark.parametrize(
    ("step", "place", "expected", "found"),
    [
        ('expect = { machine = "db_1", type = "Reboot" }', "expect, type",
         "machine db_1: type 'Reboot'", "it has no event"),
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
         "machine db_0: answer '500'", "its poll was answered: document"),
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
    """Expected and found values are described with the keys of the file."""
    actual = difference(RESTART, step)
    assert actual.place == f"my.toml: step 2 (line 20), {place}"
    assert (actual.expected, actual.found) == (expected, found)
    assert actual.journal


def test_the_closest_of_several_events_is_compared() -> None:
    """A machine may have two events; the difference is that of the best match."""
    recommend = 'do = "recommend"\nmachine = "spot"'
    restart = 'do = "restart"\nmachine = "spot"'
    expected = 'type = "Reboot", source = "User", not_before = "10m"'
    actual = difference(recommend, restart, f'expect = {{ machine = "spot", {expected} }}')
    assert (actual.expected, actual.found) == ("machine spot: not_before '10m'", "'15m'")


def test_a_refused_object_does_not_exist() -> None:
    """An expectation about a refused rollout or operation fails."""
    rollout = 'do = "rollout"\nrollout = "r"\nby_host = true\nrefused = "NoHost"'
    actual = difference(rollout, 'expect = { rollout = "r", done = 0 }')
    assert actual.found == "rollout 'r' does not exist: it was refused"
    evict = 'do = "evict"\nmachine = "db_0"\nas = "e"\nrefused = "NotSpot"'
    actual = difference(evict, 'expect = { operation = "e", status = "Failed" }')
    assert actual.found == "operation 'e' does not exist: it was refused"


def test_a_deleted_machine() -> None:
    """The difference shows the answer to its poll instead of a document."""
    actual = difference(
        'do = "delete"\nmachine = "spot"',
        'at = "1m"\nexpect = { machine = "spot", power = "running" }',
    )
    assert (actual.expected, actual.found) == ("machine spot: power 'running'", "'gone'")
    assert "404" in actual.document[0]
    actual = difference(
        'do = "delete"\nset = "web"', 'at = "1h"\nexpect = { set = "web", machines = [] }'
    )
    assert actual.found == "'the set is gone'"


def test_steps_written_as_an_inline_array() -> None:
    """TOML allows it; the place then has no line number."""
    text = 'fleet.machine = [{ name = "a" }]\nstep = [{ expect = { machine = "a", events = 0 } }]'
    assert read(text).steps[0].place == "step 1"
