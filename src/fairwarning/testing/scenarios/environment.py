"""The cloud that a scenario runs in, and the objects that the scenario names."""

from http import HTTPStatus
from typing import Self

from fairwarning.core.errors import NotFound, Unavailable
from fairwarning.guest.events import Document, Unreadable, read
from fairwarning.testing.cloud import (
    Cloud,
    MachineHandle,
    OperationHandle,
    RolloutHandle,
    ScaleSetHandle,
)
from fairwarning.testing.handles import NEWEST
from fairwarning.testing.service import ask

ANSWERS = ("document", "empty", "unreadable", "none", "400", "404", "410", "429", "500", "503")
"""Possible results of a poll; `none` is a connection that closed before a complete answer."""

_POLL_SECONDS = 12 * 3600  # machines poll regularly; a day without polls disables the feature


class ScenarioEnvironment:
    """A running cloud; leaving the context closes it."""

    def __init__(self, cloud: str, fleet: str, silent: str) -> None:
        """Create the cloud from fleet file texts; the machines of `silent` never poll."""
        self.cloud = Cloud(cloud)
        self.rollouts: dict[str, RolloutHandle] = {}
        self.operations: dict[str, list[OperationHandle]] = {}
        self.events: dict[str, str] = {}  # ids, by the names that expectations give them
        self.seconds = 0  # since the start
        self._started = int(self.cloud.now.timestamp())
        self._polled = 0  # time of the last regular polls
        try:
            self._polling = self.cloud.load(fleet)
            silent_machines = self.cloud.load(silent, enabled=False)
        except BaseException:
            self.cloud.close()
            raise
        self._machines = {machine.name: machine for machine in (*self._polling, *silent_machines)}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.cloud.close()

    # --- Named objects ---

    def machine(self, name: str) -> MachineHandle:
        """Return the machine with this name, even if it has been deleted."""
        if name not in self._machines:
            self._machines[name] = self.cloud.find(name)
        return self._machines[name]

    def scale_set(self, name: str) -> ScaleSetHandle:
        """Return the scale set with this name."""
        return self.cloud.find_set(name)

    def rollout(self, name: str) -> RolloutHandle:
        """Return the rollout that a step gave this name."""
        if name not in self.rollouts:
            raise NotFound("UnknownRollout", f"rollout {name!r} does not exist: it was refused")
        return self.rollouts[name]

    def operation(self, name: str) -> list[OperationHandle]:
        """Return the operations that a step gave this name, one for each of its machines."""
        if name not in self.operations:
            raise NotFound("UnknownOperation", f"operation {name!r} does not exist: it was refused")
        return self.operations[name]

    # --- Time ---

    def advance(self, seconds: int) -> None:
        """Advance the clock to `seconds` after the start."""
        while self.seconds < seconds:
            target = min(seconds, self._polled + _POLL_SECONDS)
            self.cloud.advance(target - self.seconds)
            self.seconds = target
            if target == self._polled + _POLL_SECONDS:
                self._poll_all()

    def keep_polling(self, machine: MachineHandle) -> None:
        """Add a machine to those that poll regularly."""
        if machine not in self._polling:
            self._polling.append(machine)

    def _poll_all(self) -> None:
        self._polled = self.seconds
        for scope in {machine.scope for machine in self._polling}:
            for machine in self._polling:
                if machine.scope == scope and poll(machine)[0] == "document":
                    break

    def since(self, epoch_seconds: float) -> int:
        """Return the seconds from the start to a time."""
        return int(epoch_seconds) - self._started


def poll(machine: MachineHandle, version: str = NEWEST) -> tuple[str, Document]:
    """Poll as a machine, over HTTP; return one of `ANSWERS` and the document."""
    no_document = Document()
    try:
        status, body = ask(machine.url, "GET", f"/metadata/scheduledevents?api-version={version}")
    except Unavailable:
        return "none", no_document
    if status != HTTPStatus.OK:
        return str(status), no_document
    if not body.strip():
        return "empty", no_document
    try:
        return "document", read(body)
    except Unreadable:
        return "unreadable", no_document
