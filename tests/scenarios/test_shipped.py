"""The scenarios that ship: each holds, and each would notice if anything were otherwise."""

from collections.abc import Iterator
from typing import Any

import pytest

from fairwarning.core.record import changed
from fairwarning.testing.scenarios import Scenario, ScenarioProgress, play, shipped
from fairwarning.testing.scenarios.actions import ACTIONS
from fairwarning.testing.scenarios.expectations import SUBJECTS
from fairwarning.testing.scenarios.play import RATE_MAX
from tests.campaigns import split

pytestmark = pytest.mark.spec("O6")

SHIPPED = shipped()
each = pytest.mark.parametrize("scenario", SHIPPED, ids=[one.name for one in SHIPPED])


def test_the_usual_ones_ship() -> None:
    """Nine life cycles, by name; each says what it shows."""
    assert [one.name for one in SHIPPED] == [
        "cancelled-maintenance",
        "degraded-hardware",
        "hardware-failure",
        "host-update",
        "live-migration",
        "scale-in",
        "spot-eviction",
        "user-reboot",
        "user-redeploy",
    ]
    assert all(one.about for one in SHIPPED)


@each
def test_it_holds(scenario: Scenario) -> None:
    """All its steps go as it says, in virtual time."""
    seen: list[ScenarioProgress] = []
    verdict = play(scenario, seen.append)
    print(verdict.line)  # noqa: T201  (how long it took, for who looks)
    assert verdict.passed, "\n".join(verdict.difference.lines() if verdict.difference else ())
    assert (verdict.done, verdict.seconds) == (len(scenario.steps), scenario.seconds)
    assert [one.step for one in seen] == list(scenario.steps)
    assert [one.seconds for one in seen] == [step.at_seconds for step in scenario.steps]


@pytest.mark.campaign
@pytest.mark.spec("O6", "E11")
def test_it_holds_in_real_time() -> None:
    """The same file at the pace of a real clock: 40 seconds.

    It is the one test that waits, because that real time passes is what it proves.
    """
    (scenario,) = [one for one in SHIPPED if one.name == "spot-eviction"]
    seen: list[int] = []
    verdict = play(scenario, lambda progress: seen.append(progress.seconds), real=True)
    assert verdict.passed
    assert verdict.real_seconds >= scenario.seconds == 40
    assert sorted(set(seen)) == list(range(41))  # the clock is shown every second


@each
def test_it_holds_many_times_as_fast(scenario: Scenario) -> None:
    """Steps come at exactly their moments at any rate, so nothing needs a tolerance."""
    rate = min(scenario.seconds / 0.5, RATE_MAX)
    verdict = play(scenario, real=True, rate=rate)
    assert verdict.passed
    assert verdict.real_seconds >= scenario.seconds / rate


# --- Nothing is expected in vain ------------------------------------------------------------------

_OTHERS = {
    "type": ("Freeze", "Reboot"),
    "status": ("Started", "Scheduled", "InProgress", "Running"),
    "source": ("User", "Platform"),
    "power": ("running", "stopped"),
    "answer": ("500", "404"),
    "sees": ((), ("Freeze", "Reboot")),
    "history": (("start",), ("freeze", "start")),
    "resources": (("other",), ("another",)),
    "machines": (("other",), 99),
    "description": ("Otherwise.", ""),
    "not_before": (1, 2),
    "duration": (1, 2),
    "event": ("otherwise", "quite"),
}


def otherwise(key: str, value: Any) -> Any:  # noqa: ANN401  (any expected value)
    """Another value that might be expected there."""
    if isinstance(value, bool):
        return not value
    if key in _OTHERS:
        return next(one for one in _OTHERS[key] if one != value)
    return value + 1


def mutants(scenario: Scenario) -> Iterator[tuple[str, int, Scenario]]:
    """The scenario up to a step, with one thing changed in that step; a name for each."""
    for number, step in enumerate(scenario.steps):
        before = scenario.steps[:number]
        if step.do:
            refused = "" if step.refused else "SomethingElse"
            last = changed(step, refused=refused)
            yield f"{step.place}, do", number, changed(scenario, steps=(*before, last))
        for place, one in enumerate(step.expect):
            for key, value in one.wanted.items():
                if key == "version" or (key == "event" and not known(before, value)):
                    continue
                wrong = changed(one, wanted={**one.wanted, key: otherwise(key, value)})
                expect = (*step.expect[:place], wrong, *step.expect[place + 1 :])
                steps = (*before, changed(step, expect=expect))
                yield f"{step.place}, {place}, {key}", number, changed(scenario, steps=steps)


def known(steps: tuple[Any, ...], label: object) -> bool:
    """Whether an event was called so before: a new name fits any event."""
    return any(one.wanted.get("event") == label for step in steps for one in step.expect)


@pytest.mark.parametrize("scenario", split(SHIPPED[::-1], 3), ids=lambda scenario: scenario.name)
def test_whatever_is_changed_is_noticed(scenario: Scenario) -> None:
    """Change any expected value, and it fails at that very step."""
    count = 0
    for name, number, mutant in mutants(scenario):
        verdict = play(mutant)
        assert verdict.difference is not None, name
        assert verdict.difference.step.number == number + 1, name
        count += 1
    print(f"{scenario.name}: {count} changes")  # noqa: T201  (how many, for who looks)
    assert count > 30


def test_they_show_nearly_all_that_there_is() -> None:
    """Whoever copies from them finds each word and each expectation, but for these."""
    steps = [step for one in SHIPPED for step in one.steps]
    assert ACTIONS.keys() - {step.do for step in steps} == {"freeze", "recommend", "clear_faults"}
    used = {(one.subject, key) for step in steps for one in step.expect for key in one.wanted}
    assert {(subject, key) for subject, keys in SUBJECTS.items() for key in keys} == used
