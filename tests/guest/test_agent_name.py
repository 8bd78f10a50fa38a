"""The agent and an endpoint that has Scheduled Events, but no instance metadata (G3)."""

from pathlib import Path

import pytest

from tests.guest.agents import AgentFolder, AgentProcess, run_agent_command
from tests.guest.double import Double


@pytest.mark.spec("G3")
def test_check_says_what_is_missing_and_what_works(tmp_path: Path) -> None:
    """The error names the request, what works without it, and the setting to use instead."""
    with Double(name="") as azure:
        home = AgentFolder(tmp_path / "home", azure.url)
        done = run_agent_command("agent", "check", "--config", str(home.config()))
    assert done.returncode == 1
    assert "GET /metadata/instance/compute/name" in done.stdout
    assert "events can be read and approved" in done.stdout
    assert "set `name` in its configuration" in done.stdout


@pytest.mark.spec("G3")
def test_the_log_of_an_agent_says_it_too(tmp_path: Path) -> None:
    """The agent goes on asking: the endpoint may not be complete yet."""
    with Double(name="") as azure:
        home = AgentFolder(tmp_path / "home", azure.url)
        with AgentProcess(home) as agent:
            agent.wait_until(lambda: "set `name` in its configuration; retrying" in agent.output())


@pytest.mark.spec("G3", "G5")
def test_a_configured_name_is_enough(tmp_path: Path) -> None:
    """With the name in its configuration, the agent runs its hooks and approves."""
    with Double(name="") as azure:
        event = azure.announce("vm-1")
        home = AgentFolder(tmp_path / "home", azure.url, name="vm-1")
        home.hook("drain", "scheduled")
        with AgentProcess(home) as agent:
            agent.wait_until(lambda: azure.approved)
    assert azure.approved == [event["EventId"]]
    assert home.ran() == ["drain"]


@pytest.mark.spec("G4")
def test_a_document_numbered_0_ends_an_event(tmp_path: Path) -> None:
    """Incarnation 0 is a number like any other; only an empty response says nothing (IG5)."""
    with Double() as azure:
        event = azure.announce("vm-1")
        home = AgentFolder(tmp_path / "home", azure.url)
        home.hook("back", "over")
        with AgentProcess(home) as agent:
            agent.wait_until(lambda: azure.approved)
            azure.end(event)
            azure.incarnation = 0
            agent.wait_until(lambda: home.ran() == ["back"])


@pytest.mark.spec("G1")
def test_an_endpoint_that_does_not_answer_is_another_error(tmp_path: Path) -> None:
    """Nothing is known about its instance metadata, so nothing is said about it."""
    with Double() as azure:
        home = AgentFolder(tmp_path / "home", azure.url)
    done = run_agent_command("agent", "check", "--config", str(home.config()))
    assert done.returncode == 1
    assert "there was no response" in done.stdout
    assert "instance metadata" not in done.stdout
