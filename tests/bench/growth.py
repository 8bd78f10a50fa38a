"""The cost of a command in a small and in a large fleet."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from tests.bench.context import BenchmarkContext, Effort
from tests.bench.figures import Result, Target, described, number
from tests.bench.fleets import SCOPE, SMALL_FLEET, SUBMITTERS
from tests.bench.measure import Sample
from tests.bench.traffic import WORDS, commands

_HOT = 20  # scopes
_BUSY_FLEET = SUBMITTERS * SCOPE  # machines: the minimum for separate submitters
_AT_MOST = 1.2
_SMALL = f"{SMALL_FLEET} machines"
_COLD = ", nothing cached"


@dataclass(frozen=True, slots=True)
class Case:
    """A fleet under load, and the smaller or newer one to compare with."""

    machines: int
    how: Mapping[str, int] = field(default_factory=dict)
    base: str = ""
    history: int = 0


def run(context: BenchmarkContext) -> Result:
    """Measure."""
    cases = _cases(context.effort)
    contenders: dict[str, Callable[[], Sample]] = {
        name: partial(_ask, context, case) for name, case in cases.items()
    }
    taken = context.samples(contenders)
    compared = {name: case.base for name, case in cases.items() if case.base}
    return Result(
        *described("growth", words=WORDS, machines=SCOPE, submitters=SUBMITTERS),
        rows={name: _row(sample, taken, compared.get(name)) for name, sample in taken.items()},
        targets=tuple(
            Target(f"CPU: {name} ÷ {base}", taken[name].cpu / taken[base].cpu, _AT_MOST, False)
            for name, base in compared.items()
        ),
        notes=(_price_of_a_miss(taken),),
    )


def _cases(effort: Effort) -> dict[str, Case]:
    large, past = effort.machines, effort.history
    submitters = {"submitters": SUBMITTERS}
    busy = min(_BUSY_FLEET, large)
    whole, cold = f"{large:,} machines", f"{_SMALL}{_COLD}"
    many, many_whole = (f"{n:,} machines, {SUBMITTERS} submitters" for n in (busy, large))
    return {
        _SMALL: Case(SMALL_FLEET),
        f"{whole}, {_HOT} scopes": Case(large, {"among": _HOT}, _SMALL),
        f"{whole}, all scopes": Case(large, {}, _SMALL),
        cold: Case(SMALL_FLEET, {"cached": 0}),
        f"{whole}, all scopes{_COLD}": Case(large, {"cached": 0}, cold),
        many: Case(busy, submitters),
        f"{many_whole}, all scopes": Case(large, submitters, many),
        f"{many}, after {past:,} commands": Case(busy, submitters, many, past),
    }


def _ask(context: BenchmarkContext, case: Case) -> Sample:
    how = {
        "data": str(context.copy(context.fleet(case.machines, case.history)).parent),
        "machines": case.machines,
        "seconds": context.effort.seconds * 0.75,
    }
    return Sample(**context.probe(commands, **how, **case.how))


def _row(sample: Sample, taken: Mapping[str, Sample], base: str | None) -> dict[str, float]:
    row = {"CPU µs": sample.cpu_us, "wall µs": sample.wall_us}
    if base:
        row["CPU ÷ smaller"] = sample.cpu / taken[base].cpu
        row["wall ÷ smaller"] = sample.wall / taken[base].wall
    return row


def _price_of_a_miss(taken: Mapping[str, Sample]) -> str:
    small, large = (
        number(taken[f"{name}{_COLD}"].cpu_us - sample.cpu_us)
        for name, sample in taken.items()
        if f"{name}{_COLD}" in taken
    )
    return (
        f"A scope of {SCOPE} machines that is not in the cache costs {small} µs of CPU more in the "
        f"small fleet, {large} µs more in the large one."
    )
