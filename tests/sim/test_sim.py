"""Simulations of the production engine: P1, P2, P4 and P25 of the test plan."""

import asyncio
import sys

import pytest

from tests.campaigns import split
from tests.fixtures.programs import ROOT, run_program
from tests.sim.plants import PLANTS, SOURCE
from tests.sim.run import Failure, run, shrink

SHARDS = 200
SEEDS = 2_000 // SHARDS
STEPS = 2_000


def _report(failure: Failure | None) -> None:
    if failure:
        script = asyncio.run(shrink(failure))
        pytest.fail("\n    ".join([str(failure), *map(str, script)]), pytrace=False)


@pytest.mark.spec("E2", "E4", "E5", "E9", "E10", "M10", "M11", "M15", "M16", "T6", "T7")
@pytest.mark.parametrize("shard", split(range(SHARDS), 1))
def test_no_invariant_is_violated(shard: int) -> None:
    """Every invariant holds over 2,000 seeds of 2,000 steps with crashes and full disks."""
    _report(run(range(shard * SEEDS, (shard + 1) * SEEDS), STEPS))


@pytest.mark.spec("E2", "E7")
@pytest.mark.parametrize("shard", split(range(10), 1))
def test_all_work_ends(shard: int) -> None:
    """After faults stop, every event, operation and rollout ends, and the counts add up."""
    _report(run(range(10_000 + shard * 20, 10_020 + shard * 20), 300, settle=True))


@pytest.mark.spec("E9")
@pytest.mark.parametrize("shard", split(range(8), 1))
def test_no_invariant_is_violated_on_sqlite(shard: int) -> None:
    """The same invariants hold on SQLite, with restarts from the file."""
    _report(run(range(20_000 + shard * 3, 20_003 + shard * 3), 400, sqlite=True))


def test_every_patch_fits_the_source() -> None:
    """A change of the source that a planted bug has to follow is noticed before the campaigns."""
    patches = [patch for plant in PLANTS.values() for patch in plant.patches]
    sources = {patch.module: SOURCE / f"{patch.module.replace('.', '/')}.py" for patch in patches}
    texts = {module: path.read_text("utf-8") for module, path in sources.items()}
    assert [patch for patch in patches if patch.old not in texts[patch.module]] == []


@pytest.mark.parametrize("name", split(PLANTS, 6))
def test_a_planted_bug_is_found(name: str) -> None:
    """The simulator finds each planted bug within 10,000 seeds, and names the right invariant."""
    seeds = ("--first", str(PLANTS[name].first_seed), "--seeds", "10000", "--no-shrink")
    done = run_program(sys.executable, "-m", "tests.sim", "--plant", name, *seeds, cwd=ROOT)
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stdout.partition(":")[0] in PLANTS[name].breaks, done.stdout + done.stderr


def test_a_failure_is_reported_and_shrunk() -> None:
    """A failure has its seed, step and commit, and a minimal script."""
    words = ("-m", "tests.sim", "--plant", "round notice down", "--seeds", "1")
    first, second, third, *script = run_program(
        sys.executable, *words, cwd=ROOT
    ).stdout.splitlines()
    assert first.startswith("IL3: ")
    assert "seed 0, step " in second
    assert third.strip() == "repeat: .venv/bin/python -m tests.sim --first 0 --seeds 1"
    assert 1 <= len(script) <= 4, "a fleet, a poll and an operation are enough"
