"""Several processes on one database, and several workers on one host (X1)."""

import json
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import cycle
from pathlib import Path
from threading import Barrier
from typing import Any, TypeVar

import pytest

from fairwarning.service.config.settings import CloudSettings
from tests.campaigns import split
from tests.fixtures.credentials import arm_request
from tests.fixtures.http import Response
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
SETS = ("web", "db", "cache", "queue")
ROUNDS = 5  # each in a resource group of its own
Item = TypeVar("Item")
Result = TypeVar("Result")
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
    """Both see a command to either; a token and the CA of one are valid for the other."""
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
        assert (tmp_path / "one/ca.pem").read_bytes() == (tmp_path / "two/ca.pem").read_bytes()
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


# --- Clients that create sets at once in a resource group that does not exist yet ---------------


@pytest.fixture(params=["sqlite", "postgresql"])
def services(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[ServiceProcess]]:
    """One process with a data folder, or two with one database; without machines."""
    with ExitStack() as stack:
        if request.param == "sqlite":
            processes = [ServiceProcess(tmp_path / "data")]
        else:
            url = database_or_skip()
            processes = [ServiceProcess(tmp_path / name, database=url) for name in ("one", "two")]
        yield [stack.enter_context(process) for process in processes]


def at_once(call: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Call a function for all items at the same moment."""
    barrier = Barrier(len(items))

    def wait_and_call(item: Item) -> Result:
        barrier.wait()
        return call(item)

    with ThreadPoolExecutor(len(items)) as threads:
        return list(threads.map(wait_and_call, items))


def put(service: ServiceProcess, path: str, body: object) -> Response:
    """PUT a resource below the subscription."""
    target = f"/subscriptions/{CloudSettings().subscription}{path}?api-version=2024-07-01"
    headers = {
        "Authorization": f"Bearer {service.ready['token']}",
        "Content-Type": "application/json",
    }
    return arm_request(service, "PUT", target, headers, json.dumps(body))


@pytest.mark.spec("C4", "X1")
def test_different_sets_through_the_operator_api(services: list[ServiceProcess]) -> None:
    """All succeed. A name that is taken is refused, also in a new resource group."""
    for number in range(ROUNDS):
        group = f"group{number}"

        def create(
            target: tuple[str, ServiceProcess], group: str = group, number: int = number
        ) -> Response:
            name, service = target
            body = {"name": f"{name}{number}", "capacity": 2, "group": group}
            return service.api("POST", "/api/sets", body)

        responses = at_once(create, list(zip(SETS, cycle(services))))
        assert [response.status for response in responses] == [201] * 4, responses
        for service in services:
            assert create(("web", service)).error_code == "NameTaken"
            assert create(("web", service), "another").status == 409
    assert len(services[-1].ok("GET", "/api/sets?limit=100")["sets"]) == ROUNDS * len(SETS)


@pytest.mark.spec("C1", "X1")
def test_different_sets_through_the_control_plane(services: list[ServiceProcess]) -> None:
    """Each client creates the resource group and then its set, as `az` does."""
    for number in range(ROUNDS):
        path = f"/resourceGroups/group{number}"

        def create(target: tuple[str, ServiceProcess], path: str = path) -> list[Response]:
            name, service = target
            group = put(service, path, {"location": "local"})
            scale_set = f"{path}/providers/Microsoft.Compute/virtualMachineScaleSets/{name}"
            body = {"location": "local", "sku": {"name": "Standard_B1s", "capacity": 2}}
            return [group, put(service, scale_set, body)]

        for responses in at_once(create, list(zip(SETS, cycle(services)))):
            assert all(response.status in {200, 201} for response in responses), responses
