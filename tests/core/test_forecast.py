"""How long a rollout will take (E7)."""

import pytest

from fairwarning.core.commands import StartRollout
from fairwarning.core.forecast import forecast
from fairwarning.core.model import ImpactKind, Machine, Rules, Scope, ScopeKind
from fairwarning.core.record import changed

NOTICE, FREEZE = 900, 9


def scope(name: str, domains: int, incarnation: int = 1, freeze_seconds: int = NOTICE) -> Scope:
    """A scope with a machine in each of its update domains."""
    machines = [Machine(name=f"{name}{n}", host="h", update_domain=n) for n in range(domains)]
    return Scope(
        id=name,
        kind=ScopeKind.AVAILABILITY_SET,
        machines={machine.name: machine for machine in machines},
        incarnation=incarnation,
        rules=Rules(freeze_seconds=freeze_seconds),
    )


@pytest.mark.spec("E7")
@pytest.mark.parametrize(
    ("windows", "by_host", "counts"),
    [
        (("", ""), True, (0, 0)),
        (("Daily 22:00Z PT1H", ""), True, (1, 0)),
        (("Daily 22:00Z PT1H", "Monday 22:30Z PT1H"), True, (2, 0)),
        (("Daily 22:00Z PT1H", "Daily 23:00Z PT1H"), True, (2, 1)),
        (("Daily 22:00Z PT1H", "Daily 23:00Z PT1H"), False, (2, 0)),
    ],
)
def test_windows_that_a_rollout_waits_for(
    windows: tuple[str, str], by_host: bool, counts: tuple[int, int]
) -> None:
    """A wave over two scopes needs a time when both are open; there may be none."""
    by_name = {
        name: changed(scope(name, 1), rules=Rules(maintenance_window=window))
        for name, window in zip("ab", windows, strict=True)
    }
    result = forecast(by_name, StartRollout(rollout="r", scopes=("a", "b"), by_host=by_host))
    assert (result.windowed, result.never) == counts


@pytest.mark.spec("E7")
@pytest.mark.parametrize(
    ("scopes", "options", "earliest", "latest"),
    [
        ([scope("a", 1)], {}, FREEZE, NOTICE + FREEZE),
        ([scope("a", 3)], {}, 3 * FREEZE, 3 * (NOTICE + FREEZE)),
        ([scope("a", 2, freeze_seconds=60)], {}, 2 * FREEZE, 2 * (60 + FREEZE)),
        ([scope("a", 2, incarnation=0)], {}, 2 * FREEZE, 2 * FREEZE),
        ([scope("a", 2)], {"duration_seconds": 0}, 0, 2 * NOTICE),
        ([scope("a", 2)], {"duration_seconds": 30}, 60, 2 * (NOTICE + 30)),
        ([scope("a", 2)], {"kind": ImpactKind.REBOOT}, 0, 2 * NOTICE),
        ([scope("a", 1), scope("b", 2), scope("c", 1)], {"batch": 2}, 18, 2 * (NOTICE + FREEZE)),
        ([scope("a", 2), scope("b", 1), scope("c", 2)], {"batch": 1}, 45, 5 * (NOTICE + FREEZE)),
    ],
)
def test_how_long_a_rollout_takes(
    scopes: list[Scope], options: dict[str, object], earliest: int, latest: int
) -> None:
    """At least the durations of its longest lanes, at most with the notice of each step."""
    by_name = {scope.id: scope for scope in scopes}
    command = StartRollout(rollout="r", scopes=tuple(by_name), **options)  # type: ignore[arg-type]
    result = forecast(by_name, command)
    assert (result.earliest_seconds, result.latest_seconds) == (earliest, latest)
    assert result.scopes == len(scopes)
    assert result.machines == result.steps == sum(len(scope.machines) for scope in scopes)
    assert result.lanes == len(scopes)
    assert result.unpolled == tuple(scope.id for scope in scopes if not scope.enabled)
