"""The actions and expectations of steps, each kind by itself."""

import pytest

from tests.scenarios.scenario_builder import FLEET, assert_passes, difference, scenario

pytestmark = pytest.mark.spec("O6")


def expect(keys: str, at: str = "") -> str:
    """Return a step with an expectation."""
    return f'at = "{at}"\nexpect = {{ {keys} }}' if at else f"expect = {{ {keys} }}"


def do(action: str, keys: str, at: str = "") -> str:
    """Return a step with an action."""
    return "\n".join(filter(None, [f'at = "{at}"' if at else "", f'do = "{action}"', keys]))


@pytest.mark.parametrize(
    ("action", "keys", "event", "impact"),
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
def test_actions_on_machines(action: str, keys: str, event: str, impact: str) -> None:
    """Each action schedules the event of the contract, or none, and then its impact happens."""
    assert_passes(
        do(action, f'machine = "spot"\nas = "it"\n{keys}'),
        expect(f'machine = "spot", {event or "events = 0"}'),
        expect(f'machine = "spot", events = 0, history = [{impact}]', at="8d"),
        expect('operation = "it", status = "Succeeded"'),
    )


def test_formats_of_times() -> None:
    """A time has days to seconds, or is ISO 8601; the default is the time of the step before."""
    texts = ["0s", "90s", "1m30s", "PT2M", "1h", "1h0m5s", "P1D", "1d", "1d12h30m15s", "366d"]
    steps = [expect('machine = "spot", gone = false', at=text) for text in texts]
    parsed = scenario(expect('set = "web", gone = false'), *steps)
    seconds = [step.at_seconds for step in parsed.steps]
    assert seconds == [0, 0, 90, 90, 120, 3600, 3605, 86400, 86400, 131415, 366 * 86400]


def test_approvals() -> None:
    """A machine or another machine of its scope can approve; a machine of another scope cannot."""
    assert_passes(
        do("restart", 'machine = ["db_0", "db_1"]'),
        do("approve", 'machine = "spot"\nof = "db_0"\nrefused = "Answered"'),
        do("approve", 'machine = "db_1"\nof = ["db_0", "db_1"]'),
        expect('machine = ["db_0", "db_1"], status = "Started"'),
        do("approve", 'machine = "spot"\nrefused = "NothingAnnounced"'),
    )


def test_labels_of_events() -> None:
    """A label belongs to one event for the whole run."""
    steps = [
        do("restart", 'machine = ["db_0", "db_1"]'),
        expect('machine = "db_0", event = "one"'),
        expect('machine = "db_1", event = "two"'),
        do("approve", 'machine = "db_0"'),
        expect('machine = "db_0", event = "one", status = "Started"'),
    ]
    assert_passes(*steps)
    actual = difference(*steps, expect('machine = "db_0", event = "two"'))
    assert (actual.expected, actual.found) == ("machine db_0: event 'two'", "'one'")
    actual = difference(*steps, expect('machine = "db_0", event = "three"'))
    assert actual.found == "'one'"
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
    """A fault affects only its machine, until its count, its duration or a clear ends it."""
    assert_passes(
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
    """Sets scale, change and are deleted; steps can name instances that a set creates later."""
    assert_passes(
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
    """Rollouts cover availability sets and scale sets, one lane at a time with batch = 1."""
    assert_passes(
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


def test_silent_machines_get_no_notice() -> None:
    """A silent machine gets notice only after a poll step; a whole set can be silent."""
    assert_passes(
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


def test_machines_keep_polling() -> None:
    """The feature stays enabled, however long a scenario is."""
    assert_passes(
        expect('machine = ["db_0", "spot", "web_1"], incarnation = 1'),
        do("degrade", 'machine = "db_0"\nahead = "7d"'),
        expect('machine = "db_1", incarnation = 2, sees = ["Redeploy"]', at="6d23h59m59s"),
        do("restart", 'machine = "spot"', at="30d"),
        expect('machine = "spot", incarnation = 2, events = 1'),
    )


def test_the_cloud_of_a_scenario() -> None:
    """A scenario can have the settings of a fleet file; here, a preview api-version."""
    steps = [
        do("recommend", 'machine = "spot"'),
        expect('machine = "spot", version = "2024-07-09", sees = ["SpotRebalanceRecommendation"]'),
    ]
    fleet = FLEET + "[fleet.metadata]\npreview = true\n[fleet.rules]\nrecommend_seconds = 60\n"
    assert_passes(*steps, expect('machine = "spot", not_before = "1m"'), fleet=fleet)
    assert difference(*steps).found == "its poll was answered: 404"
