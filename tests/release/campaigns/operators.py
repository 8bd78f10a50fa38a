"""What operators do in the soak: each hour something on every surface of the service."""

from random import Random
from typing import Any

from tests.real.tool_service import ToolService

GROUP = "fairwarning"  # of the machines of a fleet file
PAGES = ("/", "/events", "/machines", "/rollouts", "/operations", "/journal", "/metrics")
LISTS = ("summary", "events", "machines", "sets", "scopes", "operations", "journal")
COMMANDS = (("event", "list"), ("machine", "list"), ("rollout", "list"), ("webhook", "list"))
ACTIONS = ("restart", "redeploy", "freeze", "maintain", "migrate", "fail")
ANSWERS = {200, 201, 202, 204, 409}  # 409: something else is in progress
_COMPUTE = f"resourceGroups/{GROUP}/providers/Microsoft.Compute"
_JOB = {
    "location": "local",
    "properties": {"hardwareProfile": {"vmSize": "Standard_B1s"}},
}


class Operators:
    """Several operators, of whom each uses another surface."""

    def __init__(self, service: ToolService, random: Random) -> None:
        self.service = service
        self.requests = 0
        self._random = random

    def work(self, hour: int, machines: list[dict[str, Any]]) -> None:
        """Do the work of an hour: change something, and read everything."""
        single = [machine["name"] for machine in machines if machine["scope"] == machine["name"]]
        self._maintain(hour, machines)
        self._scale()
        self._use_control_plane(hour, single)
        self._read()
        for words in COMMANDS:
            self.service.json(*words)
        self._share(hour)

    def restart(self, machines: list[dict[str, Any]]) -> None:
        """Restart these machines."""
        for machine in machines:
            self._send("POST", f"/api/machines/{machine['name']}/restart", {})

    def _send(self, method: str, path: str, body: object = None) -> Any:  # noqa: ANN401  (JSON)
        """Send a request."""
        response = self.service.api(method, path, body)
        assert response.status in ANSWERS, (method, path, response)
        self.requests += 1
        return response.json if response.body else None

    def _maintain(self, hour: int, machines: list[dict[str, Any]]) -> None:
        for machine in self._random.sample(machines, min(5, len(machines))):
            action = self._random.choice(ACTIONS)
            self._send("POST", f"/api/machines/{machine['name']}/{action}", {})
        if hour % 6 == 0:
            self._send("POST", "/api/rollouts", {"id": f"rollout-{hour}", "batch": 20})
        if hour % 6 == 2:
            self._send("POST", f"/api/rollouts/rollout-{hour - 2}/pause", {})
        if hour % 6 == 3:
            self._send("POST", f"/api/rollouts/rollout-{hour - 3}/resume", {})

    def _scale(self) -> None:
        sets = self.service.ok("GET", "/api/sets")["sets"]
        for scale_set in self._random.sample(sets, min(2, len(sets))):
            capacity = max(1, scale_set["capacity"] + self._random.randrange(-3, 4))
            self._send("POST", f"/api/sets/{scale_set['name']}/scale", {"capacity": capacity})

    def _use_control_plane(self, hour: int, single: list[str]) -> None:
        """As `az` does: create a machine, restart another, and list."""
        machines = f"{_COMPUTE}/virtualMachines"
        self.service.arm("PUT", f"{machines}/job-{hour}", _JOB)
        listed = self.service.arm("GET", machines)["value"]
        assert listed, "no virtual machine in the control plane"
        self.service.arm("GET", f"{_COMPUTE}/virtualMachineScaleSets")
        for name in self._random.sample(single, min(1, len(single))):
            response = self.service.arm_response("POST", f"{machines}/{name}/restart")
            assert response.status in ANSWERS, response
        self.requests += 4

    def _read(self) -> None:
        for page in PAGES:
            response = self.service.api("GET", page)
            assert response.status == 200, (page, response.status)
        for name in LISTS:
            self._send("GET", f"/api/{name}")
        self.requests += len(PAGES)

    def _share(self, hour: int) -> None:
        """Give somebody a token, and take it back."""
        created = self._send("POST", "/api/tokens", {"name": f"guest-{hour}", "role": "reader"})
        assert self.service.api("GET", "/api/summary", token=created["token"]).status == 200
        self._send("POST", "/api/tokens/revoke", {"ids": [created["info"]["id"]]})
        assert self.service.api("GET", "/api/summary", token=created["token"]).status == 401
