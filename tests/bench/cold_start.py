"""A cold start: every machine of a fleet polls for the first time within a minute."""

from functools import partial
from statistics import median

from tests.bench import contenders, load
from tests.bench.contenders import NGINX, OURS, Recipe, installed, running
from tests.bench.context import BenchmarkContext
from tests.bench.figures import Result, Target
from tests.bench.many_machines import addresses
from tests.bench.storage import Files

_MINUTE = 60
_FULL_RATE = 1_000_000 / _MINUTE  # a second
_WORST_MS_AT_MOST = 2000.0
_REFUSED = "refused"
_WORST = "worst ms"
_FIRST = addresses(range(1, 2))
_BODY = b'{"DocumentIncarnation":1,"Events":[]}'


def run(context: BenchmarkContext) -> Result:
    """Measure."""
    machines = context.effort.vast
    runs = {OURS: partial(_ours, context, machines)}
    if context.effort.apart and (program := installed("nginx")):
        recipe = contenders.nginx(context, program, _FIRST, _BODY)
        runs[NGINX] = partial(_arrive, context, recipe, (1, machines), together=True)
    samples = context.in_turn(runs)
    rows = {
        name: {column: median(sample[column] for sample in taken) for column in taken[0]}
        for name, taken in samples.items()
    }
    refused = max(sample[_REFUSED] for sample in samples[OURS])
    worst = rows[OURS][_WORST]
    for row in rows.values():
        del row[_REFUSED]
    return Result(
        name="cold-start",
        title=f"A cold start: {_FULL_RATE:,.0f} first polls a second",
        about=f"`fairwarning up` on SQLite with {machines:,} standalone machines, none of which "
        "has polled before. All poll once, each on a new connection, at the rate at which a "
        "million machines poll within a minute, whether or not the server keeps up. The first "
        "poll of a machine enables its scope, which is durable before the response. The wait "
        "begins when the machine is due. nginx gets the same requests for one response.",
        rows=rows,
        targets=(
            Target(f"{OURS}: {_WORST}", worst, _WORST_MS_AT_MOST, at_least=False),
            Target(f"{OURS}: {_REFUSED}", refused, 0, at_least=False),
        ),
    )


def _ours(context: BenchmarkContext, machines: int) -> dict[str, float]:
    words = Files(context).fresh(machines, of_scope=1)
    folder = context.folder / "up-cold"
    recipe = contenders.with_stored_fleet(folder, OURS, _FIRST, words)
    numbers = 2, machines + 1  # the first polls when the server starts
    return _arrive(context, recipe, numbers, together=False)


def _arrive(
    context: BenchmarkContext, recipe: Recipe, numbers: tuple[int, int], *, together: bool
) -> dict[str, float]:
    with running(recipe) as server:
        sample: dict[str, float] = load.probe(
            context,
            "arrive",
            server,
            numbers=numbers,
            together=together,
            rate=_FULL_RATE,
            pids=server.process.pids(),
        )
    return sample
