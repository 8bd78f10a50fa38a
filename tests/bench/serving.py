"""What a poll costs the server, beside nginx and a twin in Go."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from tests.bench import contenders, load
from tests.bench.contenders import GO, NGINX, OURS
from tests.bench.figures import Result, Target
from tests.bench.measure import Sample, middle
from tests.bench.stage import Stage

_KEPT = "keep-alive"
_FRESH = "fresh connection"
_KINDS = {_KEPT: "", _FRESH: "close"}
_HIT = f"{OURS}, with another query, always the same"
_MISSED = f"{OURS}, with another query each time (memo missed)"
_READ = f"{OURS}, with another header each time (read in full)"
_AT_LEAST = {(_KEPT, NGINX): 0.95, (_KEPT, GO): 3.0, (_FRESH, NGINX): 0.6, (_FRESH, GO): 1.3}
_MISS_AT_MOST = 2.0
_SEPARATOR = ": "


def run(stage: Stage) -> Result:
    """Measure."""
    ours = contenders.in_memory(stage, contenders.SCALE_SET)
    with contenders.beside(stage, ours) as (servers, missing):
        runs: dict[tuple[str, str], Callable[[], Sample]] = {
            (kind, server.name): partial(load.flood, stage, server, word)
            for kind, word in _KINDS.items()
            for server in servers
        }
        runs[_KEPT, _HIT] = partial(load.flood, stage, servers[0], "same")
        runs[_KEPT, _MISSED] = partial(load.flood, stage, servers[0], "changing")
        runs[_KEPT, _READ] = partial(load.flood, stage, servers[0], "header")
        stage.expect(len(runs) * stage.effort.rounds)
        named = {_SEPARATOR.join(name): run for name, run in runs.items()}
        found = stage.in_turn(named)
        size = len(servers[0].answer)
    taken = {name: middle(found[_SEPARATOR.join(name)]) for name in runs}
    return Result(
        name="serving",
        title="Serving a poll",
        about=f"`fairwarning up --memory` with a scale set of {contenders.SCALE_SET} machines, one "
        f"of which polls as fast as it can; the answer has {size} bytes. The server has a core to "
        "itself, load comes from another; CPU is that of all its processes. Beside it, on the same "
        "core in turn: nginx with one worker and no access log, which checks nothing, knows no "
        "callers and has one answer in its configuration; and Go's net/http with GOMAXPROCS=1, "
        "which makes the same checks of path, api-version and headers and finds caller and "
        "document in two maps, but has no fleet, no deadlines, no limits and no counters. A "
        "request that was seen before, byte for byte, is not read again by ours (the memo); nor "
        "are headers that were seen before below another first line of a GET. What is new in both "
        "is read in full.",
        rows={
            _SEPARATOR.join(name): {
                "CPU µs": sample.cpu_us,
                "÷ ours": sample.cpu / taken[name[0], OURS].cpu,
                "a second": sample.rate,
            }
            for name, sample in taken.items()
        },
        targets=tuple(_targets(taken)),
        notes=(load.described(stage), *missing),
    )


def _targets(taken: Mapping[tuple[str, str], Sample]) -> Iterator[Target]:
    for (kind, peer), bound in _AT_LEAST.items():
        if (kind, peer) in taken:
            ratio = taken[kind, peer].cpu / taken[kind, OURS].cpu
            yield Target(f"CPU, {kind}: {peer} ÷ {OURS}", ratio, bound, at_least=True)
    ratio = taken[_KEPT, _MISSED].cpu / taken[_KEPT, _HIT].cpu
    yield Target("CPU: memo missed ÷ memo hit", ratio, _MISS_AT_MOST, at_least=False)
