"""Two tenants of one service: Ann attacks every port, and Bob must not notice (IB4).

Whatever she sends, resources and entities stay consistent, and every operation ends.

Ann's requests are valid ones with random changes, drawn from a seed. Bob repeats the same steps in
each run; what he reads is compared with a run in which he is alone.
"""

import gc
import json
import re
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random

import pytest

from fairwarning.service.fleet import Fleet
from tests.arm.everything import (
    BOB,
    MACHINE,
    OPERATOR,
    STORED_BODY,
    TEMPLATE,
    THEIRS,
    FleetSnapshot,
    Json,
)
from tests.campaigns import split
from tests.fixtures.arm import SUBSCRIPTION, default_version
from tests.fixtures.http import Response
from tests.hostile.arm_requests import MutatedRequest
from tests.hostile.attacked_service import AttackedService
from tests.hostile.hostile_tenant import HostileTenant

ATTACKS = 40  # between two steps of Bob
STEPS = 24  # of Bob
STEP_SECONDS = 45
_GUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}", re.IGNORECASE)

# --- Bob ------------------------------------------------------------------------------------------

_HOME = f"/resourceGroups/{THEIRS}"
_COMPUTE = f"{_HOME}/providers/Microsoft.Compute"
_SETS = f"{_COMPUTE}/virtualMachineScaleSets"


def _steps() -> Iterator[list[tuple[str, str, Json | None]]]:
    """Yield the requests of each step of Bob's."""
    number = 0
    while True:
        number += 1
        machine = f"{_COMPUTE}/virtualMachines/steady{number}"
        yield [("PUT", machine, MACHINE), ("GET", machine, None)]
        yield [("POST", f"{_COMPUTE}/virtualMachines/planned/restart", None)]
        yield [("PATCH", f"{_SETS}/web", {"sku": {"capacity": 2 + number % 3}})]
        yield [("POST", f"{_SETS}/web/virtualMachines/0/redeploy", None)]
        yield [("PUT", f"{_HOME}/providers/Microsoft.Resources/deployments/d{number}", TEMPLATE)]
        yield [("POST", f"{_COMPUTE}/virtualMachines/spot/simulateEviction", None)]
        yield [("PUT", f"{_HOME}/providers/Microsoft.Storage/storageAccounts/s", STORED_BODY)]
        yield [("DELETE", machine, None)]


_READS = (
    f"{_HOME}/resources",
    f"{_COMPUTE}/virtualMachines",
    f"{_SETS}/web/virtualMachines",
    f"{_COMPUTE}/virtualMachines/planned/instanceView",
    "/resourceGroups",
    "/resources",
)


class SteadyTenant:
    """Bob: he changes, reads, polls and approves, always in the same way."""

    def __init__(self, service: AttackedService) -> None:
        self._service = service
        self._steps = _steps()
        self._guids: dict[str, str] = {}
        self.seen: list[str] = []
        """What he has read, with the ids that differ between runs replaced."""

    def step(self) -> None:
        """Send the requests of the next step, read everything, and poll as each machine."""
        requests = [*next(self._steps), *(("GET", path, None) for path in _READS)]
        for method, path, body in requests:
            self._see(path, self._request(method, path, body))
        for machine, (scope, address) in sorted(self._service.machines(THEIRS).items()):
            self._service.learn_address(machine, address)
            document = self._service.get(machine)
            self._see(f"{scope} {machine}", document)
            if document.status == 200 and document.json["Events"]:
                event = document.json["Events"][0]["EventId"]
                self._see(f"{machine} approves", self._service.approve(machine, event))

    def _request(self, method: str, path: str, body: Json | None) -> Response:
        content = b"" if body is None else json.dumps(body).encode()
        query = f"api-version={default_version(path)}"
        sent = MutatedRequest(method, SUBSCRIPTION + path, query, content, {})
        return self._service.control(sent, BOB)

    def _see(self, what: str, response: Response) -> None:
        text = _GUID.sub(
            lambda match: self._guids.setdefault(match[0].lower(), f"#{len(self._guids)}"),
            response.text,
        )
        self.seen.append(f"{what}: {response.status} {text}")


# --- A run ----------------------------------------------------------------------------------------


class Campaign:
    """A filled fleet, and what Bob reads in it while he is alone."""

    def __init__(self) -> None:
        self._snapshot = FleetSnapshot()
        self._fleet_before: Callable[[], Fleet | None] = lambda: None
        with self._snapshot.restore() as arm:
            self._requests = [r for r in arm.requests() if "/oauth2/" not in r.path]
        self._alone = self._run(None)

    def attack_as_tenant(self, seed: int) -> None:
        """Check that Bob reads the same as if he were alone."""
        seen = self._run(seed)
        for alone, attacked in zip(self._alone, seen, strict=True):
            assert attacked == alone, f"seed {seed}: read {attacked}\ninstead of {alone}"

    def attack_as_operator(self, seed: int) -> None:
        """Check that nothing that an operator sends breaks the service."""
        with self._service() as service:
            ann = HostileTenant(service, self._requests, Random(seed), OPERATOR)
            for _ in range(STEPS):
                self._attack(service, ann, seed)
                service.advance(STEP_SECONDS)
            service.assert_all_done()

    def _run(self, seed: int | None) -> list[str]:
        with self._service() as service:
            bob = SteadyTenant(service)
            ann = HostileTenant(service, self._requests, Random(seed))
            for _ in range(STEPS):
                if seed is not None:
                    self._attack(service, ann, seed)
                bob.step()
                service.advance(STEP_SECONDS)
            service.assert_all_done()
            return bob.seen

    @contextmanager
    def _service(self) -> Iterator[AttackedService]:
        """Run a service, and check that nothing that was sent keeps the one before in memory."""
        gc.collect()
        assert self._fleet_before() is None, "a closed service is still in memory"
        with AttackedService(self._snapshot) as service:
            self._fleet_before = weakref.ref(service.fleet)
            yield service

    @staticmethod
    def _attack(service: AttackedService, ann: HostileTenant, seed: int) -> None:
        try:
            ann.learn()
            for _ in range(ATTACKS):
                ann.attack()
            service.assert_healthy()
        except Exception as error:
            raise AssertionError(f"seed {seed}, after {ann.last!r}") from error


SEEDS = range(1, 21)


@pytest.fixture(scope="module")
def campaign() -> Campaign:
    """One filled fleet for all seeds."""
    return Campaign()


@pytest.mark.spec("C1", "X7")
@pytest.mark.parametrize("seed", split(SEEDS, 1))
def test_an_attack_by_a_tenant(campaign: Campaign, seed: int) -> None:
    """The other tenant reads what it reads alone: documents, resources, results of operations."""
    campaign.attack_as_tenant(seed)


@pytest.mark.spec("C1", "X7")
@pytest.mark.parametrize("seed", split(SEEDS, 1))
def test_an_attack_by_an_operator(campaign: Campaign, seed: int) -> None:
    """No answer is an error of the service's own, and every part of it still works."""
    campaign.attack_as_operator(seed)
