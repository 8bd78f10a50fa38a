"""Compares what clients saw, and what was done to machines, with what was committed."""

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
from tests.cluster.action_log import Action
from tests.cluster.cluster import History, Read, SubmittedCommand
from tests.cluster.commit_recorder import Tables
from tests.cluster.committed_state import CLOCKS_SECONDS, CommittedState
from tests.cluster.worker import VERSION
from tests.fixtures.waiting import on_this_machine
from tests.sim.invariants import id4, id7
from tests.sim.violations import must

LATE_SECONDS = 0.6  # that a commit may take after it was recorded


def check_all(
    committed: CommittedState,
    history: History,
    actions: Iterable[Action],
    *,
    staleness_seconds: float,
) -> None:
    """Check everything that a client or a machine could notice."""
    for submitted in history.commands:
        if submitted.outcome == "done":
            check_acknowledged(committed, submitted)
        elif submitted.outcome != "lost":
            check_refused(committed, submitted)
    for read in history.reads:
        if read.version is None:
            check_absent(committed, read, staleness_seconds)
        else:
            check_document(committed, read, staleness_seconds)
    check_monotonic(history)
    check_own_writes(committed, history)
    check_actions(committed, actions)


# --- Commands -------------------------------------------------------------------------------------


def check_acknowledged(committed: CommittedState, submitted: SubmittedCommand) -> None:
    """E9, IK2: an acknowledged command was committed."""
    command = submitted.command
    if isinstance(command, Operate | SetOperation):
        known = command.operation in committed.operations
        must(known, "E9", f"the acknowledged operation {command.operation} is lost")
    elif isinstance(command, Approve):
        for event in command.events:
            known_event = committed.events.get(event)
            # One that was cancelled may still be approved, without a line (M12).
            handled = known_event and (
                known_event.approved or event in committed.started or event in committed.gone_at
            )
            must(handled, "IL9", f"the acknowledged approval of {event} is lost")
    elif isinstance(command, CreateScope):
        must(command.scope in committed.states, "E9", f"the scope {command.scope} is lost")
    elif isinstance(command, StartRollout):
        must(command.rollout in committed.rollouts, "E9", f"{command.rollout} is lost")
    else:
        must(command.actor in committed.actors, "E9", f"{_short(command)} left no line")


def check_refused(committed: CommittedState, submitted: SubmittedCommand) -> None:
    """IL8: a refused command changed nothing, whatever the reason."""
    refusal = f"{_short(submitted.command)} was refused ({submitted.outcome})"
    left_lines = submitted.command.actor in committed.actors
    must(not left_lines, "IL8", f"{refusal}, and yet it left lines")


def _short(command: Command) -> str:
    return f"{type(command).__name__} by {command.actor}"


# --- Documents ------------------------------------------------------------------------------------


def check_document(committed: CommittedState, read: Read, staleness_seconds: float) -> None:
    """A document was committed (ID1, ID2) before, and not too long ago (IK3)."""
    assert read.version is not None
    state = committed.states.get(read.scope, {}).get(read.version)
    where = f"{read.scope} at version {read.version} through {read.process}"
    if state is None:
        must(False, "ID2", f"{where} was shown and never committed")
        return
    must(state.scope.incarnation, "IL12", f"{where} was shown while it was disabled")
    expected = document(state.scope, VERSION).decode()
    must(read.body == expected, "ID1", f"{where} is {read.body}, and was committed as {expected}")
    must(read.answered >= state.since, "ID2", f"{where} was shown before it was committed")
    age = read.sent - state.until
    oldest = staleness_seconds + on_this_machine(LATE_SECONDS)
    must(age <= oldest, "IK3", f"{where} is {age:.2f} s old")
    for event in json.loads(read.body)["Events"]:
        id4(event)
        id7(committed, read.scope, event)


def check_absent(committed: CommittedState, read: Read, staleness_seconds: float) -> None:
    """A scope that was not found did not exist: not yet, or no longer."""
    states = committed.states.get(read.scope)
    first = min(state.since for state in states.values()) if states else read.answered
    early = read.sent <= first + staleness_seconds + on_this_machine(LATE_SECONDS)
    removed = committed.removed.get(read.scope, float("inf")) <= read.answered
    must(early or removed, "IL11", f"{read.process} did not find {read.scope}, which exists")


def check_monotonic(history: History) -> None:
    """ID6: the versions of a scope that one process shows never go backwards."""
    newest: dict[tuple[str, str], Read] = {}
    for read in sorted(history.reads, key=lambda read: read.answered):
        if read.version is None:
            continue
        last = newest.get((read.process, read.scope))
        if last and last.version and last.answered <= read.sent:
            shown = f"{read.process} shows {read.scope} at {read.version}"
            must(read.version >= last.version, "ID6", f"{shown} after {last.version}")
        if not last or not last.version or read.version >= last.version:
            newest[read.process, read.scope] = read


def check_own_writes(committed: CommittedState, history: History) -> None:
    """A process shows what it acknowledged from then on."""
    acknowledged_by: dict[str, list[SubmittedCommand]] = defaultdict(list)
    for submitted in history.commands:
        if submitted.outcome == "done":
            acknowledged_by[submitted.process].append(submitted)
    for read in history.reads:
        for submitted in acknowledged_by[read.process] if read.version is not None else ():
            version = committed.accepted_in.get(submitted.command.actor, {}).get(read.scope, 0)
            must(
                submitted.answered > read.sent or (read.version or 0) >= version,
                "X2",
                f"{read.process} shows {read.scope} at {read.version} after its own {version}",
            )


# --- Machines -------------------------------------------------------------------------------------


def check_actions(committed: CommittedState, actions: Iterable[Action]) -> None:
    """IL5: each impact that began was executed once while its event was Started; no other was."""
    times: Counter[str] = Counter()
    outcomes: dict[str, str] = {}
    for action in actions:
        name = f"{action.impact} by {action.process}"
        must(action.impact in committed.began, "IL5", f"{name} was {action.word} and never began")
        if action.word == "begun":
            _check_time(committed, action)
            continue
        times[action.impact] += 1
        outcomes[action.impact] = action.word
        late = action.at - committed.over.get(action.impact, float("inf"))
        must(late <= 0, "IL5", f"{name} was {action.word} {late:.3f} s after it was over")
    for impact in committed.over:
        must(times[impact] == 1, "IL5", f"{impact} was executed {times[impact]} times")
    for line in committed.lines:
        carried_out = line.fact.type is FactType.IMPACT_CARRIED_OUT
        if (carried_out or line.fact.type is FactType.IMPACT_FAILED) and line.fact.event:
            impact = f"{line.fact.event}:{line.fact.machines[0]}"
            outcome = "done" if carried_out else "failed"
            if impact not in committed.began and carried_out:
                continue  # the machine was off: there was nothing to do
            done = outcomes[impact]
            must(outcome == done, "IL5", f"{impact} {done}, journaled as {outcome}")


def _check_time(committed: CommittedState, action: Action) -> None:
    early = committed.began[action.impact] - action.at
    must(early <= 0, "IL5", f"{action.impact} begins {early:.3f} s before that is durable")
    known = committed.events.get(action.impact.partition(":")[0])
    if known and not known.approved and known.event.status == "Scheduled":
        early = known.event.not_before - action.at
        in_time = early < on_this_machine(CLOCKS_SECONDS)
        must(in_time, "IL2", f"{action.impact} begins {early:.3f} s early")


# --- Tables ---------------------------------------------------------------------------------------


def check_tables(committed: CommittedState, tables: Tables) -> None:
    """The database contains everything that was committed and nothing else."""
    must(tables.numbers == list(range(1, len(committed.lines) + 1)), "IC7", "the journal has gaps")
    must(tables.lines == committed.lines, "IC7", "the journal differs from what was committed")
    versions = {ref: version for ref, version in committed.versions.items() if version != -1}
    must(tables.versions == versions, "IK1", "versions differ from what was committed")
    must(tables.bodies == committed.bodies, "IK1", "entities differ from what was committed")
    machines = {
        (scope, name): machine
        for scope, members in committed.machines.items()
        for name, machine in members.items()
        if (Scope, scope) in versions
    }
    must(tables.machines == machines, "IK1", "machines differ from what was committed")
