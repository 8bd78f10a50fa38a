"""Kills the real `fairwarning up` while it is told what to do over TLS, and judges what is left.

`python -m tests.crash.operations --kills 100` kills at random under load.
"""

import argparse
import signal
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Self

from tests.crash.killed_service import VERSION, Credentials, KilledService, operation_url
from tests.crash.killing import Dead
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
_LONG_SECONDS = 2 * 3600  # of virtual time: every notice and every impact is over by then
_SIZES = range(2, 9)  # of the scale set


@dataclass(frozen=True)
class Asked:
    """A request that changes something."""

    what: str  # restart, redeploy, delete, create or scale
    name: str = ""
    capacity: int = 0


@dataclass
class Story:
    """What a client was told, over all lives of the service; it keeps its token and its URLs.

    A life that is not over at the end of the `with` block is ended.
    """

    folder: Path
    seed: int
    names: set[str] = field(default_factory=lambda: {f"vm_{n}" for n in range(12)})
    capacity: int = 6
    promises: dict[str, Asked] = field(default_factory=dict)  # by the URL of their operation
    kept: int = 0  # promises that were judged
    open: Asked | None = None  # asked, and not answered when the service died
    known: Credentials | None = None
    life: KilledService | None = None
    lives: int = 0

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.port = free_port()
        self.fleet = self.folder / "fleet.toml"
        self.fleet.write_text(FLEET, "utf-8")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.life and self.life.process.poll() is None:
            self.life.end(signal.SIGKILL)

    def begin(
        self, failpoint: str = "", *, judge: bool = True
    ) -> tuple[KilledService, Credentials]:
        """The next life of the service; every promise made in those before is judged first."""
        words = [] if self.lives else [str(self.fleet)]  # later it would bring back what is deleted
        service = KilledService(self.folder / "data", self.port, *words, failpoint=failpoint)
        life = self.life = service.start()
        known = self.known = self.known or life.credentials()
        self.lives += 1
        if judge:
            self._judge(life, known)
        for name in sorted(life.ready["machines"])[::2]:
            life.get(name)  # the others are not given notice, and some are gone
        return life, known

    # --- Load ---

    def load(self, life: KilledService, known: Credentials, requests: int = 8) -> None:
        """Requests, until it dies or all are made; time passes in between."""
        idle = sorted(self.names - {asked.name for asked in self.promises.values()})
        self.random.shuffle(idle)
        try:
            for number in range(requests):
                self.ask(life, known, self._some(idle))
                if number % 3 == 2:
                    life.advance_with(known, 90)
        except Dead:
            return

    def _some(self, idle: list[str]) -> Asked:
        what = self.random.choice(("restart", "redeploy", "delete", "create", "scale"))
        if what == "scale":
            return Asked(what, capacity=self.random.choice(_SIZES))
        if what == "create" or len(idle) < 6:
            return Asked("create", f"new{self.lives}-{self.random.getrandbits(32):08x}")
        return Asked(what, idle.pop())

    def ask(self, life: KilledService, known: Credentials, asked: Asked) -> Response:
        """Ask for something; what is acknowledged is expected from then on."""
        self.open = asked
        reply = _send(life, known, asked)
        self.open = None
        assert reply.status in {200, 201, 202}, (asked, reply.body)
        self._expect(asked)
        if url := operation_url(reply):
            self.promises[url] = asked
        return reply

    def _expect(self, asked: Asked) -> None:
        if asked.what == "create":
            self.names.add(asked.name)
        elif asked.what == "delete":
            self.names.discard(asked.name)
        elif asked.what == "scale":
            self.capacity = asked.capacity

    # --- Judgement ---

    def _judge(self, life: KilledService, known: Credentials) -> None:
        """E9: every URL is still good, every operation ends, and nothing is half there."""
        for url, asked in self.promises.items():
            told = life.arm(known, "GET", url)
            assert told.status == 200, f"the accepted {asked} is lost: {told.body!r}"
            assert told.json["status"] in {"InProgress", "Succeeded"}, (asked, told.json)
        _compare(life, known)
        life.advance_with(known, _LONG_SECONDS)
        for url, asked in self.promises.items():
            told = life.arm(known, "GET", url)
            assert told.json["status"] == "Succeeded", (asked, told.json)
        self.kept += len(self.promises)
        self.promises.clear()
        names, capacity = _compare(life, known, busy=False)
        if self.open and (names, capacity) != (self.names, self.capacity):
            self._expect(self.open)  # it was not acknowledged, but it was taken
        again, self.open = self.open, None
        assert not names ^ self.names
        assert capacity == self.capacity
        if again and again.what in {"restart", "redeploy"}:
            self.ask(life, known, again)  # whichever it was, it may be asked for again


def _send(life: KilledService, known: Credentials, asked: Asked) -> Response:
    machine = f"{COMPUTE}/virtualMachines/{asked.name}"
    if asked.what == "scale":
        size = {"sku": {"capacity": asked.capacity}}
        return life.arm(known, "PATCH", f"{SET}?{VERSION}", size)
    if asked.what == "create":
        return life.arm(known, "PUT", f"{machine}?{VERSION}", {"location": "local"})
    if asked.what == "delete":
        return life.arm(known, "DELETE", f"{machine}?{VERSION}")
    return life.arm(known, "POST", f"{machine}/{asked.what}?{VERSION}")


def _compare(life: KilledService, known: Credentials, *, busy: bool = True) -> tuple[set[str], int]:
    """What the control plane shows is what there is: the machines that stand alone, and a size."""
    there = life.machines(known)
    alone = _listed(life, known, f"{COMPUTE}/virtualMachines")
    instances = _listed(life, known, f"{SET}/virtualMachines")
    shown = {one["name"]: one for one in (*alone, *instances)}
    assert shown.keys() == there.keys(), shown.keys() ^ there.keys()
    for name, one in shown.items():
        state = one["properties"]["provisioningState"]
        assert busy or (state == "Succeeded" and not there[name]["events"]), (name, state)
    size = life.arm(known, "GET", f"{SET}?{VERSION}").json["sku"]["capacity"]
    leaving = [one for one in instances if one["properties"]["provisioningState"] == "Deleting"]
    assert size == len(instances) - len(leaving)
    return {one["name"] for one in alone}, size


def _listed(life: KilledService, known: Credentials, path: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    url = f"{path}?{VERSION}"
    while url:
        page = life.arm(known, "GET", url).json
        found += page["value"]
        url = page.get("nextLink", "")
    return found


# --- Deployments ----------------------------------------------------------------------------------


def template(number: int) -> dict[str, Any]:
    """An availability set with two machines, and a scale set of three."""
    place = f"[resourceId('Microsoft.Compute/availabilitySets', 'as{number}')]"
    compute = {"apiVersion": "2024-11-01", "location": "local"}
    return {
        "properties": {
            "mode": "Incremental",
            "template": {
                "$schema": "https://schema.management.azure.com/schemas/2019-04-01/"
                "deploymentTemplate.json#",
                "contentVersion": "1.0.0.0",
                "resources": [
                    {
                        **compute,
                        "type": "Microsoft.Compute/availabilitySets",
                        "name": f"as{number}",
                        "sku": {"name": "Aligned"},
                        "properties": {},
                    },
                    *(
                        {
                            **compute,
                            "type": "Microsoft.Compute/virtualMachines",
                            "name": f"as{number}-{at}",
                            "dependsOn": [place],
                            "properties": {"availabilitySet": {"id": place}},
                        }
                        for at in range(2)
                    ),
                    {
                        **compute,
                        "type": "Microsoft.Compute/virtualMachineScaleSets",
                        "name": f"ss{number}",
                        "sku": {"name": "Standard_B1s", "capacity": 3},
                        "properties": {"orchestrationMode": "Uniform"},
                    },
                ],
            },
        }
    }


def deploy(life: KilledService, known: Credentials, number: int) -> Response:
    """Send the template."""
    return life.arm(known, "PUT", f"{DEPLOYMENT}{number}?{VERSION}", template(number))


def judge_deployment(
    life: KilledService, known: Credentials, number: int, told: Response | None
) -> bool:
    """It is there if that was said, else it can be sent again; whether it had to be."""
    again = told is None and life.arm(known, "GET", f"{DEPLOYMENT}{number}?{VERSION}").status == 404
    parts = _parts(life, known, number)
    assert all(size in {0, whole} for size, whole in parts.values()), parts
    if again:
        told = deploy(life, known, number)
        assert told.status == 201, told.body
    if told:
        status = life.arm(known, "GET", operation_url(told))
        assert status.json == {"status": "Succeeded"}, status.body
    shown = life.arm(known, "GET", f"{DEPLOYMENT}{number}?{VERSION}").json
    assert shown["properties"]["provisioningState"] == "Succeeded"
    parts = _parts(life, known, number)
    assert all(size == whole for size, whole in parts.values()), parts
    return again


def _parts(life: KilledService, known: Credentials, number: int) -> dict[str, tuple[int, int]]:
    """How many machines there are of each part, and how many there are to be."""
    rules = life.machines(known)
    found = {}
    for name, whole in ((f"as{number}-0", 1), (f"as{number}-1", 1), (f"ss{number}", 3)):
        kind = "virtualMachines" if whole == 1 else "virtualMachineScaleSets"
        shown = life.arm(known, "GET", f"{COMPUTE}/{kind}/{name}?{VERSION}")
        there = sum(one == name or one.startswith(f"{name}_") for one in rules)
        assert (there > 0) == (shown.status == 200), (name, there, shown.body)
        found[name] = there, whole
    return found


# --- At random ------------------------------------------------------------------------------------


def kill_at_random(kills: int, seed: int, folder: Path) -> Story:
    """So many lives in one folder, each killed some time after its first request."""
    with Story(folder, seed) as story:
        for number in range(kills):
            life, known = story.begin()
            killer = threading.Timer(story.random.uniform(0.0, 0.08), life.process.kill)
            killer.start()
            story.load(life, known)
            killer.join()
            assert life.end() == -signal.SIGKILL
            if number % 20 == 19:
                print(f"{number + 1} kills, {story.kept} operations kept", flush=True)
        life, _ = story.begin()
        assert life.end(signal.SIGINT) == 0
    return story


def main() -> None:
    """Kill at random, as often as asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        story = kill_at_random(options.kills, options.seed, Path(folder))
    print(f"seed {options.seed}: {options.kills} kills, {story.kept} operations kept, none lost")


if __name__ == "__main__":
    main()
