"""Several processes on one database, and several workers on one host (X1)."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.postgres.database import database_or_skip
from tests.fixtures.service import ServiceProcess, run_command
from tests.fixtures.waiting import LIMIT_SECONDS, wait_until

FLEET = """
[driver]
kind = "command"
program = ["true"]

[rules]
reboot_seconds = 1

[[availability_set]]
name = "web"
machines = 3
"""
RESTART = "/api/machines/web_0/restart"


def workers(parent: int) -> list[int]:
    """The processes that a service has started."""
    found = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [int(one) for one in found]


def is_there(process: int) -> bool:
    """Whether it has not ended."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def seen(service: ServiceProcess, machine: str = "web_0") -> Any:  # noqa: ANN401  (a document)
    """What a machine reads, each time over a new connection: of whichever process is asked."""
    response = service.get(machine)
    return response.json if response.status == 200 else response.status


@pytest.mark.spec("X1")
def test_equal_processes_on_one_database(tmp_path: Path) -> None:
    """A command to one is seen through the other; a token of one is good for the other."""
    url = database_or_skip()
    with (
        ServiceProcess(tmp_path / "one", fleet=FLEET, database=url) as one,
        ServiceProcess(tmp_path / "two", fleet=FLEET, database=url) as two,
    ):
        assert one.ready["machines"].keys() == two.ready["machines"].keys()
        assert one.poll("web_0") == two.poll("web_1") == {"DocumentIncarnation": 1, "Events": []}
        response = two.api("POST", RESTART, token=one.ready["token"])
        assert response.status == 202, response.body
        wait_until(lambda: len(one.poll("web_2")["Events"]) == 1, "the event through the other")
        assert two.poll("web_2") == one.poll("web_2")
        assert (tmp_path / "one/ca.pem").read_bytes() == (tmp_path / "two/ca.pem").read_bytes()
        listed = [
            [one["name"] for one in service.json("machine", "list")] for service in (one, two)
        ]
        assert listed == [["web_0", "web_1", "web_2"]] * 2
        wait_until(lambda: one.poll("web_0")["Events"] == [], "the end of it")
        assert one.stop()[0] == 0
        assert two.poll("web_0")["Events"] == []


@pytest.mark.spec("X1")
def test_workers_share_ports_and_one_that_dies_is_started_again(tmp_path: Path) -> None:
    """Whoever asks meanwhile is answered by the others, or asks again."""
    url = database_or_skip()
    with ServiceProcess(tmp_path / "run", "--workers", "2", fleet=FLEET, database=url) as service:
        before = workers(service.process.pid)
        assert len(before) == 2
        assert seen(service) == {"DocumentIncarnation": 1, "Events": []}
        assert service.run("machine", "restart", "web_0").returncode == 0
        os.kill(before[0], signal.SIGKILL)
        wait_until(
            lambda: len(set(workers(service.process.pid)) - set(before)) == 1, "another worker"
        )
        wait_until(
            lambda: seen(service) == {"DocumentIncarnation": 4, "Events": []},
            "the end of the event",
        )
        code, said = service.stop()
        assert code == 0, said
        assert "worker 0 ended with -9; it is started again" in said
        assert not any(map(is_there, before))


@pytest.mark.spec("X1")
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_whoever_started_them(tmp_path: Path, how: signal.Signals) -> None:
    """However that is; the folder is free again, and the same words start it again."""
    url = database_or_skip()
    with ServiceProcess(tmp_path / "run", "--workers", "3", fleet=FLEET, database=url) as service:
        started = workers(service.process.pid)
        service.process.send_signal(how)
        service.process.wait(LIMIT_SECONDS)
        wait_until(lambda: not any(map(is_there, started)), "the end of all workers")
    with ServiceProcess(tmp_path / "run", "--workers", "2", fleet=FLEET, database=url) as service:
        assert seen(service)["Events"] == []


def test_a_worker_that_cannot_start_ends_all(tmp_path: Path) -> None:
    """With the reason, and without a traceback."""
    done = run_command(
        "up", "--data", "postgresql://x@127.0.0.1:1/x", "--run", str(tmp_path), "--workers", "2"
    )
    assert done.returncode == 1
    assert "the database failed: connection" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_url_may_come_from_the_environment(tmp_path: Path) -> None:
    """Where no list of processes shows it."""
    environment = os.environ | {"FAIRWARNING_DATA": "postgresql://x:secret@127.0.0.1:1/x"}
    done = run_command("up", "--run", str(tmp_path), env=environment)
    assert done.returncode == 1
    assert "the database failed: connection" in done.stderr
    assert "secret" not in done.stderr


def test_programs_are_for_a_service_of_one_process(tmp_path: Path) -> None:
    """And so are faults: whoever tries is told, and what to do instead."""
    url = database_or_skip()
    with ServiceProcess(tmp_path / "run", fleet=FLEET, database=url) as service:
        service.assert_refused(
            ("exec", "web_0", "--", "true"), 1, "one that uses PostgreSQL does not count"
        )
        service.assert_refused(
            ("fault", "set", "500"), 4, "faults are for a service of one process"
        )
