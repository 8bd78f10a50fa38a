"""Which pods a drain evicts, how often and how fast; against a double."""

import itertools
import logging
import threading

import pytest

from fairwarning.guest.agent import agent_metrics
from fairwarning.guest.agent.kubernetes.nodes import TAINT
from tests.fixtures.waiting import LIMIT_SECONDS
from tests.guest.kubernetes_double import Answer, Double, Raw, blocked
from tests.guest.node_hooks import drain

pytestmark = pytest.mark.spec("G9")


@pytest.fixture(autouse=True)
def _info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "fairwarning")


def lines(caplog: pytest.LogCaptureFixture, text: str) -> list[str]:
    """Return the lines of the log that contain a text."""
    return [line for line in caplog.messages if text in line]


@pytest.mark.parametrize(
    ("toleration", "stays"),
    [
        ({"key": TAINT, "operator": "Exists"}, True),
        ({"key": TAINT, "operator": "Exists", "effect": "NoSchedule"}, True),
        ({"key": TAINT, "value": "Reboot"}, True),
        ({"operator": "Exists"}, True),
        # Every pod has some of these.
        ({"key": TAINT, "value": "Freeze"}, False),
        ({"operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}, False),
        (
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
            False,
        ),
    ],
)
def test_pods_that_tolerate_the_taint_stay(
    cluster: Double, caplog: pytest.LogCaptureFixture, toleration: dict[str, str], stays: bool
) -> None:
    """They say that they want to be on such a node; each is listed once."""
    cluster.pod("guard", owner="ReplicaSet", tolerations=(toleration,))
    cluster.pod("web", grace=8)
    drain(cluster)
    assert list(cluster.pods) == (["default/guard"] if stays else [])
    expected = f"pod default/guard stays: it tolerates the taint {TAINT}"
    assert lines(caplog, "stays") == ([expected] if stays else [])


@pytest.mark.parametrize("where", ["labels", "annotations"])
def test_pods_may_opt_out(
    cluster: Double, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """By a label or an annotation, or by namespace and the beginning of their names."""
    monkeypatch.setenv("FAIRWARNING_KEEP_PODS", "default/db-, default/cache")
    cluster.pod("guard")["metadata"][where]["fairwarning.dev/drain"] = "skip"
    cluster.pod("web")["metadata"][where]["fairwarning.dev/drain"] = "please"
    for name in ("db-0", "db-1", "cache", "web-db-0"):
        cluster.pod(name)
    drain(cluster)
    assert {name for name, _ in cluster.evicted} == {"web", "web-db-0"}
    assert "pod default/guard stays: it has fairwarning.dev/drain: skip" in caplog.messages


def test_a_blocking_budget_is_named_once(cluster: Double, caplog: pytest.LogCaptureFixture) -> None:
    """Not each second, and not for each of its pods, which are retried; no other pod waits."""
    for number in range(5):
        cluster.pod(f"web-{number}", app="web", grace=1)
    cluster.pod("other", grace=1)
    cluster.budgets["web"] = 1
    shown: set[tuple[float, float]] = set()

    def allow(now: float) -> None:
        shown.add((agent_metrics.PODS_LEFT.value(), agent_metrics.PODS_BLOCKED.value()))
        cluster.budgets["web"] = 5 if now > 60 else 0

    cluster.clock.each.append(allow)
    drain(cluster)
    assert len(lines(caplog, "disruption budget default/web blocks")) == 1
    assert "other" in [name for name, _ in cluster.evicted[:2]]
    assert len(cluster.evicted) == 6
    assert 60 < cluster.clock.monotonic() < 80
    assert 5 < len([call for call in cluster.calls if "/pods/web" in call]) < 5 * 61
    assert (4, 4) in shown
    assert (agent_metrics.PODS_LEFT.value(), agent_metrics.PODS_BLOCKED.value()) == (0, 0)


def test_a_budget_that_answers_403_is_no_missing_right(
    cluster: Double, caplog: pytest.LogCaptureFixture
) -> None:
    """The API server does so while the budget's status is out of order."""
    cluster.pod("web", grace=1)

    def refuse(call: str) -> None:
        refused = "eviction" in call and cluster.clock.monotonic() < 60
        cluster.failing = [blocked("web", 403)] if refused else []

    cluster.before = refuse
    drain(cluster)
    assert len(lines(caplog, "disruption budget default/web blocks")) == 1
    assert lines(caplog, "lacks the right") == []


def test_a_hundred_pods_are_evicted_within_three_seconds(
    cluster: Double, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sixteen evictions are under way at once, and pauses between them take less than 3 s."""
    for number in range(100):
        cluster.pod(f"web-{number}", grace=1)
    together = threading.Barrier(16)
    evictions = itertools.count(1)
    respond = cluster.respond

    def wait_for_others(method: str, url: str, body: Raw) -> Answer | None:
        if "eviction" in url and next(evictions) <= together.parties:
            together.wait(LIMIT_SECONDS)
        return respond(method, url, body)

    monkeypatch.setattr(cluster, "respond", wait_for_others)
    drain(cluster)
    evicted = {name for name, _ in cluster.evicted}  # on a busy machine some are asked for again
    assert len(evicted) == 100
    assert cluster.clock.monotonic() < 3


def test_evictions_do_not_all_wait_for_a_silent_server(cluster: Double) -> None:
    """A server that hangs costs one timeout a round, or a hundred pods would miss the deadline."""
    for number in range(100):
        cluster.pod(f"web-{number}", grace=1)
    attempts: list[float] = []

    def fail(call: str) -> None:
        cluster.away = "eviction" in call and cluster.clock.monotonic() < 1
        if cluster.away:
            attempts.append(cluster.clock.monotonic())

    cluster.before = fail
    drain(cluster)
    assert 1 <= len(attempts) <= 2 * 16
    assert len(cluster.evicted) == 100
