"""The scenario file: an invalid file is refused with the place of the error, before any run."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairwarning.core.errors import NotFound, Refused
from fairwarning.testing.cloud import toml
from fairwarning.testing.scenarios import find, read
from tests.scenarios.scenario_builder import FLEET

pytestmark = pytest.mark.spec("O6")

STEP = '[[step]]\nexpect = { machine = "db_0", events = 0 }\n'


def refusal(text: str) -> str:
    """Return the message for an invalid file."""
    with pytest.raises(Refused) as caught:
        read(text, "my.toml")
    assert caught.value.code == "BadScenario"
    return caught.value.message


def step_refusal(step: str) -> str:
    """Return the message for an invalid step, without its place (the second step, line 18)."""
    message = refusal(f"{FLEET}\n{STEP}\n[[step]]\n{step}")
    start = "my.toml: step 2 (line 18)"
    assert message.startswith(start), message
    return message.removeprefix(start).lstrip(",: ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "fleet is missing"),
        (FLEET, "step is missing"),
        ("step = []\n" + FLEET, "step is missing"),
        ("= 1", "this is not TOML: Invalid statement (at line 1, column 1)"),
        ("nme = 'x'\n" + FLEET + STEP, "there is no key 'nme'; did you mean name?"),
        ("name = 7\n" + FLEET + STEP, "name: must be "),
        ("fleet = 1\n" + STEP, "fleet: must be a table like a fleet file, not 1"),
        ("step = 1\n" + FLEET, "step: must be an array of tables: write its heading in double"),
        ("[fleet.macine]\n" + STEP, "fleet: there is no key 'macine'; did you mean machine?"),
        ("[[fleet.machine]]\n" + STEP, "fleet: machine 1: name is missing"),
        (
            '[[fleet.machine]]\nname = "a"\npriority = "Cheap"\n' + STEP,
            "fleet: machine 1 (\"a\"), priority: must be one of Regular, Spot, not 'Cheap'",
        ),
        ("[fleet]\nrules = 2026-01-01\n" + STEP, "fleet: a setting must be a string, a number"),
        ("silent = ['dbb']\n" + FLEET + STEP, "silent: there is no entry of the fleet 'dbb'; did"),
        ("silent = []\n" + FLEET + STEP, "silent: must be a non-empty array, not an empty array"),
    ],
)
def test_an_invalid_file(text: str, message: str) -> None:
    """The message has the file name, the place and the allowed values."""
    assert refusal(text).startswith(f"my.toml: {message}")


@pytest.mark.parametrize(
    ("step", "message"),
    [
        # Keys
        ("at = '1m'", "must be a table with either do or expect"),
        ("do = 'poll'\nexpect = {}", "must be a table with either do or expect"),
        ("do = 'reboot'\nmachine = 'db_0'", "do: must be one of restart, redeploy, "),
        ("do = 'restart'\nmachin = 'db_0'", "there is no key 'machin'; did you mean machine?"),
        ("do = 'restart'\nmachine = 'db_0'\nlasts = '5s'", "there is no key 'lasts'; known here: "),
        ("do = 'restart'", "machine is missing"),
        ("do = 'restart'\nmachine = []", "machine: must be a non-empty array, not an empty array"),
        # Times
        ("at = 'soon'\ndo = 'clear_faults'", "at: must be a time such as '30s', '1m30s', '2h', "),
        ("at = '-5s'\ndo = 'clear_faults'", "at: must be a time such as"),
        ("at = '30s1m'\ndo = 'clear_faults'", "at: must be a time such as"),
        ("at = '367d'\ndo = 'clear_faults'", "at: must be a time such as"),
        # Names
        ("do = 'restart'\nmachine = 'db_9'", "machine: there is no machine 'db_9'; did you mean "),
        ("do = 'restart'\nmachine = ['db_0', 'x']", "machine: there is no machine 'x'; known "),
        ("do = 'approve'\nmachine = 'db_0'\nof = 'x'", "of: there is no machine 'x'; known names"),
        ("do = 'scale'\nset = 'wbe'\ncapacity = 1", "set: there is no set 'wbe'; did you mean "),
        ("do = 'pause'\nrollout = 'r'", "rollout: there is no rollout 'r'; known names: none"),
        ("expect = { rollout = 'r', done = 1 }", "expect, rollout: there is no rollout 'r'"),
        ("expect = { operation = 'o', status = 'Failed' }", "expect, operation: there is no oper"),
        ("expect = [{ machine = 'x', events = 0 }]", "expect, 1, machine: there is no machine 'x'"),
        ("do = 'poll'\nmachine = 'db_0'\nas = 'p'", "there is no key 'as'; known here: "),
        # Actions
        ("do = 'delete'\nmachine = 'db_0'\nset = 'web'", "must have exactly one of machine, set"),
        ("do = 'delete'\nmachine = 'db_0'\ninstances = [1]", "set is missing; instances needs"),
        ("do = 'delete'\nset = 'web'\ninstances = []", "instances: must be a non-empty array"),
        ("do = 'delete'\nset = 'web'\ninstances = ['a']", "instances: must be "),
        ("do = 'scale'\nset = 'web'", "capacity is missing"),
        ("do = 'scale'\nset = 'web'\ncapacity = -1", "capacity: must be "),
        ("do = 'update'\nset = 'web'\nterminate_notice = 'PT1M'", "terminate_notice: must be"),
        ("do = 'protect'\nset = 'web'", "instances is missing"),
        ("do = 'maintain'\nmachine = 'db_0'\nkind = 'evict'", "kind: must be one of freeze"),
        ("do = 'freeze'\nmachine = 'db_0'\nlasts = '2d'", "lasts: must be at most '1d', not '2d'"),
        ("do = 'degrade'\nmachine = 'db_0'\nahead = '8d'", "ahead: must be at most '7d', not '8d'"),
        ("do = 'fault'\nmachine = 'db_0'", "kind is missing"),
        ("do = 'fault'\nkind = '418'", "kind: must be one of delay, empty, control, truncated"),
        ("do = 'fault'\nkind = 'delay'\ndelay = '1h'", "delay: must be at most '2m', not '1h'"),
        ("do = 'poll'\nmachine = 'db_0'\nversion = 'latest'", "version: must be one of 2017-03-01"),
        ("do = 'rollout'\nrollout = 'r'\nbatch = 0", "batch: must be "),
        ("do = 'rollout'\nrollout = 'r'\nby_host = 1", "by_host: must be true or false, not 1"),
        # Expectations
        ("expect = 7", "expect: must be a table such as { machine = 'web', events = 0 }, not 7"),
        ("expect = []", "expect: must not be empty"),
        ("expect = {}", "expect: must have exactly one of machine, set, rollout, operation"),
        ("expect = { machine = 'db_0', set = 'web' }", "expect: must have exactly one of"),
        ("expect = { machine = 'db_0' }", "expect: must expect at least one of type, status"),
        ("expect = { machine = 'db_0', version = '2020-07-01' }", "expect: must expect at least"),
        ("expect = { machine = 'db_0', tpe = 'Reboot' }", "expect: there is no key 'tpe'; did you"),
        ("expect = { set = 'web', events = 0 }", "expect: there is no key 'events'; known here: "),
        ("expect = { machine = 'db_0', type = 'Boot' }", "expect, type: must be one of Freeze, Re"),
        ("expect = { machine = 'db_0', status = 'Done' }", "expect, status: must be one of Sche"),
        ("expect = { machine = 'db_0', events = true }", "expect, events: must be "),
        ("expect = { machine = 'db_0', gone = 'yes' }", "expect, gone: must be true or false"),
        ("expect = { machine = 'db_0', sees = 'Reboot' }", "expect, sees: must be an array, not"),
        ("expect = { machine = 'db_0', sees = ['Boot'] }", "expect, sees: must be one of Freeze"),
        ("expect = { machine = 'db_0', not_before = 'x' }", "expect, not_before: must be a time"),
        ("expect = { machine = 'db_0', duration = -1 }", "expect, duration: must be a time such"),
        ("expect = [{ machine = 'db_0', events = 0 }, 7]", "expect, 2: must be a table such as"),
    ],
)
def test_an_invalid_step(step: str, message: str) -> None:
    """The place is the step, its line, and the key."""
    assert step_refusal(step).startswith(message)


def test_steps_are_in_order_of_time() -> None:
    """A step cannot be earlier than the step before it."""
    first = '[[step]]\nat = "1m"\ndo = "clear_faults"\n'
    message = refusal(FLEET + first + '[[step]]\nat = "59s"\ndo = "clear_faults"')
    assert message.endswith("at: must not be before '1m', the time of the previous step")


@pytest.mark.parametrize(
    ("step", "kind"),
    [
        ("do = 'rollout'\nrollout = 'x'", "rollout"),
        ("do = 'stop'\nmachine = 'spot'\nas = 'x'", "operation"),
    ],
)
def test_names_are_unique(step: str, kind: str) -> None:
    """Two steps cannot give the same name to an operation or a rollout."""
    message = refusal(f"{FLEET}[[step]]\n{step}\n[[step]]\n{step}")
    assert message.endswith(f"an earlier step already has a {kind} named 'x'")


def test_names_and_titles() -> None:
    """The default name is that of the file; every step has a one-line title."""
    bare = read(FLEET + STEP, "folder/mine.toml")
    assert (bare.name, bare.about) == ("mine", "")
    assert bare.steps[0].title == "expect of db_0"
    named = read(
        'name = "other"\nabout = "It tells."\n'
        + FLEET
        + STEP.replace(
            "[[step]]\n",
            '[[step]]\ndo = "restart"\nmachine = ["db_0", "db_1"]\n[[step]]\nnote = "Well"\n',
        ),
        "m.toml",
    )
    assert (named.name, named.about) == ("other", "It tells.")
    assert [step.title for step in named.steps] == ["restart db_0, db_1", "Well"]


def test_by_name_or_by_path(tmp_path: Path) -> None:
    """A scenario that ships is found by its name, any other by its path."""
    assert find("scale-in").name == "scale-in"
    mine = tmp_path / "mine.toml"
    mine.write_text(FLEET + STEP)
    assert find(str(mine)).source == str(mine)
    with pytest.raises(
        NotFound, match="no scenario or file named 'nothing'; known scenarios: cancelled"
    ):
        find("nothing")
    mine.write_bytes(b"\xff")
    with pytest.raises(Refused, match="cannot read "):
        find(str(mine))


words = st.sampled_from(
    ["at", "do", "as", "refused", "expect", "machine", "set", "rollout", "operation", "events"]
)
leaves: st.SearchStrategy[Any] = st.one_of(
    st.booleans(),
    st.integers(-5, 10**12),
    st.sampled_from(["db_0", "web", "15m", "P", "restart", "rollout", "delete", "", "Started"]),
    st.text(st.characters(codec="ascii"), max_size=5),
)
anything = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=4)
)


@given(st.lists(st.dictionaries(words, anything, max_size=5) | anything, max_size=4))
def test_any_steps_are_read_or_refused(steps: list[Any]) -> None:
    """The result is a scenario, or a refusal with a place."""
    text = f"step = {toml(steps)}\n{FLEET}"
    try:
        scenario = read(text, "my.toml")
    except Refused as refused:
        error = refused
    else:
        assert len(scenario.steps) == len(steps)
        return
    assert error.code == "BadScenario"
    assert error.message.startswith("my.toml: ")
