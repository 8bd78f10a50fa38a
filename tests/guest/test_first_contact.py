"""The first contact with the endpoint: it is given up with an error that says what to do."""

from pathlib import Path

import pytest

from fairwarning import ScheduledEvents, Unavailable
from fairwarning.guest.agent import agent as module
from fairwarning.guest.agent.agent import Agent
from fairwarning.guest.agent.config import AgentConfig
from tests.fixtures.http import free_port

CHECK = "check that the service runs and that this is the URL of a machine"


def test_a_handler_gives_up(caplog: pytest.LogCaptureFixture) -> None:
    """`watch` raises an error with the URL and the next step, and has logged it before."""
    url = f"http://127.0.0.1:{free_port()}"
    with ScheduledEvents(url, patience=0.2) as client, pytest.raises(Unavailable) as caught:
        next(client.watch())
    assert f"no document from {url}; last time there was no response" in caught.value.message
    assert CHECK in caught.value.message
    assert [url in line and CHECK in line for line in caplog.messages] == [True]


@pytest.mark.parametrize("name", ["", "vm-1"])
def test_an_agent_gives_up(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends with the same error, whether or not it has to ask for its name."""
    monkeypatch.setattr(module, "FIRST_CONTACT_SECONDS", 0.0)
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(Unavailable) as caught:
        Agent(AgentConfig(endpoint=url, name=name, state=tmp_path)).run()
    assert url in caught.value.message
    assert CHECK in caught.value.message
