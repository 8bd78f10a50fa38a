"""`fairwarning up --demo`: a fleet in which something happens."""

import signal
from pathlib import Path

import pytest

from tests.campaigns import split
from tests.fixtures.http import fetch
from tests.fixtures.service import FREE_PORTS, BackgroundCommand, ServiceProcess
from tests.fixtures.waiting import LIMIT_SECONDS, wait_until

VIRTUAL = ("--memory", "--clock", "virtual")
SOON_SECONDS = 10.0  # of the fleet's clock
POLLS = 3  # of a handler that could have approved

pytestmark = [pytest.mark.spec("O1"), pytest.mark.up("--demo", *VIRTUAL)]


def events(service: ServiceProcess) -> dict[str, str]:
    """The status of the event of each machine, as `event list` shows them."""
    listed = service.json("event", "list")
    return {machine: event["status"] for event in listed for machine in event["resources"]}


def wait_until_started(service: ServiceProcess, machine: str) -> None:
    """Return once the machine's event has started."""
    wait_until(lambda: events(service)[machine] == "Started", f"the event of {machine} starts")


def wait_until_read(service: ServiceProcess, machine: str) -> None:
    """Return once the handler of a machine has read the machine's event."""
    (event,) = [event for event in service.json("event", "list") if machine in event["resources"]]
    wait_until(
        lambda: any(
            delivery["machine"] == machine
            for delivery in service.json("event", "explain", event["id"])["deliveries"]
        ),
        f"the handler of {machine} reads its event",
    )


def count_polls(service: ServiceProcess) -> float:
    """The number of polls that the service has answered."""
    lines = fetch(f"{service.ready['console']}/metrics").text.splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("fairwarning_polls_"))


def test_something_happens_at_once(tmp_path: Path) -> None:
    """One event is pending, and another one is approved after a moment, by a rollout."""
    with ServiceProcess(tmp_path / "data", "--demo", "--memory") as service:
        assert events(service)["mail"] == "Scheduled"
        wait_until_started(service, "api_0")
        assert events(service) == {"mail": "Scheduled", "api_0": "Started"}
        (rollout,) = service.json("rollout", "list")
        assert (rollout["status"], rollout["machines"]) == ("Running", 3)


@pytest.mark.parametrize("machine", split(["web_0", "db_1"], 1))
def test_a_restart_right_after_the_start_gives_notice(
    service: ServiceProcess, machine: str
) -> None:
    """A simulated handler polls in the scope, and leaves the approval to the user."""
    (accepted,) = service.json("machine", "restart", machine)
    assert [event["status"] for event in accepted["events"]] == ["Scheduled"]
    for handled in ("api_0", machine):
        wait_until_read(service, handled)
    service.advance(SOON_SECONDS)
    wait_until_started(service, "api_0")
    assert events(service)[machine] == "Scheduled"


def test_a_virtual_clock_that_stands_still_stops_the_demo(service: ServiceProcess) -> None:
    """Handlers prepare by the fleet's clock: they poll, and approve when it has moved."""
    before = events(service)
    assert before == {"mail": "Scheduled", "api_0": "Scheduled"}
    wait_until_read(service, "api_0")
    polls = count_polls(service)
    wait_until(lambda: count_polls(service) >= polls + POLLS, "the handlers poll")
    assert events(service) == before
    service.advance(SOON_SECONDS)
    wait_until_started(service, "api_0")
    assert events(service)["mail"] == "Scheduled"


def test_the_handler_of_the_spot_machine_approves_an_eviction(service: ServiceProcess) -> None:
    """The eviction starts before its notice of 30 seconds has passed."""
    service.json("machine", "evict", "batch_0")
    wait_until_read(service, "batch_0")
    service.advance(SOON_SECONDS)
    wait_until_started(service, "batch_0")


def test_later_starts_continue(tmp_path: Path) -> None:
    """They keep the pending event and the rollout, and log nothing; an ended one stays ended."""
    words, seen = ("--demo", "--clock", "virtual"), []
    for number in range(2):
        with ServiceProcess(tmp_path / "data", *words) as service:
            ids = [event["id"] for event in service.json("event", "list")]
            rollouts = [rollout["id"] for rollout in service.json("rollout", "list")]
            seen.append((ids, rollouts))
            if number:
                service.json("rollout", "abort", *rollouts, "--yes")
                assert list(events(service)) == ["mail"]
            assert service.stop() == (0, "")
    assert len(seen[0][0]) == 2
    assert seen[0] == seen[1]
    with ServiceProcess(tmp_path / "data", *words) as service:
        assert events(service) == {"mail": "Scheduled", "api_0": "Scheduled"}
        (rollout,) = service.json("rollout", "list")
        assert rollout["status"] == "Aborted"


def test_machines_without_a_url(tmp_path: Path) -> None:
    """The handlers also poll if machines are identified by their source address."""
    words = ("--demo", *VIRTUAL)
    with ServiceProcess(tmp_path / "data", *words, metadata="0.0.0.0:0") as service:
        assert events(service) == {"mail": "Scheduled", "api_0": "Scheduled"}


@pytest.mark.spec("O2")
def test_a_stop_while_the_handlers_poll(tmp_path: Path) -> None:
    """SIGTERM stops the demo in order, which takes less than the limit that forces it."""
    with ServiceProcess(tmp_path / "data", "--demo", "--memory") as service:
        service.process.send_signal(signal.SIGTERM)
        _, errors = service.process.communicate(timeout=LIMIT_SECONDS)
        assert (service.process.returncode, errors) == (0, "")


def test_the_output_says_what_is_simulated(tmp_path: Path) -> None:
    """It also has the command that starts an empty fleet, in another folder."""
    words = ["up", "--demo", "--memory", "--data", str(tmp_path / "d"), *FREE_PORTS]
    with BackgroundCommand(*words) as command:
        output = "\n".join(command.read_until("Ctrl-C"))
        code, rest, _ = command.interrupt()
    assert (code, rest) == (0, "Stopped. No data was kept.\n")
    assert "Created 11 machines in 6 scopes." in output
    assert "simulated handlers poll on every machine but FrontEnd_IN_0" in output
    assert " up --data my-fleet\n" in output
