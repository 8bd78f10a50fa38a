"""What steps may do and expect, each kind by itself."""

import pytest

from fairwarning.core.errors import Refused
from fairwarning.testing.scenarios import play
from tests.scenarios.scenario_builder import FLEET, difference, passes, scenario, verdict

pytestmark = pytest.mark.spec("O6")


def expect(what: str, at: str = "") -> str:
    """A step that expects this."""
    return f'at = "{at}"\nexpect = {{ {what} }}' if at else f"expect = {{ {what} }}"


def do(word: str, keys: str, at: str = "") -> str:
    """A step that does this."""
    return "\n".join(filter(None, [f'at = "{at}"' if at else "", f'do = "{word}"', keys]))


@pytest.mark.parametrize(
    ("word", "keys", "event", "impact"),
    [
        ("restart", "", 'type = "Reboot", source = "User"', '"reboot"'),
        ("redeploy", "", 'type = "Redeploy", source = "User"', '"redeploy"'),
        ("freeze", "", 'type = "Freeze", duration = "9s"', '"freeze"'),
        ("freeze", 'lasts = "3s"', 'type = "Freeze", duration = "3s"', '"freeze"'),
        ("maintain", "", 'type = "Freeze", duration = "9s"', '"freeze"'),
        ("maintain", 'kind = "reboot"', 'type = "Reboot", source = "Platform"', '"reboot"'),
        ("maintain", 'kind = "redeploy"\nlasts = "1m"', 'duration = "1m"', '"redeploy"'),
        ("migrate", "", 'type = "Freeze", duration = "5s"', '"freeze"'),
        ("migrate", 'lasts = "PT7S"', 'type = "Freeze", duration = "7s"', '"freeze"'),
        ("evict", "", 'type = "Preempt", not_before = "30s"', '"evict"'),
        ("recommend", "", 'type = "SpotRebalanceRecommendation"', ""),
        ("fail", "", 'type = "Redeploy", status = "Started", not_before = ""', '"redeploy"'),
        ("degrade", 'ahead = "1h"', 'type = "Redeploy", not_before = "1h"', '"redeploy"'),
        ("degrade", "", 'type = "Redeploy", not_before = "10m"', '"redeploy"'),
        ("delete", "", "", '"delete"'),
        ("stop", "", "", '"stop"'),
        ("start", "", "", '"start"'),
        ("deallocate", "", "", '"deallocate"'),
        ("reimage", "", "", '"reimage"'),
    ],
)
def test_what_happens_to_machines(word: str, keys: str, event: str, impact: str) -> None:
    """Each is announced as the contract has it, or not at all, and then happens."""
    passes(
        do(word, f'machine = "spot"\nas = "it"\n{keys}'),
        expect(f'machine = "spot", {event or "events = 0"}'),
        expect(f'machine = "spot", events = 0, history = [{impact}]', at="8d"),
        expect('operation = "it", status = "Succeeded"'),
    )


def test_times_in_every_spelling() -> None:
    """Days to seconds, or ISO 8601; without one, at the moment of the step before."""
    written = ["0s", "90s", "1m30s", "PT2M", "1h", "1h0m5s", "P1D", "1d", "1d12h30m15s", "366d"]
    steps = [expect('machine = "spot", gone = false', at=one) for one in written]
    found = scenario(expect('set = "web", gone = false'), *steps)
    moments = [step.at_seconds for step in found.steps]
    assert moments == [0, 0, 90, 90, 120, 3600, 3605, 86400, 86400, 131415, 366 * 86400]


def test_approvals() -> None:
    """By the machine itself, or by another of its scope; not by a stranger."""
    passes(
        do("restart", 'machine = ["db_0", "db_1"]'),
        do("approve", 'machine = "spot"\nof = "db_0"\nrefused = "Answered"'),
        do("approve", 'machine = "db_1"\nof = ["db_0", "db_1"]'),
        expect('machine = ["db_0", "db_1"], status = "Started"'),
        do("approve", 'machine = "spot"\nrefused = "NothingAnnounced"'),
    )


def test_events_have_one_identity() -> None:
    """A name given to an event is that event's for good, and only its."""
    steps = [
        do("restart", 'machine = ["db_0", "db_1"]'),
        expect('machine = "db_0", event = "one"'),
        expect('machine = "db_1", event = "two"'),
        do("approve", 'machine = "db_0"'),
        expect('machine = "db_0", event = "one", status = "Started"'),
    ]
    passes(*steps)
    found = difference(*steps, expect('machine = "db_0", event = "two"'))
    assert (found.expected, found.found) == ("machine db_0: event 'two'", "'one'")
    found = difference(*steps, expect('machine = "db_0", event = "three"'))
    assert found.found == "'one'"
    again = [
        do("cancel", 'machine = "db_1"'),
        do("restart", 'machine = "db_1"'),
        expect('machine = "db_1", event = "two"'),
    ]
    assert difference(*steps, *again).found == "'another'"


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        ("404", "404"),
        ("410", "410"),
        ("429", "429"),
        ("500", "500"),
        ("empty", "empty"),
        ("control", "unreadable"),
        ("truncated", "none"),
        ("reset", "none"),
        ("delay", "document"),
    ],
)
def test_faults(kind: str, answer: str) -> None:
    """What a poll meets, for the machine alone, until it is used up or cleared."""
    passes(
        do("fault", f'kind = "{kind}"\nmachine = "db_0"\ncount = 2\ndelay = "0s"'),
        do("poll", 'machine = "db_0"'),
        expect('machine = "db_1", answer = "document"'),
        expect(f'machine = "db_0", answer = "{answer}"'),
        expect('machine = "db_0", answer = "document", sees = [], incarnation = 1'),
        do("fault", f'kind = "{kind}"\ndelay = "0s"'),
        expect(f'machine = ["db_0", "spot"], answer = "{answer}"'),
        do("clear_faults", ""),
        expect('machine = ["db_0", "spot"], answer = "document"'),
        do("fault", f'kind = "{kind}"\nlasts = "1m"\ndelay = "0s"'),
        expect(f'machine = "spot", answer = "{answer}"', at="59s"),
        expect('machine = "spot", answer = "document"', at="1m"),
    )


def test_sets() -> None:
    """They grow, shrink, change and end; whom they name may come into being on the way."""
    passes(
        do("scale", 'set = "web"\ncapacity = 4\nas = "grow"'),
        expect('set = "web", machines = ["web_0", "web_1", "web_2", "web_3"]'),
        expect('machine = "web_3", events = 0, power = "running"'),
        expect('operation = "grow", status = "Succeeded"'),
        do("update", 'set = "web"\nterminate_notice = "PT15M"\ntags = { team = "web" }'),
        do("upgrade", 'set = "web"'),
        do("protect", 'set = "web"\ninstances = [0, 1, 2, 3]'),
        do("protect", 'set = "web"\ninstances = [0]\nprotected = false'),
        do("scale", 'set = "web"\ncapacity = 3'),
        expect('machine = "web_0", type = "Terminate", not_before = "15m"'),
        do("delete", 'set = "web"\ninstances = [1, 2]'),
        expect('machine = ["web_1", "web_2"], type = "Terminate", not_before = "15m"'),
        expect('set = "web", machines = ["web_3"]', at="16m"),
        do("delete", 'set = "web"'),
        expect('set = "web", gone = true', at="40m"),
        expect('machine = "web_3", gone = true'),
    )


def test_rollouts() -> None:
    """Of machines' sets and of scale sets, a lane at a time if that is wanted."""
    passes(
        do("rollout", 'rollout = "r"\nmachine = "db_0"\nset = ["web"]\nbatch = 1\nlasts = "2s"'),
        expect('rollout = "r", status = "Running", machines = 5, done = 0'),
        expect('machine = "db_0", type = "Freeze", duration = "2s"'),
        expect('machine = ["db_1", "web_0"], events = 0'),
        do("pause", 'rollout = "r"'),
        do("pause", 'rollout = "r"\nrefused = "RolloutState"'),
        do("resume", 'rollout = "r"'),
        expect('rollout = "r", status = "Done", done = 5, failed = 0, skipped = 0', at="1d"),
        do("abort", 'rollout = "r"\nrefused = "RolloutState"'),
        do("rollout", 'rollout = "all"'),
        expect('rollout = "all", machines = 6'),
        do("abort", 'rollout = "all"'),
        expect('rollout = "all", status = "Aborted", done = 0'),
        do("rollout", 'rollout = "hosts"\nby_host = true\nrefused = "NoHost"'),
    )


def test_who_never_asks_is_not_told() -> None:
    """Until it asks; a whole set may be silent."""
    passes(
        do("restart", 'machine = "db_0"'),
        do("restart", 'machine = "web_0"'),
        do("restart", 'machine = "spot"'),
        expect('machine = "spot", events = 1'),
        expect('machine = ["db_0", "web_0"], events = 0, history = ["reboot"]'),
        do("poll", 'machine = ["db_0", "web_0"]\nversion = "2017-08-01"', at="2m"),
        do("restart", 'machine = ["db_0", "web_0"]'),
        expect('machine = ["db_0", "web_0"], events = 1, incarnation = 2'),
        expect('machine = ["db_0", "web_0"], events = 0, incarnation = 4', at="3d"),
        head='silent = ["db", "web"]',
    )


def test_machines_go_on_asking() -> None:
    """However long it takes, silence does not switch off what machines use."""
    passes(
        expect('machine = ["db_0", "spot", "web_1"], incarnation = 1'),
        do("degrade", 'machine = "db_0"\nahead = "7d"'),
        expect('machine = "db_1", incarnation = 2, sees = ["Redeploy"]', at="6d23h59m59s"),
        do("restart", 'machine = "spot"', at="30d"),
        expect('machine = "spot", incarnation = 2, events = 1'),
    )


def test_the_cloud_of_a_scenario() -> None:
    """It may have settings, as a fleet file has them: here, an api-version of tomorrow."""
    steps = [
        do("recommend", 'machine = "spot"'),
        expect('machine = "spot", version = "2024-07-09", sees = ["SpotRebalanceRecommendation"]'),
    ]
    fleet = FLEET + "[fleet.metadata]\npreview = true\n[fleet.rules]\nrecommend_seconds = 60\n"
    passes(*steps, expect('machine = "spot", not_before = "1m"'), fleet=fleet)
    assert difference(*steps).found == "its poll met: 404"


def test_the_rate_has_bounds() -> None:
    """As virtual time has them."""
    one = scenario(expect('machine = "spot", events = 0'))
    for rate in (0.0, -1.0, 1e9, float("nan")):
        with pytest.raises(Refused, match="rate must be above 0"):
            play(one, real=True, rate=rate)


def test_each_play_is_its_own() -> None:
    """A scenario may be played again, and nothing is left of the time before."""
    steps = [do("delete", 'machine = "spot"'), expect('machine = "spot", gone = true', at="1m")]
    one = scenario(*steps)
    assert play(one).passed
    assert play(one).passed
    assert verdict(*steps).seconds == 60
