"""Transcripts: a life cycle as a text file of commands and their outputs.

A block is a command line, `----`, and its output, up to an empty line. Outputs are documents as a
machine reads them (with line breaks and indents), impacts on machines, and refusals. Times are
relative to the start: `+15:00` is a quarter of an hour later.
"""

import json
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

from fairwarning.core.commands import (
    AbortRollout,
    Command,
    CreateScope,
    CreateSet,
    Degrade,
    Delete,
    Evict,
    Fail,
    Maintain,
    Operate,
    OperateInstances,
    PauseRollout,
    Recommend,
    Redeploy,
    Restart,
    ResumeRollout,
    Scale,
    StartRollout,
)
from fairwarning.core.decision import FactType
from fairwarning.core.errors import FairwarningError
from fairwarning.core.model import EvictionPolicy, ImpactKind, Machine, Priority, Rules, ScopeKind
from fairwarning.core.rollout import progress
from fairwarning.service.history.explanations import detail_text
from fairwarning.store.store import JournalEntry
from tests.fixtures.fleet import NEWEST, NOON, FleetHarness

OPERATIONS: dict[str, tuple[type[Operate], dict[str, object]]] = {
    "restart": (Restart, {}),
    "redeploy": (Redeploy, {}),
    "delete": (Delete, {}),
    "freeze": (Maintain, {}),
    "reboot-host": (Maintain, {"kind": ImpactKind.REBOOT}),
    "migrate": (Maintain, {"migration": True}),
    "evict": (Evict, {}),
    "recommend": (Recommend, {}),
    "fail": (Fail, {}),
}
OF_ROLLOUTS = {"pause": PauseRollout, "resume": ResumeRollout, "abort": AbortRollout}
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
FORMATS = {
    FactType.ENABLED: "{entity} is on",
    FactType.DISABLED: "{entity} is off",
    FactType.IMPACT_BEGUN: "{machine}: {why} begins",
    FactType.IMPACT_CARRIED_OUT: "{machine}: carried out",
    FactType.IMPACT_FAILED: "{machine}: failed, {why}",
    FactType.CANCELLED: "{machine}: called off, {why}",
    FactType.LAPSED: "{machine}: lapsed",
    FactType.MACHINE_REMOVED: "{machine}: gone",
    FactType.SCOPE_REMOVED: "{entity} is gone",
    FactType.OPERATION_ENDED: "operation {operation}: {why}",
    FactType.ROLLOUT_ENDED: "rollout {entity}: {why}",
}


def seconds(text: str) -> int:
    """Parse a duration such as `15m`."""
    match = re.fullmatch(r"(\d+)([smhd])", text)
    assert match, f"{text!r} is not a time: write 90s, 15m, 24h or 7d"
    return int(match[1]) * UNITS[match[2]]


def since_start(moment: float) -> str:
    """Format a time as `+15:00`, or `+24:00:00` from an hour on."""
    minutes, rest = divmod(round(moment - NOON), 60)
    hours, minutes = divmod(minutes, 60)
    return f"+{hours}:{minutes:02d}:{rest:02d}" if hours else f"+{minutes:02d}:{rest:02d}"


def pretty(body: bytes) -> list[str]:
    """Format a document with line breaks and indents; nothing else changes."""
    document = json.loads(body)
    lines = [f'{{"DocumentIncarnation":{document["DocumentIncarnation"]},"Events":[']
    for event in document["Events"]:
        fields = [
            json.dumps({name: value}, separators=(",", ":"))[1:-1] for name, value in event.items()
        ]
        lines += [f"   {field}," for field in fields]
        lines[-len(fields)] = f"  {{{fields[0]},"
        lines[-1] = lines[-1][:-1] + "},"
    lines[-1] = lines[-1].removesuffix(",") + "]}"
    assert "".join(line.lstrip() for line in lines).encode() == body
    return lines


class TranscriptRunner:
    """Runs the commands of a transcript."""

    def __init__(self, harness: FleetHarness) -> None:
        self.harness = harness
        self.operations = 0
        self.reported = 0  # journal lines

    def run(self, line: str) -> list[str]:
        """Run a command line; return its output."""
        verb, *words = shlex.split(line)
        try:
            output = self._do(verb, words)
        except FairwarningError as error:
            output = [f"refused {error.status} {error}"]
        return [*self._new_lines(), *output] or ["ok"]

    def _do(self, verb: str, words: list[str]) -> list[str]:
        if verb in OF_ROLLOUTS:
            return self._submit(OF_ROLLOUTS[verb](rollout=words[0]))
        if verb in OPERATIONS:
            action, more = OPERATIONS[verb]
            return self._submit(self._operation(action, words[0], tuple(words[1:]), **more))
        method: Callable[..., list[str]] = getattr(self, f"do_{verb.replace('-', '_')}")
        return method(*words)

    def _submit(self, command: Command) -> list[str]:
        self.harness.do(command)
        return []

    def _name(self) -> str:
        self.operations += 1
        return f"op{self.operations}"

    def _operation(
        self, action: type[Operate], scope: str, machines: tuple[str, ...], **more: object
    ) -> Operate:
        return action(scope=scope, operation=self._name(), machines=machines, **more)  # type: ignore[arg-type]

    def _new_lines(self) -> list[str]:
        """Format the new journal lines."""
        entries = self.harness.journal()[self.reported :]
        self.reported += len(entries)
        return [self._format(entry) for entry in entries if entry.line.fact.type in FORMATS]

    @staticmethod
    def _format(entry: JournalEntry) -> str:
        fact = entry.line.fact
        text = FORMATS[fact.type].format(
            entity=entry.line.entity[1],
            machine=",".join(fact.machines),
            operation=fact.operation,
            why=detail_text(fact),
        )
        return f"{since_start(entry.line.at)} {text}"

    # --- Fleets ---

    def do_machine(self, name: str, *words: str) -> list[str]:
        """`machine NAME [spot] [delete] [on HOST] [automatic]`: create a standalone machine."""
        host = words[words.index("on") + 1] if "on" in words else ""
        automatic = "automatic" in words
        self.harness.standalone(
            name,
            host=host,
            priority=Priority.SPOT if "spot" in words else Priority.REGULAR,
            eviction=EvictionPolicy.DELETE if "delete" in words else EvictionPolicy.DEALLOCATE,
            rules=Rules(approve_reboot=automatic, approve_redeploy=automatic),
        )
        return []

    def do_availability_set(self, name: str, machines: str, domains: str) -> list[str]:
        """`availability-set NAME MACHINES DOMAINS`."""
        self.harness.availability_set(name, int(machines), int(domains))
        return []

    def do_cloud_service(self, name: str, *roles: str) -> list[str]:
        """`cloud-service NAME ROLES...`."""
        machines = tuple(Machine(name=role) for role in roles)
        kind = ScopeKind.CLOUD_SERVICE
        return self._submit(CreateScope(scope=name, kind=kind, machines=machines))

    def do_scale_set(self, name: str, capacity: str, notice: str = "0s") -> list[str]:
        """`scale-set NAME CAPACITY [NOTICE]`."""
        return self._submit(
            CreateSet(set=name, capacity=int(capacity), terminate_seconds=seconds(notice))
        )

    # --- Operations ---

    def do_poll(self, scope: str, *versions: str) -> list[str]:
        """`poll SCOPE [VERSIONS...]`: its document at the newest version or at these."""
        published = self.harness.run(self.harness.fleet.poll(scope))
        return [
            line
            for version in versions or (NEWEST,)
            for line in [*([version] if versions else []), *pretty(published.body(version))]
        ]

    def do_approve(self, scope: str, *machines: str) -> list[str]:
        """`approve SCOPE [MACHINES...]`: the events of these machines, or all."""
        self.harness.approve(scope, *machines)
        return []

    def do_cancel(self, scope: str, machine: str) -> list[str]:
        """`cancel SCOPE MACHINE`: the event of that machine."""
        self.harness.cancel(scope, machine)
        return []

    def do_degrade(self, scope: str, machine: str, ahead: str) -> list[str]:
        """`degrade SCOPE MACHINE AHEAD`: predict a failure of its hardware."""
        when = int(self.harness.clock.now()) + seconds(ahead)
        return self._submit(self._operation(Degrade, scope, (machine,), not_before=when))

    def do_delete_instances(self, name: str, *ids: str) -> list[str]:
        """`delete-instances SET IDS...`."""
        command = OperateInstances(
            set=name, operation=self._name(), action=Delete, instances=tuple(map(int, ids))
        )
        return self._submit(command)

    def do_scale(self, name: str, capacity: str) -> list[str]:
        """`scale SET CAPACITY`."""
        return self._submit(Scale(set=name, operation=self._name(), capacity=int(capacity)))

    def do_rollout(self, name: str, *words: str) -> list[str]:
        """`rollout NAME SCOPES... [by-host]`: freeze their machines."""
        scopes = tuple(word for word in words if word != "by-host")
        return self._submit(StartRollout(rollout=name, scopes=scopes, by_host="by-host" in words))

    def do_advance(self, time: str) -> list[str]:
        """`advance TIME`: advance virtual time."""
        self.harness.advance(seconds(time))
        return [*self._new_lines(), f"now {since_start(self.harness.clock.now())}"]

    def do_restart_service(self) -> list[str]:
        """`restart-service`: stop the service and start it again on the same data."""
        self.harness.restart()
        return []

    # --- Inspection ---

    def do_machines(self, scope: str) -> list[str]:
        """`machines SCOPE`: its machines and their power states."""
        machines = self.harness.machines(scope).values()
        return [f"{machine.name} {machine.power}" for machine in machines] or ["none"]

    def do_progress(self, name: str) -> list[str]:
        """`progress ROLLOUT`."""
        rollout = self.harness.rollout(name)
        return [f"{rollout.status} {progress(rollout):.0%}"]

    def do_journal(self, scope: str) -> list[str]:
        """`journal SCOPE`: its journal lines."""
        return [
            " ".join(
                part
                for part in (
                    since_start(entry.line.at),
                    entry.line.actor,
                    entry.line.fact.type,
                    ",".join(entry.line.fact.machines),
                    f"({detail_text(entry.line.fact)})",
                )
                if part not in {"", "()"}
            )
            for entry in self.harness.journal()
            if entry.line.entity[1] == scope
        ]


def _blocks(text: str) -> Iterator[list[str]]:
    for block in re.split(r"\n{2,}", text.strip()):
        yield block.splitlines()


def replay(path: Path) -> str:
    """Run a transcript; return its text with the current outputs."""
    blocks = []
    with FleetHarness() as harness:
        runner = TranscriptRunner(harness)
        for lines in _blocks(path.read_text(encoding="utf-8")):
            if lines[0].startswith("#"):
                blocks.append("\n".join(lines))
            else:
                blocks.append("\n".join([lines[0], "----", *runner.run(lines[0])]))
    return "\n\n".join(blocks) + "\n"


def rows(path: Path) -> list[str]:
    """The contract rows of a transcript, from the parentheses of its first line."""
    first = path.read_text(encoding="utf-8").partition("\n")[0]
    match = re.fullmatch(r"# .*\((.*)\)", first)
    assert match, f"{path.name} must begin with '# title (ROWS)'"
    return match[1].split(", ")
