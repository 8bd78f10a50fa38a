"""The page azure.md: its commands, typed in a machine of ours instead of one on Azure."""

from pathlib import Path

import pytest

from deploy.agent.contents import agent_files
from deploy.agent.pyz import build_pyz
from tests.docs.pages import DOCS, blocks
from tests.docs.terminal import Terminal, commands
from tests.fixtures.requirements import needs_namespaces

PAGE = DOCS / "azure.md"
TESTED = "tested by tests/docs/test_azure.py"
INSIDE = "fairwarning exec web_0 -- "


@pytest.mark.campaign
@pytest.mark.spec("G7", "G10")
@needs_namespaces
def test_the_commands_of_the_page(tmp_path: Path) -> None:
    """They print what the page shows: what reads, the drill, and one event from end to end."""
    (tmp_path / "fairwarning-agent.pyz").write_bytes(build_pyz(agent_files(), 0))
    with Terminal(tmp_path) as terminal:
        terminal.type("fairwarning up --demo --memory", "Fairwarning is up. ...\n...\n")
        for block in blocks(PAGE):
            if block.mark != TESTED:
                continue
            if block.language == "toml":
                (tmp_path / "agent.toml").write_text(block.text)
            elif block.language == "text":
                terminal.expect(block.text)
                terminal.interrupt()  # as the page says
            else:
                for typed, shown in commands(block.text):
                    _type(terminal, typed, shown)


def _type(terminal: Terminal, typed: str, shown: str) -> None:
    if typed.startswith("az vm restart"):
        assert terminal.run("fairwarning machine restart web_0").returncode == 0
    elif " run " in typed:
        terminal.begin(f"{INSIDE}{typed}", shown)
    else:
        terminal.type(f"{INSIDE}{typed}", shown)
