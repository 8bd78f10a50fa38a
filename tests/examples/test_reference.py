"""docs/agent.md lists exactly the keys and variables that exist."""

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from fairwarning.guest.agent import config, work
from fairwarning.guest.agent.actions import RunHook
from fairwarning.guest.agent.config import ApprovalPolicy, HookKind, HookSettings
from fairwarning.guest.events import Event
from fairwarning.guest.watch import Phase

PAGE = (Path(__file__).parents[2] / "docs" / "agent.md").read_text("utf-8")


def first_column(heading: str) -> set[str]:
    """Return the first column of the first table below a heading."""
    below = PAGE.partition(f"\n{heading}\n")[2]
    rows = re.search(r"^\|.*?(?=\n\n)", below, re.MULTILINE | re.DOTALL)
    assert rows is not None, heading
    return set(re.findall(r"^\| `[\[\"]*([\w ]+)[\]\"]*` \|", rows[0], re.MULTILINE))


def test_every_key_is_listed() -> None:
    """The page lists the keys of the file, of hooks and of notifications, and the policies."""
    assert first_column("## Configuration") == set(config._CONFIG)
    assert first_column("### Hooks") == set(config._HOOK)
    assert first_column("## Notifications") == set(config._NOTIFY)
    assert first_column("## When it approves") == set(ApprovalPolicy)


def test_every_variable_is_listed() -> None:
    """The page lists the environment variables of a hook."""
    now = datetime(2026, 11, 15, tzinfo=UTC)
    event = Event("E", "Reboot", "Scheduled", ("db_0",), now)
    hook = HookSettings("h", Phase.SCHEDULED, HookKind.COMMAND, ("true",))
    variables = work.environment(RunHook(hook, Phase.SCHEDULED, event, now), "db_0")
    assert first_column("## What a hook gets") == set(variables)


@pytest.mark.parametrize(
    "text", re.findall(r"^```toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
)
def test_the_examples_are_valid(text: str) -> None:
    """The agent accepts each example configuration."""
    config.parse(text)
