"""The first cases of the fuzzer of the guest side, planted bugs, and errors beside a decision."""

import re
from collections.abc import Callable
from datetime import datetime

import pytest

from fairwarning.guest import endpoint_time, events, http_message, session
from fairwarning.guest.agent import agent, agent_metrics
from fairwarning.guest.agent.actions import Action, RunHook
from fairwarning.guest.agent.config import KUBERNETES_HOOKS, AgentConfig, HookKind, HookSettings
from fairwarning.guest.agent.event_state import HookState
from fairwarning.guest.client import ScheduledEvents
from fairwarning.guest.events import Phase
from tests.guest.fuzz import Deciding, FuzzFailure, Poison, fuzz
from tests.guest.notices import ALL, ME, document, event

pytestmark = pytest.mark.spec("G1")


@pytest.mark.parametrize(
    ("cases", "seed"), [(2_000, 0), pytest.param(40_000, 100, marks=pytest.mark.campaign)]
)
def test_random_responses(cases: int, seed: int) -> None:
    """No foreign exception leaves the clients or the plan, and no well-formed event is lost."""
    fuzz(cases, seed)


class Failing(Deciding):
    """An agent whose hooks fail, and which can start no thread."""

    def _perform_action(self, action: Action) -> None:
        if isinstance(action, RunHook):
            self._hook_ended(action.event.id, action.phase, action.hook.name, "exit code 1")

    def _start_thread(self, *_: object) -> None:
        raise Poison


@pytest.mark.spec("G4")
def test_an_error_beside_a_decision_loses_nothing() -> None:
    """IB1: neither the end of a hook, about which people cannot be told, nor a configuration."""
    drain = HookSettings("new", Phase.SCHEDULED, HookKind.CALL, call=f"{KUBERNETES_HOOKS}drain")
    with ScheduledEvents("http://fuzz", name=ME) as reader:
        failing = Failing(reader)
        failing.decide(document(event()))
        states = failing._plan.known["A"].hooks
        assert set(states.values()) == {HookState.FAILED}
        failing._name = ME
        failing._read_config = lambda: AgentConfig(hooks=(*ALL, drain))
        failing.reload()
        failing.decide(document(event()))
        assert (Phase.SCHEDULED, "new") in failing._plan.known["A"].hooks
        assert failing._node is None
        failing.decide(document())
        assert agent_metrics.HOOKS_TO_RETRY.value() == 1


def _all_or_nothing(raw: object) -> events.Event:
    try:
        return FROM_JSON(raw)
    except ValueError as error:
        raise KeyError("planted") from error


def _drop_after_an_error(self: agent.Agent, decide: Callable[[datetime], list[Action]]) -> None:
    actions = decide(self._now())
    if not self._reporter.update(self._plan.known, {}):
        self._perform(actions)


FROM_JSON = events.from_json
BRIEF_SECONDS = 1.0  # for a client that waits for what is not to come, as some planted bugs do
PLANTS = {
    "a malformed event hides the others": (events, "from_json", _all_or_nothing),
    "a malformed event is over": (session, "keep_skipped", lambda document, _: document),
    "an error drops actions": (agent.Agent, "_act", _drop_after_an_error),
    "any date is used": (endpoint_time, "_LATEST", 10**12),
    "chunk sizes are believed": (http_message, "_CHUNK", re.compile(rb"(.*)", re.DOTALL)),
    "any status is interim": (http_message, "_FIRST_FINAL", 300),
}


@pytest.mark.parametrize("plant", PLANTS.values(), ids=PLANTS)
def test_a_planted_bug_is_found(
    plant: tuple[object, str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fuzzer can fail."""
    monkeypatch.setattr(*plant)
    monkeypatch.setattr(session, "FIRST_TIMEOUT_SECONDS", BRIEF_SECONDS)
    with pytest.raises(FuzzFailure):
        fuzz(5_000)
