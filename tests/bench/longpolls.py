"""Long polls: what it takes to hold one, and how soon all of them have the new document."""

import json
from collections.abc import Mapping
from functools import partial
from statistics import median

from tests.bench import contenders, load
from tests.bench.contenders import GO, NGINX, OURS, Recipe, running
from tests.bench.figures import Result, Target
from tests.bench.measure import MICRO
from tests.bench.processes import most_descriptors
from tests.bench.stage import Stage

_OTHER_DESCRIPTORS = 100
_KIBI = 1 << 10
_MEMORY = "KiB each"
_LAST = "all, ms"
_DOCUMENT = (  # about as long as the one that tells of a restart
    b'{"DocumentIncarnation":2,"Events":[{"EventId":"00000000-0000-0000-0000-000000000000",'
    b'"EventStatus":"Scheduled","EventType":"Reboot","ResourceType":"VirtualMachine",'
    b'"Resources":["held_0"],"NotBefore":"Fri, 09 Jan 2026 12:15:00 GMT","Description":"Restart",'
    b'"EventSource":"User","DurationInSeconds":-1}]}'
)
_AT_MOST = {_MEMORY: 10.0, _LAST: 500.0}


def run(stage: Stage) -> Result:
    """Measure."""
    held = min(stage.effort.held, most_descriptors() - _OTHER_DESCRIPTORS)
    ours = contenders.holder(stage)
    peers, missing = contenders.peers(stage, ours.addresses, _DOCUMENT)
    recipes = [ours, *(peer for peer in peers if peer.name != NGINX)]
    stage.expect(len(recipes) * stage.effort.rounds)
    taken = stage.in_turn({one.name: partial(_round, stage, one, held) for one in recipes})
    rows = {
        name: {column: median(one[column] for one in found) for column in found[0]}
        for name, found in taken.items()
    }
    few = f"The limit of open files allows {held:,} here, not {stage.effort.held:,}."
    return Result(
        name="longpolls",
        title="Held long polls",
        about=f"{held:,} requests of {contenders.SCALE_SET} machines of one scope are held "
        "(`wait=60`, each on a connection of its own) when a machine is restarted. Memory: what "
        "the process grew by, without what the kernel keeps for a connection. Times are from the "
        "moment at which the restart was durable (SQLite) until the first client, half of them "
        "and all have the new document, and until the command was acknowledged. Beside it: "
        f"{GO}, whose document is another as soon as it is told; nginx cannot hold a request.",
        rows=rows,
        targets=tuple(
            Target(f"{held:,} held long polls: {column}", rows[OURS][column], bound, at_least=False)
            for column, bound in _AT_MOST.items()
        ),
        notes=(*([few] if held < stage.effort.held else []), *_about_go(missing)),
    )


def _about_go(missing: list[str]) -> list[str]:
    return [note for note in missing if not note.startswith(NGINX)]


def _round(stage: Stage, recipe: Recipe, held: int) -> dict[str, float]:
    with running(recipe) as server:
        (pid,) = server.process.pids()
        addresses = list(server.addresses)
        seen = load.probe(stage, "hold", server, addresses=addresses, held=held, pid=pid)
        told = json.loads(server.process.line()) if recipe.tells else None
    return _row(seen, told, held)


def _row(
    seen: Mapping[str, float], told: Mapping[str, float] | None, held: int
) -> dict[str, float]:
    """What the clients saw, since the change of which the server told, or else was told."""
    assert told is None or told["held"] == held, told
    since = told["durable"] if told else seen["told"]
    row = {
        _MEMORY: seen["memory"] / held / _KIBI,
        "CPU µs to answer": seen["cpu"] / held * MICRO,
        "first, ms": (seen["first"] - since) * 1e3,
        "half, ms": (seen["middle"] - since) * 1e3,
        _LAST: (seen["last"] - since) * 1e3,
    }
    if told:
        row["acknowledged, ms"] = (told["acknowledged"] - since) * 1e3
    return row
