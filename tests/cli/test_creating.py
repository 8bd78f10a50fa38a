"""Sets that several clients create at once in a resource group that does not exist yet."""

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import cycle
from pathlib import Path
from threading import Barrier
from typing import TypeVar

import pytest

from fairwarning.service.config.settings import CloudSettings
from tests.fixtures.credentials import arm_request
from tests.fixtures.http import Response
from tests.fixtures.postgres.database import database_or_skip
from tests.fixtures.service import ServiceProcess

pytestmark = pytest.mark.spec("X1")

SETS = ("web", "db", "cache", "queue")
ROUNDS = 5  # each in a resource group of its own
FLEET = """
[cloud]
group = "{group}"

[[scale_set]]
name = "{name}"
capacity = 2
"""
Item = TypeVar("Item")
Result = TypeVar("Result")


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


@pytest.mark.spec("C4")
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


@pytest.mark.spec("C1")
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


def test_processes_that_start_at_once_with_different_fleet_files(tmp_path: Path) -> None:
    """Each creates its set; the resource group of all is created once."""
    url = database_or_skip()
    processes = [
        ServiceProcess(tmp_path / name, fleet=FLEET.format(group="shared", name=name), database=url)
        for name in SETS
    ]
    with ExitStack() as stack:
        for process in processes:
            stack.push(process)
        at_once(ServiceProcess.start, processes)
        sets = processes[0].ok("GET", "/api/sets")["sets"]
        assert sorted(scale_set["name"] for scale_set in sets) == sorted(SETS)
