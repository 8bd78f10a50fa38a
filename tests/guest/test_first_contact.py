"""The first contact with the endpoint: it is given up with an error that says what to do."""

from pathlib import Path

import pytest

from fairwarning import Unavailable
from fairwarning.guest.agent import endpoint_threads
from fairwarning.guest.agent.agent import Agent
from fairwarning.guest.agent.config import AgentConfig
from tests.fixtures.http import free_port
from tests.guest.clients import in_background, result_of
from tests.guest.double import Double

CHECK = "check that the service runs and that this is the URL of a machine"


@pytest.mark.parametrize("name", ["", "vm-1"])
def test_an_agent_gives_up(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends with the same error, whether or not it has to ask for its name."""
    monkeypatch.setattr(endpoint_threads, "FIRST_CONTACT_SECONDS", 0.0)
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(Unavailable) as caught:
        Agent(AgentConfig(endpoint=url, name=name, state=tmp_path)).run()
    assert url in caught.value.message
    assert CHECK in caught.value.message


@pytest.mark.spec("G6")
def test_an_agent_stops_during_a_slow_first_response(tmp_path: Path) -> None:
    """It does not wait for the response."""
    with Double() as azure, azure.silence():
        agent = Agent(AgentConfig(endpoint=azure.url, state=tmp_path))
        running = in_background(agent.run)
        azure.wait_until(requests=1)
        agent.stop()
        result_of(running)


def test_an_error_in_a_thread_ends_the_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it would run on without reading documents."""

    def fail(*_: object) -> None:
        raise ArithmeticError("planted")

    monkeypatch.setattr(endpoint_threads, "discover", fail)
    with pytest.raises(ArithmeticError, match="planted"):
        Agent(AgentConfig(state=tmp_path)).run()
