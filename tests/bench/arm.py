"""The cost of the control plane: reads, commands and listings."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial

from fairwarning.arm.types.context import PAGE
from fairwarning.core.limits import SET_INSTANCES
from tests.bench import control_planes, load
from tests.bench.armclients import NUMBER
from tests.bench.context import BenchmarkContext, Effort
from tests.bench.control_planes import BARE, OURS, Server
from tests.bench.figures import Result, Target, described
from tests.bench.measure import Sample
from tests.bench.processes import SERVER_CORE, pinned
from tests.bench.raw import Raw, body

_CONNECTIONS = 16
_SETS = 10
_AT_MOST = 3.0
_VM = "virtualMachines/vm_0"
_RESTART = f"virtualMachines/vm_{NUMBER}/restart"
_RAW = "SQLite alone, one row a transaction"
_ONE = f"{OURS}, 1 connection"
_MANY = f"{OURS}, {_CONNECTIONS} connections"
_TAKING = f"{BARE}, {_CONNECTIONS} connections"
_BEFORE = "resident MiB before"
_AFTER = "resident MiB after"


def _measure(
    context: BenchmarkContext, servers: Sequence[Server], runs: Mapping[str, Callable[[], Sample]]
) -> tuple[dict[str, Sample], dict[str, dict[str, float]]]:
    """The samples, and the memory of the servers before and after."""
    memory = {server.name: {_BEFORE: server.resident()} for server in servers}
    taken = context.samples(runs)
    for server in servers:
        memory[server.name][_AFTER] = server.resident()
    return taken, memory


# --- Reads ----------------------------------------------------------------------------------------


def reads(context: BenchmarkContext) -> Result:
    """Measure."""
    with control_planes.ours(context, 1) as server:
        document = server.get(_VM)
        with control_planes.bare(context, server, document) as bare:
            servers = (server, bare)
            runs = {each.name: partial(each.flood, context, _VM, _CONNECTIONS) for each in servers}
            taken, memory = _measure(context, servers, runs)
    ours, peer = taken[OURS], taken[BARE]
    return Result(
        *described("arm-reads", size=len(document), connections=_CONNECTIONS, peer=BARE),
        rows={
            name: {
                "CPU µs": sample.cpu_us,
                f"÷ {BARE}": sample.cpu / peer.cpu,
                "a second": sample.rate,
                **memory[name],
            }
            for name, sample in taken.items()
        },
        targets=(Target(f"CPU of a read: {OURS} ÷ {BARE}", ours.cpu / peer.cpu, _AT_MOST, False),),
        notes=(_load(context),),
    )


def _load(context: BenchmarkContext) -> str:
    generator = (
        "wrk, one thread"
        if load.has_wrk(context)
        else "our own clients, because wrk is not installed"
    )
    return f"Load: {generator}, {_CONNECTIONS} connections."


# --- Restarts -------------------------------------------------------------------------------------


def restarts(context: BenchmarkContext) -> Result:
    """Measure."""
    count = _restarts(context.effort)
    machines = context.effort.rounds * (count + count // 4)
    with control_planes.ours(context, machines) as server:
        document = server.get(_VM)
        with (
            control_planes.bare(context, server, document) as peer,
            closing(Raw(context.folder / "arm-raw.db")) as raw,
        ):
            runs = _restart_runs(context, server, peer, raw)
            taken, memory = _measure(context, (server,), runs)
    sqlite, bare = taken[_RAW], taken[_TAKING]
    return Result(
        *described(
            "arm-restarts",
            machines=count * context.effort.rounds,
            size=len(body(0, 0)),
            peer=BARE,
        ),
        rows={
            name: {
                "a second": sample.rate,
                "÷ SQLite alone": sample.rate / sqlite.rate,
                "CPU µs": sample.cpu_us,
                f"CPU ÷ {BARE}": sample.cpu / bare.cpu,
                **(memory[OURS] if name == _MANY else {}),
            }
            for name, sample in taken.items()
        },
    )


def _restarts(effort: Effort) -> int:
    """The number of restarts per round that fits the time."""
    return max(_CONNECTIONS, int(effort.seconds * 1000))


def _restart_runs(
    context: BenchmarkContext, server: Server, peer: Server, raw: Raw
) -> Mapping[str, Callable[[], Sample]]:
    count, first = _restarts(context.effort), 0

    def restart(connections: int, count: int) -> Sample:
        nonlocal first
        how = {"connections": connections, "first": first, "count": count, "method": "POST"}
        first += count
        return server.ask(context, _RESTART, **how)

    def take() -> Sample:
        return peer.ask(context, _RESTART, connections=_CONNECTIONS, count=count, method="POST")

    def alone() -> Sample:
        with pinned(SERVER_CORE):
            return raw.load(context.effort.seconds)

    return {
        _RAW: alone,
        _TAKING: take,
        _ONE: lambda: restart(1, count // 4),
        _MANY: lambda: restart(_CONNECTIONS, count),
    }


# --- Listings -------------------------------------------------------------------------------------


def listing(context: BenchmarkContext) -> Result:
    """Measure."""
    instances = min(context.effort.machines // _SETS, SET_INSTANCES)
    paths = [f"virtualMachineScaleSets/set{number}/virtualMachines" for number in range(_SETS)]
    with control_planes.ours(context, 1, _SETS, instances) as server:
        page = server.get(paths[0])
        pages = _SETS * -(-instances // PAGE)
        with control_planes.bare(context, server, page) as peer:
            runs = {
                OURS: lambda: _listed(context, server, paths, pages),
                BARE: lambda: peer.ask(context, paths[0], connections=1, count=pages),
            }
            taken, memory = _measure(context, (server, peer), runs)
    return Result(
        *described(
            "arm-listing",
            instances=_SETS * instances,
            sets=_SETS,
            page=PAGE,
            kib=len(page) / 1024,
            peer=BARE,
        ),
        rows={
            name: {
                "requests": pages,
                "wall ms": sample.wall * pages * 1e3,
                "CPU ms": sample.cpu * pages * 1e3,
                f"CPU ÷ {BARE}": sample.cpu / taken[BARE].cpu,
                "CPU µs an instance": sample.cpu_us * pages / (_SETS * instances),
                **memory[name],
            }
            for name, sample in taken.items()
        },
    )


def _listed(context: BenchmarkContext, server: Server, paths: list[str], pages: int) -> Sample:
    urls = [server.path(path) for path in paths]
    sample = Sample(**server.probe(context, "list_over_tls", paths=urls))  # type: ignore[arg-type]
    assert sample.count == pages
    return sample
