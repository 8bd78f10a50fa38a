"""Kills the real `fairwarning up` while clients send it operations over TLS; checks the result."""

import json
import signal
import threading
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Self

from tests.crash.killed_service import (
    VERSION,
    Credentials,
    KilledService,
    ProcessEnded,
    operation_url,
)
from tests.fixtures.http import Response, free_port

FLEET = """
[[machine]]
name = "vm"
count = 12

[[scale_set]]
name = "set"
capacity = 6
terminate_notice = "PT5M"
"""
GROUP = "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/fairwarning"
COMPUTE = f"{GROUP}/providers/Microsoft.Compute"
SET = f"{COMPUTE}/virtualMachineScaleSets/set"
DEPLOYMENT = f"{GROUP}/providers/Microsoft.Resources/deployments/whole"
_LONG_SECONDS = 2 * 3600  # of virtual time: longer than every notice and every impact
_SIZES = range(2, 9)  # of the scale set


@dataclass(frozen=True)
class OperationRequest:
    """A request that changes something."""

    kind: str  # restart, redeploy, delete, create or scale
    name: str = ""
    capacity: int = 0


@dataclass
class OperationKillTest:
    """Runs a service several times; its client keeps its token and its URLs.

    A process that still runs at the end of the `with` block is killed.
    """

    folder: Path
    seed: int
    names: set[str] = field(default_factory=lambda: {f"vm_{n}" for n in range(12)})
    capacity: int = 6
    accepted: dict[str, OperationRequest] = field(default_factory=dict)  # by operation URL
    finished: int = 0  # accepted operations that were checked
    unanswered: OperationRequest | None = None  # sent when the service died
    credentials: Credentials | None = None
    service: KilledService | None = None
    starts: int = 0

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.port = free_port()
        self.fleet = self.folder / "fleet.toml"
        self.fleet.write_text(FLEET, "utf-8")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.service and self.service.process.poll() is None:
            self.service.end(signal.SIGKILL)

    def start(self, failpoint: str = "", *, check: bool = True) -> KilledService:
        """Start the service again, and check all operations accepted before."""
        # Only once: the fleet file would create deleted machines again.
        options = [] if self.starts else [str(self.fleet)]
        killed = KilledService(self.folder / "data", self.port, *options, failpoint=failpoint)
        service = self.service = killed.start()
        service.credentials = self.credentials = self.credentials or service.new_credentials()
        self.starts += 1
        if check:
            self._check(service)
        for name in sorted(service.ready["machines"])[::2]:
            service.get(name)  # machines that never poll get no notice
        return service

    # --- Load ---

    def load(self, service: KilledService, requests: int = 8) -> None:
        """Send requests, and advance the clock in between, until all are sent or it dies."""
        idle = sorted(self.names - {request.name for request in self.accepted.values()})
        self.random.shuffle(idle)
        try:
            for number in range(requests):
                self.send(service, self._draw(idle))
                if number % 3 == 2:
                    service.advance(90)
        except ProcessEnded:
            return

    def _draw(self, idle: list[str]) -> OperationRequest:
        kind = self.random.choice(("restart", "redeploy", "delete", "create", "scale"))
        if kind == "scale":
            return OperationRequest(kind, capacity=self.random.choice(_SIZES))
        if kind == "create" or len(idle) < 6:
            name = f"new{self.starts}-{self.random.getrandbits(32):08x}"
            return OperationRequest("create", name)
        return OperationRequest(kind, idle.pop())

    def send(self, service: KilledService, request: OperationRequest) -> Response:
        """Send a request; once it is acknowledged, expect its effect."""
        self.unanswered = request
        reply = _send(service, request)
        self.unanswered = None
        assert reply.status in {200, 201, 202}, (request, reply.body)
        self._expect(request)
        if url := operation_url(reply):
            self.accepted[url] = request
        return reply

    def _expect(self, request: OperationRequest) -> None:
        if request.kind == "create":
            self.names.add(request.name)
        elif request.kind == "delete":
            self.names.discard(request.name)
        elif request.kind == "scale":
            self.capacity = request.capacity

    # --- Checks ---

    def _check(self, service: KilledService) -> None:
        """E9: every URL still works, every operation finishes, and nothing is half done."""
        for url, request in self.accepted.items():
            reply = service.arm("GET", url)
            assert reply.status == 200, f"the accepted {request} is lost: {reply.body!r}"
            assert reply.json["status"] in {"InProgress", "Succeeded"}, (request, reply.json)
        _compare(service)
        service.advance(_LONG_SECONDS)
        for url, request in self.accepted.items():
            reply = service.arm("GET", url)
            assert reply.json["status"] == "Succeeded", (request, reply.json)
        self.finished += len(self.accepted)
        self.accepted.clear()
        names, capacity = _compare(service, busy=False)
        if self.unanswered and (names, capacity) != (self.names, self.capacity):
            self._expect(self.unanswered)  # it took effect without an acknowledgement
        repeat, self.unanswered = self.unanswered, None
        assert not names ^ self.names
        assert capacity == self.capacity
        if repeat and repeat.kind in {"restart", "redeploy"}:
            self.send(service, repeat)  # it can be sent again in either case


def _send(service: KilledService, request: OperationRequest) -> Response:
    machine = f"{COMPUTE}/virtualMachines/{request.name}"
    if request.kind == "scale":
        size = {"sku": {"capacity": request.capacity}}
        return service.arm("PATCH", f"{SET}?{VERSION}", size)
    if request.kind == "create":
        return service.arm("PUT", f"{machine}?{VERSION}", {"location": "local"})
    if request.kind == "delete":
        return service.arm("DELETE", f"{machine}?{VERSION}")
    return service.arm("POST", f"{machine}/{request.kind}?{VERSION}")


def _compare(service: KilledService, *, busy: bool = True) -> tuple[set[str], int]:
    """Check that both APIs show the same; return the standalone machines and the set's size."""
    machines = service.machines()
    standalone = _listed(service, f"{COMPUTE}/virtualMachines")
    instances = _listed(service, f"{SET}/virtualMachines")
    shown = {resource["name"]: resource for resource in (*standalone, *instances)}
    assert shown.keys() == machines.keys(), shown.keys() ^ machines.keys()
    for name, resource in shown.items():
        state = resource["properties"]["provisioningState"]
        assert busy or (state == "Succeeded" and not machines[name]["events"]), (name, state)
    size = service.arm("GET", f"{SET}?{VERSION}").json["sku"]["capacity"]
    states = [instance["properties"]["provisioningState"] for instance in instances]
    assert size == len(states) - states.count("Deleting")
    return {resource["name"] for resource in standalone}, size


def _listed(service: KilledService, path: str) -> list[dict[str, Any]]:
    resources: list[dict[str, Any]] = []
    url = f"{path}?{VERSION}"
    while url:
        page = service.arm("GET", url).json
        resources += page["value"]
        url = page.get("nextLink", "")
    return resources


# --- Deployments ----------------------------------------------------------------------------------


# An availability set of two machines, and a scale set of three.
_TEMPLATE = Path(__file__).with_name("deployment.json").read_text("utf-8")


def template(number: int) -> Any:  # noqa: ANN401  (JSON)
    """Return the template of a deployment with this number."""
    return json.loads(_TEMPLATE.replace("{number}", str(number)))


def deploy(service: KilledService, number: int) -> Response:
    """Send the template."""
    return service.arm("PUT", f"{DEPLOYMENT}{number}?{VERSION}", template(number))


def check_deployment(service: KilledService, number: int, reply: Response | None) -> bool:
    """Check that an acknowledged deployment is complete; repeat another; return whether it was."""
    url = f"{DEPLOYMENT}{number}?{VERSION}"
    repeat = reply is None and service.arm("GET", url).status == 404
    parts = _parts(service, number)
    assert all(size in {0, expected} for size, expected in parts.values()), parts
    if repeat:
        reply = deploy(service, number)
        assert reply.status == 201, reply.body
    if reply:
        status = service.arm("GET", operation_url(reply))
        assert status.json == {"status": "Succeeded"}, status.body
    shown = service.arm("GET", url).json
    assert shown["properties"]["provisioningState"] == "Succeeded"
    parts = _parts(service, number)
    assert all(size == expected for size, expected in parts.values()), parts
    return repeat


def _parts(service: KilledService, number: int) -> dict[str, tuple[int, int]]:
    """Return how many machines each part has, and how many it should have."""
    machines = service.machines()
    parts = {}
    for name, expected in ((f"as{number}-0", 1), (f"as{number}-1", 1), (f"ss{number}", 3)):
        kind = "virtualMachines" if expected == 1 else "virtualMachineScaleSets"
        shown = service.arm("GET", f"{COMPUTE}/{kind}/{name}?{VERSION}")
        size = sum(machine == name or machine.startswith(f"{name}_") for machine in machines)
        assert (size > 0) == (shown.status == 200), (name, size, shown.body)
        parts[name] = size, expected
    return parts


# --- At random ------------------------------------------------------------------------------------


def kill_at_random(kills: int, seed: int, folder: Path) -> OperationKillTest:
    """Run processes in one folder, each killed some time after its first request."""
    with OperationKillTest(folder, seed) as test:
        for _ in range(kills):
            service = test.start()
            killer = threading.Timer(test.random.uniform(0.0, 0.08), service.process.kill)
            killer.start()
            test.load(service)
            killer.join()
            assert service.end() == -signal.SIGKILL
        service = test.start()
        assert service.end(signal.SIGINT) == 0
    return test
