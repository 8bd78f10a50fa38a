"""Runs simulations, and shrinks the script of a violation as far as possible."""

import asyncio
import gc
import logging
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fairwarning.service import failpoints
from tests.sim.random_actions import Action, Advance, RandomActions, Read
from tests.sim.simulation import Simulation
from tests.sim.violations import Crash, Violation, must

SETTLING_SECONDS = 400 * 24 * 3600  # notices of a week, in many steps of a rollout


@dataclass(frozen=True, slots=True)
class Failure:
    """A violation, and the script that causes it."""

    seed: int
    step: int
    violation: Violation
    script: tuple[Action, ...]

    def __str__(self) -> str:
        return (
            f"{self.violation}\n  seed {self.seed}, step {self.step}, commit {_commit()}\n"
            f"  repeat: .venv/bin/python -m tests.sim --first {self.seed} --seeds 1"
        )


async def simulate(
    seed: int, steps: int, *, settle: bool = False, sqlite: bool = False
) -> Failure | None:
    """Simulate one seed; return the failure if an invariant is violated."""
    if not sqlite:
        return await _simulate(seed, steps, "", settle=settle)
    with tempfile.TemporaryDirectory() as folder:
        return await _simulate(seed, steps, str(Path(folder) / "fleet.db"), settle=settle)


async def _simulate(seed: int, steps: int, path: str, *, settle: bool) -> Failure | None:
    simulation = Simulation(seed, path)
    random_actions = RandomActions(seed, simulation.observer)
    script: list[Action] = []
    step = 0
    try:
        await simulation.start()
        for action in random_actions.fleet():
            script.append(action)
            await simulation.act(action)
        while simulation.steps < steps:
            step += 1
            action = random_actions.action()
            script.append(action)
            await simulation.act(action)
        if settle:
            await check_liveness(simulation)
    except Violation as violation:
        return Failure(seed, step, violation, tuple(script))
    finally:
        failpoints.arm(None)
        await simulation.store.close()
    return None


async def check_liveness(simulation: Simulation) -> None:
    """Check liveness: without faults, all work must end (IL6, IC1, IC4, IC6)."""
    failpoints.arm(None)
    simulation.disk.refuse = 0
    simulation.faults_stopped = True
    for _ in range(4):
        for scope in list(simulation.observer.scopes):
            await simulation.act(Read(scope, "2020-07-01"))
        await simulation.act(Advance(SETTLING_SECONDS / 4))
    for state in simulation.observer.scopes.values():
        must(not state.events, "IL6", f"{state.id} still shows {list(state.events)}")
        must(not state.impacts, "IL6", f"{state.id} still has {list(state.impacts)}")
    operations = list(simulation.observer.open_operations)
    must(not operations, "IC1", f"open: {operations}")
    for rollout in simulation.observer.rollouts.values():
        ended = rollout.done + rollout.failed + rollout.skipped
        if rollout.status == "Done":
            must(ended == rollout.machines, "IC6", f"{rollout.id} is done but counted {ended}")
        elif rollout.status == "Running":
            must(ended < rollout.machines and rollout.running, "IC6", f"{rollout.id} is stuck")


async def replay(seed: int, script: Sequence[Action]) -> Violation | None:
    """Run a script; return the violation that it causes, if any."""
    simulation = Simulation(seed)
    try:
        await simulation.start()
        for action in script:
            await simulation.act(action)
    except Violation as violation:
        return violation
    except (Crash, LookupError):
        return None  # shrinking made the script invalid
    finally:
        failpoints.arm(None)
    return None


async def shrink(failure: Failure) -> tuple[Action, ...]:
    """Remove actions for as long as the same invariant fails."""
    script = list(failure.script)
    size = max(len(script) // 2, 1)
    while True:
        position = 0
        while position < len(script):
            shorter = script[:position] + script[position + size :]
            violation = await replay(failure.seed, shorter)
            if violation and violation.invariant == failure.violation.invariant:
                script = shorter
            else:
                position += size
        if size == 1:
            return tuple(script)
        size = max(size // 2, 1)


async def simulate_many(
    seeds: range, steps: int, *, settle: bool = False, sqlite: bool = False
) -> Failure | None:
    """Simulate the seeds; return the first failure."""
    gc.disable()  # there are few reference cycles; collecting between seeds is enough
    try:
        for seed in seeds:
            if seed % 25 == 0:
                gc.collect()
            failure = await simulate(seed, steps, settle=settle, sqlite=sqlite)
            if failure:
                return failure
    finally:
        gc.enable()
    return None


def run(seeds: range, steps: int, *, settle: bool = False, sqlite: bool = False) -> Failure | None:
    """Simulate the seeds in a new event loop, without the service's log."""
    log = logging.getLogger("fairwarning")
    level = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        return asyncio.run(simulate_many(seeds, steps, settle=settle, sqlite=sqlite))
    finally:
        log.setLevel(level)


def _commit() -> str:
    """The revision of the checkout; "unknown" without git or outside of a clone."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    try:
        output = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    except OSError:
        output = ""
    return output.strip() or "unknown"
