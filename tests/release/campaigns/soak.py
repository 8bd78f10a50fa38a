"""A day of a fleet in virtual time, with all surfaces of the service, the SDK and the agent.

`python -m tests.release.campaigns.soak [--machines 1000] [--hours 24] [--seed 1]`
"""

import argparse
import json
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

from tests.bench.processes import resident_bytes
from tests.fixtures.receiver import Receiver
from tests.real.tool_service import ToolService
from tests.release.campaigns.machines import Agents, Machines
from tests.release.campaigns.operators import Operators

POLL_SECONDS = 300  # virtual, between two polls of a machine
HOUR_SECONDS = 3600
SET_SIZE, AVAILABILITY_SIZE = 50, 25
AGENT_MACHINES = "agent"  # the beginning of their names
AGENTS = 3
GROWTH = 1.25  # of resident memory, from the first third of the run to its end
QUIET_HOURS = 12  # within which everything must have ended


class Soak:
    """One run."""

    def __init__(self, folder: Path, machines: int, hours: int, seed: int) -> None:
        random = Random(seed)
        self.hours = hours
        self.service = ToolService(folder / "data", fleet=_fleet(machines))
        self.machines = Machines(random)
        self.agents = Agents(folder / "agents")
        self.operators = Operators(self.service, random)
        self.resident: list[int] = []  # bytes, by hour

    def run(self, receiver: Receiver) -> None:
        """Live through the hours; the service is killed once, after half of them."""
        self.service.start()
        self.service.ok("POST", "/api/webhooks", {"name": "pager", "url": receiver.url})
        self.agents.start(self._with_agent(self._listed()))
        self._poll()  # the first poll enables Scheduled Events
        for hour in range(self.hours):
            if hour == self.hours // 2:
                self._restart()
            machines = self._listed()
            self.operators.work(hour, machines)
            self.operators.restart(self._with_agent(machines))
            self._pass_hour()
            self.resident.append(resident_bytes([self.service.process.pid]))
            print(f"hour {hour + 1}: {self._figures()}", flush=True)
        self._wait_until_quiet()

    def _restart(self) -> None:
        """Kill the service and the agents, and start them again."""
        self.machines.disconnect()
        self.service.__exit__()  # SIGKILL
        self.service.start()
        self.agents.start(self._with_agent(self._listed()))

    def _pass_hour(self) -> None:
        for _ in range(HOUR_SECONDS // POLL_SECONDS):
            self.agents.wait(self._with_agent(self._listed()))
            self.service.advance(POLL_SECONDS)
            self._poll()

    def _poll(self) -> None:
        machines = self._listed()
        with_agent = self._with_agent(machines)
        self.machines.poll_all([m for m in machines if m not in with_agent], self._now())

    @staticmethod
    def _with_agent(machines: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [machine for machine in machines if machine["name"].startswith(AGENT_MACHINES)]

    def _wait_until_quiet(self) -> None:
        for _ in range(QUIET_HOURS):
            self._pass_hour()
            if not self.service.ok("GET", "/api/operations?status=InProgress")["operations"]:
                return
        raise AssertionError(f"operations have not ended within {QUIET_HOURS} hours")

    def _listed(self) -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = []
        after = ""
        while True:
            page = self.service.ok("GET", f"/api/machines?limit=1000&after={after}")
            listed += page["machines"]
            after = page.get("next") or ""
            if not after:
                return listed

    def _now(self) -> datetime:
        return datetime.fromisoformat(self.service.ok("GET", "/api/clock")["now"])

    def _figures(self) -> str:
        return (
            f"{self.machines.polls} polls, {self.machines.approvals} approvals, "
            f"{len(self.machines.events)} events, {self.agents.drains} drains of agents, "
            f"{self.operators.requests} requests of operators, "
            f"{self.resident[-1] >> 20} MiB"
        )

    def check(self, receiver: Receiver) -> None:
        """Every event was reported to the webhook, memory is flat, and nothing went wrong."""
        reported = {post.json["data"].get("EventId") for post in receiver.posts}
        assert set(self.machines.events) <= reported, "events that were not reported to the webhook"
        first_third = self.resident[: max(1, self.hours // 3)]
        assert self.resident[-1] <= GROWTH * max(first_third), self.resident
        self.agents.stop()
        code, errors = self.service.stop()
        assert code == 0, code
        wrong = [line for line in errors.splitlines() if _is_wrong(line)]
        assert wrong == [], wrong[:5]


def _fleet(machines: int) -> str:
    """Two fifths in scale sets, three tenths in availability sets, the others alone."""
    sets = max(1, machines * 4 // 10 // SET_SIZE)
    availability_sets = max(1, machines * 3 // 10 // AVAILABILITY_SIZE)
    single = machines - sets * SET_SIZE - availability_sets * AVAILABILITY_SIZE - AGENTS
    lines = ["[console]", 'webhook_hosts = ["127.0.0.1"]']
    for number in range(sets):
        lines += ["[[scale_set]]", f'name = "web{number}"', f"capacity = {SET_SIZE}"]
        lines += ['terminate_notice = "PT5M"'] if number % 2 else []
    for number in range(availability_sets):
        lines += ["[[availability_set]]", f'name = "db{number}"']
        lines += [f"machines = {AVAILABILITY_SIZE}", "update_domains = 5"]
    lines += ["[[machine]]", f'name = "{AGENT_MACHINES}"', f"count = {AGENTS}"]
    lines += ["[[machine]]", 'name = "single"', f"count = {single}"] if single > 0 else []
    return "\n".join(lines)


def _is_wrong(line: str) -> bool:
    try:
        level = json.loads(line).get("level", "")
    except ValueError:
        return bool(line.strip())
    return level in {"error", "critical"}


def run(machines: int, hours: int, seed: int) -> None:
    """Run, and check everything."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        receiver = stack.enter_context(Receiver())
        soak = Soak(folder, machines, hours, seed)
        stack.callback(soak.service.__exit__)
        stack.callback(soak.agents.close)
        stack.callback(soak.machines.disconnect)
        soak.run(receiver)
        soak.check(receiver)


def main() -> None:
    """Run, with a line for each hour."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--machines", type=int, default=1000)
    parser.add_argument("--hours", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # ends its programs, too
    began = time.monotonic()
    run(options.machines, options.hours, options.seed)
    elapsed = time.monotonic() - began
    print(f"{options.hours} hours of {options.machines} machines in {elapsed:.0f} s")


if __name__ == "__main__":
    main()
