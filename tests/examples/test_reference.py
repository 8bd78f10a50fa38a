"""docs/agent.md tells of every key and every variable, and of none that is not there."""

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from fairwarning.guest.agent import config, work
from fairwarning.guest.agent.config import ApprovalPolicy, HookKind, HookSettings
from fairwarning.guest.agent.plan import RunHook
from fairwarning.guest.events import Event
from fairwarning.guest.watch import Phase

PAGE = (Path(__file__).parents[2] / "docs" / "agent.md").read_text("utf-8")


def first_column(heading: str) -> set[str]:
    """What the first table below a heading has in its first column."""
    below = PAGE.partition(f"\n{heading}\n")[2]
    rows = re.search(r"^\|.*?(?=\n\n)", below, re.MULTILINE | re.DOTALL)
    assert rows is not None, heading
    return set(re.findall(r"^\| `[\[\"]*([\w ]+)[\]\"]*` \|", rows[0], re.MULTILINE))


def test_every_key_is_told() -> None:
    """Of the file and of a hook."""
    assert first_column("## Configuration") == set(config._CONFIG)
    assert first_column("### Hooks") == set(config._HOOK)
    assert first_column("## When it approves") == set(ApprovalPolicy)


def test_every_variable_is_told() -> None:
    """What a command finds in its environment."""
    now = datetime(2026, 11, 15, tzinfo=UTC)
    event = Event("E", "Reboot", "Scheduled", ("db_0",), now)
    hook = HookSettings("h", Phase.SCHEDULED, HookKind.COMMAND, ("true",))
    given = work.environment(RunHook(hook, Phase.SCHEDULED, event, now), "db_0")
    assert first_column("## What a hook gets") == set(given)


@pytest.mark.parametrize(
    "text", re.findall(r"^```toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
)
def test_what_it_shows_is_right(text: str) -> None:
    """The agent takes each piece of configuration as it stands."""
    config.parse(text)
