"""Transcripts: a life cycle as a text file of commands and what came of each.

A block is a command line, `----`, and its output, up to an empty line. Outputs are documents as a
machine reads them (line breaks and indents added, nothing else), what was done to machines, and
refusals. Times count from the start: `+15:00` is a quarter of an hour later.
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
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
TOLD = {
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
    """`15m` and the like."""
    found = re.fullmatch(r"(\d+)([smhd])", text)
    assert found, f"{text!r} is not a time: write 90s, 15m, 24h or 7d"
    return int(found[1]) * UNITS[found[2]]


def since_start(moment: float) -> str:
    """`+15:00`, or `+24:00:00` from an hour on."""
    minutes, rest = divmod(round(moment - NOON), 60)
    hours, minutes = divmod(minutes, 60)
    return f"+{hours}:{minutes:02d}:{rest:02d}" if hours else f"+{minutes:02d}:{rest:02d}"


def pretty(body: bytes) -> list[str]:
    """A document with line breaks and indents; without them it is what was sent, to the byte."""
    whole = json.loads(body)
    lines = [f'{{"DocumentIncarnation":{whole["DocumentIncarnation"]},"Events":[']
    for event in whole["Events"]:
        fields = [json.dumps({k: v}, separators=(",", ":"))[1:-1] for k, v in event.items()]
        lines += [f"   {field}," for field in fields]
        lines[-len(fields)] = f"  {{{fields[0]},"
        lines[-1] = lines[-1][:-1] + "},"
    lines[-1] = lines[-1].removesuffix(",") + "]}"
    assert "".join(line.lstrip() for line in lines).encode() == body
    return lines


class Stage:
    """Carries out the lines of a transcript."""

    def __init__(self, harness: FleetHarness) -> None:
        self.harness = harness
        self.operations = 0
        self.told = 0

    def play(self, line: str) -> list[str]:
        """One command line; what came of it."""
        verb, *words = shlex.split(line)
        try:
            said = self._do(verb, words)
        except FairwarningError as error:
            said = [f"refused {error.status} {error}"]
        return [*self._news(), *said] or ["ok"]

    def _do(self, verb: str, words: list[str]) -> list[str]:
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

    def _news(self) -> list[str]:
        """What the journal has to tell since it was last asked."""
        entries = self.harness.journal()[self.told :]
        self.told += len(entries)
        return [self._tell(entry) for entry in entries if entry.line.fact.type in TOLD]

    @staticmethod
    def _tell(entry: JournalEntry) -> str:
        fact = entry.line.fact
        text = TOLD[fact.type].format(
            entity=entry.line.entity[1],
            machine=",".join(fact.machines),
            operation=fact.operation,
            why=detail_text(fact),
        )
        return f"{since_start(entry.line.at)} {text}"

    # --- Fleets ---

    def do_machine(self, name: str, *words: str) -> list[str]:
        """`machine NAME [spot] [delete] [on HOST] [automatic]`: a standalone one."""
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

    # --- What happens to it ---

    def do_poll(self, scope: str, *versions: str) -> list[str]:
        """`poll SCOPE [VERSIONS...]`: what its machines read, at the newest version or at these."""
        published = self.harness._runner.run(self.harness.fleet.poll(scope))
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
        """`degrade SCOPE MACHINE AHEAD`: its hardware is going to fail."""
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
        """`rollout NAME SCOPES... [by-host]`: freezes them in turn."""
        scopes = tuple(word for word in words if word != "by-host")
        return self._submit(StartRollout(rollout=name, scopes=scopes, by_host="by-host" in words))

    def do_pause(self, name: str) -> list[str]:
        """`pause ROLLOUT`."""
        return self._submit(PauseRollout(rollout=name))

    def do_resume(self, name: str) -> list[str]:
        """`resume ROLLOUT`."""
        return self._submit(ResumeRollout(rollout=name))

    def do_abort(self, name: str) -> list[str]:
        """`abort ROLLOUT`."""
        return self._submit(AbortRollout(rollout=name))

    def do_advance(self, time: str) -> list[str]:
        """`advance TIME`: let it pass."""
        self.harness.advance(seconds(time))
        return [*self._news(), f"now {since_start(self.harness.clock.now())}"]

    def do_restart_service(self) -> list[str]:
        """`restart-service`: stop ours and start it again on the same data."""
        self.harness.restart()
        return []

    # --- What there is to see ---

    def do_machines(self, scope: str) -> list[str]:
        """`machines SCOPE`: who is there, and whether it runs."""
        return [f"{m.name} {m.power}" for m in self.harness.machines(scope).values()] or ["none"]

    def do_progress(self, name: str) -> list[str]:
        """`progress ROLLOUT`."""
        rollout = self.harness.rollout(name)
        return [f"{rollout.status} {progress(rollout):.0%}"]

    def do_journal(self, scope: str) -> list[str]:
        """`journal SCOPE`: everything that was noted of it."""
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
    """Play a transcript; the same text with the outputs as they are now."""
    out = []
    with FleetHarness() as harness:
        stage = Stage(harness)
        for lines in _blocks(path.read_text(encoding="utf-8")):
            if lines[0].startswith("#"):
                out.append("\n".join(lines))
            else:
                out.append("\n".join([lines[0], "----", *stage.play(lines[0])]))
    return "\n\n".join(out) + "\n"


def rows(path: Path) -> list[str]:
    """The contract's rows that a transcript shows: its first line names them in brackets."""
    first = path.read_text(encoding="utf-8").partition("\n")[0]
    found = re.fullmatch(r"# .*\((.*)\)", first)
    assert found, f"{path.name} must begin with '# title (ROWS)'"
    return found[1].split(", ")
