"""What the control plane costs: at its first request, for reads, for commands and for listings."""

from collections.abc import Mapping
from contextlib import closing
from functools import partial
from statistics import median

from fairwarning.arm.http.context import PAGE
from fairwarning.core.limits import SET_INSTANCES
from tests.bench import load, planes
from tests.bench.armclients import NUMBER
from tests.bench.figures import Result, Target
from tests.bench.measure import Sample, middle
from tests.bench.planes import BARE, OURS, Server
from tests.bench.processes import SERVER_CORE, pinned
from tests.bench.raw import Raw, body
from tests.bench.stage import Effort, Stage

_CONNECTIONS = 16
_SETS = 10
_AT_MOST = 3.5
_VM = "virtualMachines/vm_0"
_RESTART = f"virtualMachines/vm_{NUMBER}/restart"
_RAW = "SQLite alone, one row a transaction"
_ONE = f"{OURS}, 1 connection"
_MANY = f"{OURS}, {_CONNECTIONS} connections"
_TAKING = f"{BARE}, {_CONNECTIONS} connections"
_BEFORE = "resident MiB before"
_AFTER = "resident MiB after"


# --- The first request ----------------------------------------------------------------------------


def knock(stage: Stage) -> Result:
    """Measure."""
    stage.expect(2 * stage.effort.rounds)
    with planes.ours(stage, 1) as server:
        _, document = server.get(_VM)

    def ours() -> dict[str, float]:
        with planes.ours(stage, 1) as fresh:
            return _knocked(fresh)

    def bare() -> dict[str, float]:
        with planes.bare(stage, server, document) as fresh:
            return _knocked(fresh)

    found = stage.in_turn({OURS: ours, BARE: bare})
    rows = {
        name: {column: median(one[column] for one in taken) for column in taken[0]}
        for name, taken in found.items()
    }
    return Result(
        name="arm-knock",
        title="The first request to the control plane",
        about="`fairwarning up` loads its control plane when somebody first connects to it: what "
        "it takes at rest in a folder that has its authority, what it takes once a machine was "
        f"read ({len(document)} bytes, over TLS), and how long such requests take on connections "
        f"of their own. Beside it: {BARE} with the same certificate and the same answer, ready "
        "made; it has everything loaded when it listens.",
        rows=rows,
    )


def _knocked(server: Server) -> dict[str, float]:
    before = server.resident()
    first, _ = server.get(_VM)
    second, _ = server.get(_VM)
    after = server.resident()
    return {
        "at rest, MiB": before,
        "loaded, MiB": after,
        "more, MiB": after - before,
        "first request, ms": first * 1e3,
        "second request, ms": second * 1e3,
    }


# --- Reads ----------------------------------------------------------------------------------------


def reads(stage: Stage) -> Result:
    """Measure."""
    stage.expect(2 * stage.effort.rounds)
    with planes.ours(stage, 1) as server:
        _, document = server.get(_VM)
        with planes.bare(stage, server, document) as bare:
            servers = (server, bare)
            before = {one.name: one.resident() for one in servers}
            runs = {one.name: partial(one.flood, stage, _VM, _CONNECTIONS) for one in servers}
            taken = {name: middle(samples) for name, samples in stage.in_turn(runs).items()}
            after = {one.name: one.resident() for one in servers}
    ours, peer = taken[OURS], taken[BARE]
    return Result(
        name="arm-reads",
        title="Reading a machine",
        about=f"GET of one virtual machine ({len(document)} bytes) over TLS, as fast as can be on "
        f"{_CONNECTIONS} connections that are kept: token, path, version and rights are checked, "
        "the document is made anew each time. The server has a core to itself, load comes from "
        f"another. Beside it, in turn: {BARE} with the same certificate, which checks nothing and "
        "has its answer ready.",
        rows={
            name: {
                "CPU µs": sample.cpu_us,
                f"÷ {BARE}": sample.cpu / peer.cpu,
                "a second": sample.rate,
                _BEFORE: before[name],
                _AFTER: after[name],
            }
            for name, sample in taken.items()
        },
        targets=(Target(f"CPU of a read: {OURS} ÷ {BARE}", ours.cpu / peer.cpu, _AT_MOST, False),),
        notes=(_load(stage),),
    )


def _load(stage: Stage) -> str:
    who = "wrk, one thread" if load.has_wrk(stage) else "clients of our own, for want of wrk"
    return f"Load: {who}, {_CONNECTIONS} connections."


# --- Restarts -------------------------------------------------------------------------------------


def restarts(stage: Stage) -> Result:
    """Measure."""
    stage.expect(4 * stage.effort.rounds)
    count = _restarts(stage.effort)
    machines = stage.effort.rounds * (count + count // 4)
    with planes.ours(stage, machines) as server:
        document = server.get(_VM)[1]
        with (
            planes.bare(stage, server, document) as peer,
            closing(Raw(stage.folder / "arm-raw.db")) as raw,
        ):
            before = server.resident()
            taken = _take_restarts(stage, server, peer, raw)
            after = server.resident()
    sqlite, bare = taken[_RAW], taken[_TAKING]
    memory = {_BEFORE: before, _AFTER: after}
    return Result(
        name="arm-restarts",
        title="Restarts accepted",
        about=f"POST of a restart over TLS, {count * stage.effort.rounds:,} machines in turn that "
        "stand alone and poll: each is announced to its machine, and on the disk before it is "
        "acknowledged with 202. Beside it: SQLite alone with the same settings, one UPDATE of one "
        f"row of {len(body(0, 0))} bytes a transaction; and {BARE}, which takes what is posted and "
        "keeps nothing.",
        rows={
            name: {
                "a second": sample.rate,
                "÷ SQLite alone": sample.rate / sqlite.rate,
                "CPU µs": sample.cpu_us,
                f"CPU ÷ {BARE}": sample.cpu / bare.cpu,
                **(memory if name == _MANY else {}),
            }
            for name, sample in taken.items()
        },
    )


def _restarts(effort: Effort) -> int:
    """How many in a round: about as many as there is time for."""
    return max(_CONNECTIONS, int(effort.seconds * 1000))


def _take_restarts(stage: Stage, server: Server, peer: Server, raw: Raw) -> Mapping[str, Sample]:
    count, first = _restarts(stage.effort), 0

    def restart(connections: int, count: int) -> Sample:
        nonlocal first
        how = {"connections": connections, "first": first, "count": count, "method": "POST"}
        first += count
        return server.ask(stage, _RESTART, **how)

    def take() -> Sample:
        return peer.ask(stage, _RESTART, connections=_CONNECTIONS, count=count, method="POST")

    def alone() -> Sample:
        with pinned(SERVER_CORE):
            return raw.load(stage.effort.seconds)

    runs = {
        _RAW: alone,
        _TAKING: take,
        _ONE: lambda: restart(1, count // 4),
        _MANY: lambda: restart(_CONNECTIONS, count),
    }
    return {name: middle(samples) for name, samples in stage.in_turn(runs).items()}


# --- Listings -------------------------------------------------------------------------------------


def listing(stage: Stage) -> Result:
    """Measure."""
    stage.expect(2 * stage.effort.rounds)
    instances = min(stage.effort.machines // _SETS, SET_INSTANCES)
    paths = [f"virtualMachineScaleSets/set{number}/virtualMachines" for number in range(_SETS)]
    with planes.ours(stage, 1, _SETS, instances) as server:
        page = server.get(paths[0])[1]
        pages = _SETS * -(-instances // PAGE)
        with planes.bare(stage, server, page) as peer:
            before = {one.name: one.resident() for one in (server, peer)}
            found = stage.in_turn(
                {
                    OURS: lambda: _listed(stage, server, paths, pages),
                    BARE: lambda: peer.ask(stage, paths[0], connections=1, count=pages),
                }
            )
            after = {one.name: one.resident() for one in (server, peer)}
    taken = {name: middle(samples) for name, samples in found.items()}
    return Result(
        name="arm-listing",
        title="Listing instances",
        about=f"{_SETS * instances:,} instances of {_SETS} scale sets, listed to the end by one "
        f"client over TLS, {PAGE} on a page ({len(page) / 1024:,.0f} KiB). Beside it: {BARE} with "
        "the same certificate, asked as often for a page that it has ready.",
        rows={
            name: {
                "requests": pages,
                "wall ms": sample.wall * pages * 1e3,
                "CPU ms": sample.cpu * pages * 1e3,
                f"CPU ÷ {BARE}": sample.cpu / taken[BARE].cpu,
                "CPU µs an instance": sample.cpu_us * pages / (_SETS * instances),
                _BEFORE: before[name],
                _AFTER: after[name],
            }
            for name, sample in taken.items()
        },
    )


def _listed(stage: Stage, server: Server, paths: list[str], pages: int) -> Sample:
    wanted = [server.path(path) for path in paths]
    sample = Sample(**server.probe(stage, "list_over_tls", paths=wanted))  # type: ignore[arg-type]
    assert sample.count == pages
    return sample
