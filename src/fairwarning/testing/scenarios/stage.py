"""The cloud that a scenario is played in, and what the scenario has names for."""

from http import HTTPStatus
from types import TracebackType
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
"""What a poll may come back with; `none` is a connection that ended before all was said."""

_ASK_SECONDS = 12 * 3600  # machines go on asking: a day of silence would switch the feature off


class ScenarioStage:
    """Up from the beginning; `with` ends it."""

    def __init__(self, cloud: str, fleet: str, silent: str) -> None:
        """`cloud`, `fleet` and `silent` are fleet files' texts; machines of the last never ask."""
        self.cloud = Cloud(cloud)
        self.rollouts: dict[str, RolloutHandle] = {}
        self.operations: dict[str, list[OperationHandle]] = {}
        self.events: dict[str, str] = {}  # ids, by the names that expectations give them
        self.seconds = 0  # since the beginning
        self._began = int(self.cloud.now.timestamp())
        self._asked = 0  # when machines were last made to ask
        try:
            self._asking = self.cloud.load(fleet)
            quiet = self.cloud.load(silent, enabled=False)
        except BaseException:
            self.cloud.close()
            raise
        self._known = {machine.name: machine for machine in (*self._asking, *quiet)}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.cloud.close()

    # --- What has a name ---

    def machine(self, name: str) -> MachineHandle:
        """The machine of this name, also when it is gone."""
        if name not in self._known:
            self._known[name] = self.cloud.find(name)
        return self._known[name]

    def scale_set(self, name: str) -> ScaleSetHandle:
        """The scale set of this name."""
        return self.cloud.find_set(name)

    def rollout(self, name: str) -> RolloutHandle:
        """The rollout that a step called so."""
        if name not in self.rollouts:
            raise NotFound("UnknownRollout", f"the rollout {name!r} was refused, so there is none")
        return self.rollouts[name]

    def operation(self, name: str) -> list[OperationHandle]:
        """The operations that a step called so: one for each of its machines."""
        if name not in self.operations:
            raise NotFound("UnknownOperation", f"{name!r} was refused, so there is no operation")
        return self.operations[name]

    # --- Time ---

    def advance(self, seconds: int) -> None:
        """Let time pass up to so many seconds from the beginning."""
        while self.seconds < seconds:
            goal = min(seconds, self._asked + _ASK_SECONDS)
            self.cloud.advance(goal - self.seconds)
            self.seconds = goal
            if goal == self._asked + _ASK_SECONDS:
                self._ask()

    def asks(self, machine: MachineHandle) -> None:
        """It has asked for its events, and goes on asking."""
        if machine not in self._asking:
            self._asking.append(machine)

    def _ask(self) -> None:
        self._asked = self.seconds
        for scope in {machine.scope for machine in self._asking}:
            for machine in self._asking:
                if machine.scope == scope and poll(machine)[0] == "document":
                    break

    def since(self, epoch_seconds: float) -> int:
        """Seconds from the beginning to a moment."""
        return int(epoch_seconds) - self._began


def poll(machine: MachineHandle, version: str = NEWEST) -> tuple[str, Document]:
    """What a machine that asks is answered, over HTTP: one of `ANSWERS`, and the document."""
    nothing = Document()
    try:
        status, body = ask(machine.url, "GET", f"/metadata/scheduledevents?api-version={version}")
    except Unavailable:
        return "none", nothing
    if status != HTTPStatus.OK:
        return str(status), nothing
    if not body.strip():
        return "empty", nothing
    try:
        return "document", read(body)
    except Unreadable:
        return "unreadable", nothing
