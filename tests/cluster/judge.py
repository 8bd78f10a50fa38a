"""Holds what clients were told, and what was done to machines, against what was committed."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable

from fairwarning.core.commands import (
    Approve,
    Command,
    CreateScope,
    Operate,
    SetOperation,
    StartRollout,
)
from fairwarning.core.decision import FactType
from fairwarning.core.document import document
from fairwarning.core.model import Scope
from tests.cluster.acts import Act
from tests.cluster.history import Asked, History, Read
from tests.cluster.record import CLOCKS_SECONDS, Record
from tests.cluster.witness import Tables
from tests.cluster.worker import VERSION
from tests.sim.invariants import id4, id7
from tests.sim.violations import must

LATE_SECONDS = 0.6  # that a commit may take, on a busy machine, after the witness saw it


def judge(
    record: Record, history: History, done: Iterable[Act], *, staleness_seconds: float
) -> None:
    """Everything that a client or a machine could notice."""
    for asked in history.asked:
        if asked.outcome == "done":
            acknowledged(record, asked)
        elif asked.outcome != "lost":
            refused(record, asked)
    for read in history.reads:
        if read.version is None:
            absent(record, read, staleness_seconds)
        else:
            shown(record, read, staleness_seconds)
    monotonic(history)
    own_writes(record, history)
    acts_once(record, done)


# --- Commands -------------------------------------------------------------------------------------


def acknowledged(record: Record, asked: Asked) -> None:
    """E9, IK2: what was acknowledged was committed."""
    command = asked.command
    if isinstance(command, Operate | SetOperation):
        known = command.operation in record.operations
        must(known, "E9", f"the acknowledged operation {command.operation} is lost")
    elif isinstance(command, Approve):
        for event in command.events:
            found = record.events.get(event)
            approved = found and (found.approved or event in record.started)
            must(approved, "IL9", f"the acknowledged approval of {event} is lost")
    elif isinstance(command, CreateScope):
        must(command.scope in record.states, "E9", f"the scope {command.scope} is lost")
    elif isinstance(command, StartRollout):
        must(command.rollout in record.rollouts, "E9", f"{command.rollout} is lost")
    else:
        must(command.actor in record.actors, "E9", f"{_short(command)} left no line")


def refused(record: Record, asked: Asked) -> None:
    """IL8: what was refused changed nothing, whatever it was refused for."""
    must(
        asked.command.actor not in record.actors,
        "IL8",
        f"{_short(asked.command)} was refused ({asked.outcome}), and yet it left lines",
    )


def _short(command: Command) -> str:
    return f"{type(command).__name__} by {command.actor}"


# --- Documents ------------------------------------------------------------------------------------


def shown(record: Record, read: Read, staleness_seconds: float) -> None:
    """A document is one that was committed (ID1, ID2), by then, and not too long ago (IK3)."""
    assert read.version is not None
    state = record.states.get(read.scope, {}).get(read.version)
    where = f"{read.scope} at version {read.version} through {read.life}"
    if state is None:
        must(False, "ID2", f"{where} was shown and never committed")
        return
    must(state.scope.incarnation, "IL12", f"{where} was shown while it was off")
    expected = document(state.scope, VERSION).decode()
    must(read.body == expected, "ID1", f"{where} is {read.body}, and was committed as {expected}")
    must(read.answered >= state.since, "ID2", f"{where} was shown before it was committed")
    age = read.sent - state.until
    must(age <= staleness_seconds + LATE_SECONDS, "IK3", f"{where} is {age:.2f} s old")
    for event in json.loads(read.body)["Events"]:
        id4(event)
        id7(record, read.scope, event)


def absent(record: Record, read: Read, staleness_seconds: float) -> None:
    """A scope that is not there was not there: not yet, or no more."""
    states = record.states.get(read.scope)
    first = min(state.since for state in states.values()) if states else read.answered
    early = read.sent <= first + staleness_seconds + LATE_SECONDS
    gone = record.removed.get(read.scope, float("inf")) <= read.answered
    must(early or gone, "IL11", f"{read.scope} was not found through {read.life}, but is there")


def monotonic(history: History) -> None:
    """ID6: what one process shows of a scope never goes backwards."""
    newest: dict[tuple[str, str], Read] = {}
    for read in sorted(history.reads, key=lambda one: one.answered):
        if read.version is None:
            continue
        last = newest.get((read.life, read.scope))
        if last and last.version and last.answered <= read.sent:
            must(
                read.version >= last.version,
                "ID6",
                f"{read.life} shows {read.scope} at {read.version} after {last.version}",
            )
        if not last or not last.version or read.version >= last.version:
            newest[read.life, read.scope] = read


def own_writes(record: Record, history: History) -> None:
    """What a process acknowledged, it shows from then on."""
    acknowledged_by: dict[str, list[Asked]] = defaultdict(list)
    for asked in history.asked:
        if asked.outcome == "done":
            acknowledged_by[asked.life].append(asked)
    for read in history.reads:
        for asked in acknowledged_by[read.life] if read.version is not None else ():
            made = record.accepted_in.get(asked.command.actor, {}).get(read.scope, 0)
            must(
                asked.answered > read.sent or (read.version or 0) >= made,
                "X2",
                f"{read.life} shows {read.scope} at {read.version}, having made {made} itself",
            )


# --- Machines -------------------------------------------------------------------------------------


def acts_once(record: Record, done: Iterable[Act]) -> None:
    """IL5: each impact that began was done, once, while its event was Started; no other was."""
    times: Counter[str] = Counter()
    outcomes: dict[str, str] = {}
    for act in done:
        name = f"{act.impact} by {act.process}"
        must(act.impact in record.began, "IL5", f"{name} was {act.word} and never began")
        if act.word == "begun":
            _in_time(record, act)
            continue
        times[act.impact] += 1
        outcomes[act.impact] = act.word
        late = act.at - record.over.get(act.impact, float("inf"))
        must(late <= 0, "IL5", f"{name} was {act.word} {late:.3f} s after it was over")
    for impact in record.over:
        must(times[impact] == 1, "IL5", f"{impact} was carried out {times[impact]} times")
    for line in record.lines:
        carried_out = line.fact.type is FactType.IMPACT_CARRIED_OUT
        if (carried_out or line.fact.type is FactType.IMPACT_FAILED) and line.fact.event:
            impact = f"{line.fact.event}:{line.fact.machines[0]}"
            outcome = "done" if carried_out else "failed"
            must(
                outcome == outcomes[impact],
                "IL5",
                f"{impact} {outcomes[impact]}, journaled as {outcome}",
            )


def _in_time(record: Record, act: Act) -> None:
    early = record.began[act.impact] - act.at
    must(early <= 0, "IL5", f"{act.impact} begins {early:.3f} s before that is durable")
    known = record.events.get(act.impact.partition(":")[0])
    if known and not known.approved and known.event.status == "Scheduled":
        early = known.event.not_before - act.at
        must(early < CLOCKS_SECONDS, "IL2", f"{act.impact} begins {early:.3f} s early")


# --- Tables ---------------------------------------------------------------------------------------


def kept(record: Record, tables: Tables) -> None:
    """The database holds what was committed, all of it and nothing else."""
    must(tables.numbers == list(range(1, len(record.lines) + 1)), "IC7", "the journal has gaps")
    must(tables.lines == record.lines, "IC7", "the journal is not what was committed")
    versions = {ref: version for ref, version in record.versions.items() if version != -1}
    must(tables.versions == versions, "IK1", "entities are not at the version that was committed")
    must(tables.bodies == record.bodies, "IK1", "entities are not what was committed")
    machines = {
        (scope, name): machine
        for scope, ones in record.machines.items()
        for name, machine in ones.items()
        if (Scope, scope) in versions
    }
    must(tables.machines == machines, "IK1", "machines are not what was committed")
