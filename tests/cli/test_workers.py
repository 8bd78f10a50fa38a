"""Several processes on one database, and several workers on one host (X1)."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.campaigns import split
from tests.fixtures.loopback import free_range
from tests.fixtures.postgres.database import database_or_skip
from tests.fixtures.programs import run_program
from tests.fixtures.service import PROGRAM, ServiceProcess
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
    """Return the child processes of a service."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [int(child) for child in children]


def is_running(process: int) -> bool:
    """Return whether a process is running."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def poll(service: ServiceProcess, machine: str = "web_0") -> Any:  # noqa: ANN401  (a document)
    """Poll over a new connection, which any of the processes may accept."""
    response = service.get(machine)
    return response.json if response.status == 200 else response.status


@pytest.mark.spec("X1")
def test_equal_processes_on_one_database(tmp_path: Path) -> None:
    """Both processes see a command to either; a token of one is valid for the other."""
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
            [machine["name"] for machine in service.json("machine", "list")]
            for service in (one, two)
        ]
        assert listed == [["web_0", "web_1", "web_2"]] * 2
        wait_until(lambda: one.poll("web_0")["Events"] == [], "the end of it")
        assert one.stop()[0] == 0
        assert two.poll("web_0")["Events"] == []


@pytest.mark.spec("X1")
def test_workers_share_ports_and_are_restarted(tmp_path: Path) -> None:
    """While a killed worker restarts, the others answer."""
    url = database_or_skip()
    with ServiceProcess(tmp_path / "run", "--workers", "2", fleet=FLEET, database=url) as service:
        before = workers(service.process.pid)
        assert len(before) == 2
        assert poll(service) == {"DocumentIncarnation": 1, "Events": []}
        assert service.run("machine", "restart", "web_0").returncode == 0
        os.kill(before[0], signal.SIGKILL)
        wait_until(
            lambda: len(set(workers(service.process.pid)) - set(before)) == 1, "another worker"
        )
        wait_until(
            lambda: poll(service) == {"DocumentIncarnation": 4, "Events": []},
            "the end of the event",
        )
        code, log = service.stop()
        assert code == 0, log
        assert "worker 0 exited with code -9; restarting it" in log
        assert not any(map(is_running, before))


@pytest.mark.campaign
@pytest.mark.spec("M22", "X1")
def test_every_worker_answers_on_the_ports_of_machines(tmp_path: Path) -> None:
    """The kernel distributes connections, also to the port of a machine that is created later."""
    url, ports = database_or_skip(), free_range(4)
    words = ("--workers", "2", "--machine-ports", f"{ports.first}-{ports.last}")
    with ServiceProcess(tmp_path / "run", *words, fleet=FLEET, database=url) as service:
        assert service.ready["machines"]["web_2"] == f"http://127.0.0.1:{ports.first + 2}"
        service.ok("POST", "/api/machines", {"name": "late"})
        for machine in ("web_0", "late"):
            for _ in range(20):
                assert poll(service, machine) == {"DocumentIncarnation": 1, "Events": []}


@pytest.mark.spec("X1")
@pytest.mark.parametrize("number", split([signal.SIGKILL, signal.SIGTERM], 1))
def test_workers_end_with_their_parent(tmp_path: Path, number: signal.Signals) -> None:
    """After any signal, the folder is unlocked and the service can start again."""
    url = database_or_skip()
    with ServiceProcess(tmp_path / "run", "--workers", "3", fleet=FLEET, database=url) as service:
        started = workers(service.process.pid)
        service.process.send_signal(number)
        service.process.wait(LIMIT_SECONDS)
        wait_until(lambda: not any(map(is_running, started)), "the end of all workers")
    with ServiceProcess(tmp_path / "run", "--workers", "2", fleet=FLEET, database=url) as service:
        assert poll(service)["Events"] == []


def test_a_worker_that_cannot_start_ends_all(tmp_path: Path) -> None:
    """The error has the reason and no traceback."""
    words = ("up", "--data", "postgresql://x@127.0.0.1:1/x", "--run", str(tmp_path))
    done = run_program(*PROGRAM, *words, "--workers", "2")  # it starts itself again
    assert done.returncode == 1
    assert "the database failed: connection" in done.stderr
    assert "Traceback" not in done.stderr


def test_exec_and_faults_need_a_data_folder(tmp_path: Path) -> None:
    """With a database both are refused, with what to do instead."""
    url = database_or_skip()
    with ServiceProcess(tmp_path / "run", fleet=FLEET, database=url) as service:
        service.assert_refused(
            ("exec", "web_0", "--", "true"), 1, "one that uses PostgreSQL does not count"
        )
        service.assert_refused(("fault", "set", "500"), 4, "faults work with a single process only")
