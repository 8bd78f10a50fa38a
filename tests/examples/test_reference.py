"""The pages of the agent list exactly the keys and variables that exist."""

import re
from pathlib import Path

from fairwarning.guest.agent import config
from fairwarning.guest.agent.config import ApprovalPolicy

DOCS = Path(__file__).parents[2] / "docs"
NAMES = ("agent.md", "agent-service.md", "agent-kubernetes.md")
PAGES = "".join((DOCS / name).read_text("utf-8") for name in NAMES)


def first_column(heading: str) -> set[str]:
    """Return the first column of the first table below a heading."""
    below = PAGES.partition(f"\n{heading}\n")[2]
    rows = re.search(r"^\|.*?(?=\n\n)", below, re.MULTILINE | re.DOTALL)
    assert rows is not None, heading
    return set(re.findall(r"^\| `[\[\"]*([\w ]+)[\]\"]*` \|", rows[0], re.MULTILINE))


def test_every_key_is_listed() -> None:
    """The pages list the keys of the file, of hooks and of notifications, and the policies."""
    assert first_column("## Configuration") == set(config._CONFIG)
    assert first_column("### Hooks") == set(config._HOOK)
    assert first_column("## Notifications") == set(config._NOTIFY)
    assert first_column("## When it approves") == set(ApprovalPolicy)
