"""The campaigns of a release: how much of each, and the commands that do a part of it."""

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.mutants.__main__ import LEAST_CAUGHT

KILLS = 50  # in one run
IMAGES = 400
SEEDS = 10
SIMULATED_SEEDS, STEPS = 250, 2000
HOURS = 24
RESPONSES = 25_000
MUTANTS = 300
MINUTES = 5  # of processor time; fewer than a thousand seeds

ENGINE = "core", "service", "store"
WITHOUT_POSTGRES = "core", "service", "store/*.py", "store/sql"
SURFACES = "arm", "console", "metadata"
GUEST = ("guest",)
ALL = ("*",)


@dataclass(frozen=True)
class Campaign:
    """Runs of a command, each with other seeds, until enough was done."""

    name: str
    unit: str
    goal: int
    per_run: int
    """How much a run does, at least."""
    packages: tuple[str, ...]
    """Patterns of what it tests: when that changes, all runs have to be done again."""
    words: Callable[[int], tuple[str, ...]]
    """The module and its arguments, by the number of the run."""
    printed: str = ""
    """An expression that finds how much a run has done in what it printed."""

    def command(self, run: int) -> list[str]:
        """Return the command line of a run."""
        module, *arguments = self.words(run)
        return [sys.executable, "-m", module, *arguments]

    def amount(self, output: str) -> int:
        """Return how much a run has done, by what it printed."""
        if not self.printed:
            return self.per_run
        return sum(map(int, re.findall(self.printed, output)))


@dataclass
class Done:
    """What was done of one campaign, for one version of the code that it tests."""

    source: str
    runs: list[int] = field(default_factory=list)
    count: int = 0
    seconds: float = 0.0


CAMPAIGNS = (
    Campaign(
        "mutants",
        f"of {MUTANTS} random changes of the rules noticed by a test or a simulated seed",
        int(MUTANTS * LEAST_CAUGHT),
        int(MUTANTS * LEAST_CAUGHT),
        ENGINE,
        lambda run: ("tests.mutants", "--count", str(MUTANTS), "--seed", str(run)),
        printed=r"(\d+) of \d+ mutants caught",
    ),
    Campaign(
        "soak",
        "virtual hours of a thousand machines",
        24,
        HOURS,
        ALL,
        lambda run: ("tests.release.campaigns.soak", "--hours", str(HOURS), "--seed", str(run)),
    ),
    Campaign(
        "cluster",
        "seeds of processes that are killed, paused and disconnected",
        500,
        SEEDS,
        ENGINE,
        lambda run: ("tests.cluster", str(SEEDS * run), "--to", str(SEEDS * run + SEEDS - 1)),
    ),
    Campaign(
        "kills",
        "kills with SIGKILL under load",
        1000,
        KILLS,
        WITHOUT_POSTGRES,
        lambda run: ("tests.crash.killing", "--kills", str(KILLS), "--seed", str(run)),
    ),
    Campaign(
        "images",
        "images of power loss",
        100_000,
        IMAGES,
        WITHOUT_POSTGRES,
        lambda run: ("tests.crash.power", "1", str(run)),
        printed=r"(\d+) images so far",
    ),
    Campaign(
        "requests",
        "requests of a hostile tenant and of a careless operator",
        1_000_000,
        1,
        ENGINE + SURFACES,
        lambda run: ("tests.hostile", str(MINUTES), str(1 + 1000 * run)),
        printed=r"(\d+) requests",
    ),
    Campaign(
        "responses",
        "mutated responses to both clients of the SDK and to the agent",
        1_000_000,
        RESPONSES,
        GUEST,
        lambda run: ("tests.guest.fuzz", str(RESPONSES), str(run * RESPONSES)),
    ),
    Campaign(
        "simulation",
        "simulated steps",
        100_000_000,
        SIMULATED_SEEDS * STEPS,
        WITHOUT_POSTGRES,
        lambda run: (
            *("tests.sim", "--first", str(SIMULATED_SEEDS * run)),
            *("--seeds", str(SIMULATED_SEEDS), "--steps", str(STEPS)),
        ),
    ),
)
