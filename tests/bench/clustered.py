"""Two processes on one PostgreSQL: how soon a change made through one is seen through the other."""

from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit

from fairwarning.server.ready import read_ready
from tests.bench import contenders
from tests.bench.across import ANOTHER
from tests.bench.contenders import Contender, running
from tests.bench.figures import Result, Target
from tests.bench.fleets import SMALL_FLEET
from tests.bench.homes import Databases, on_postgresql
from tests.bench.processes import CORES
from tests.bench.stage import Stage

Rows = dict[str, dict[str, float]]

_NAME = "cluster-visible"
_TITLE = "From one process to another"
_PEER = "PostgreSQL alone: a row is written → a listener has heard"
_AT_MOST = 50.0
_ABOUT = (
    f"Two `fairwarning up` on one PostgreSQL with {SMALL_FLEET} machines. One machine is restarted "
    "through the operator's API of one of them, and the event cancelled through that of the "
    "other, again and again; through both the machine holds a long poll. Times are from the "
    "moment at which a command is sent until it is acknowledged, and until the new document is "
    "there. Beside it: one connection writes a row and notifies, another listens."
)


def run(stage: Stage) -> Result:
    """Measure."""
    return on_postgresql(stage, _NAME, _TITLE, _ABOUT, _run)


def _run(stage: Stage, home: Databases) -> Result:
    url, changes = home.copy(SMALL_FLEET, "seen"), stage.effort.changes
    with ExitStack() as stack:
        words = [home.words(url, f"seen-{at}") for at in range(2)]
        places = [_place(stack.enter_context(_up(stage, one)), one) for one in words]

        def ours() -> Rows:
            found: Rows = stage.probe("across", places=places, changes=changes)
            return found

        def peer() -> Rows:
            return {_PEER: stage.probe("notified", url=home.server.url(), changes=changes)}

        stage.expect(2 * stage.effort.rounds)
        taken = stage.in_turn({"ours": ours, "peer": peer})
    rows = {
        name: {column: median(one[name][column] for one in found) for column in row}
        for found in taken.values()
        for name, row in found[0].items()
    }
    value = rows[ANOTHER]["p99 ms"]
    target = Target(f"{ANOTHER}: p99 ms", value, _AT_MOST, at_least=False)
    return Result(_NAME, _TITLE, _ABOUT, rows, (target,))


def _up(stage: Stage, words: list[str]) -> AbstractContextManager[Contender]:
    folder = stage.folder / Path(words[-1]).name
    recipe = contenders.kept(folder, contenders.OURS, contenders.addresses(1), words)
    return running(replace(recipe, cores=CORES))


def _place(server: Contender, words: list[str]) -> dict[str, str | int]:
    """Where a machine asks, and where people do."""
    ready = read_ready(Path(words[-1]))
    return {
        "address": server.addresses[0],
        "port": server.port,
        "host": urlsplit(ready["console"]).netloc,
        "token": ready["token"],
    }
