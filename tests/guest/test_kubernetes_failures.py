"""The Kubernetes hooks while the API is away, refuses, or the agent is killed."""

import itertools
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from lightkube import Client

from fairwarning.core.errors import Refused, Unavailable
from fairwarning.guest.agent import kubernetes
from fairwarning.guest.agent.kubernetes import KubernetesNodes, api
from fairwarning.guest.agent.kubernetes.nodes import TAINT
from fairwarning.guest.events import Phase
from tests.fixtures.programs import run_python
from tests.guest.kubernetes_double import Answer, Double, failure, kubeconfig
from tests.guest.node_hooks import DRAINED, EVENT, FREE, NODE, drain, state, uncordon

pytestmark = pytest.mark.spec("G4", "G9")


@pytest.mark.parametrize("seconds", [0, 3, 30])
def test_a_long_api_outage_ends_at_the_deadline(cluster: Double, seconds: int) -> None:
    """The hook fails just before it, so that the reason is reported."""
    cluster.away = True
    with pytest.raises(Unavailable, match="the deadline has passed"):
        drain(cluster, seconds)
    assert seconds - 1 <= cluster.clock.monotonic() <= seconds


def test_an_api_outage_does_not_hide_remaining_pods(cluster: Double) -> None:
    """The error has the pods of the last query, and the failure."""
    cluster.pod("a", grace=600)
    cluster.before = lambda call: setattr(cluster, "away", cluster.away or "eviction" in call)
    with pytest.raises(Unavailable) as raised:
        drain(cluster, 20)
    assert "default/a" in raised.value.message
    assert "the Kubernetes API failed" in raised.value.message


STARTING = {
    "no token yet": failure(401, "Unauthorized"),
    "no rights yet": failure(403, "nodes is forbidden: not yet ready to handle request"),
    "no path yet": failure(404, "the server could not find the requested resource"),
    "expired page": failure(410, "the provided continue parameter is too old"),
    "not ready": failure(503, "apiserver not ready"),
    "error": failure(500, "etcdserver: leader changed"),
    "busy": failure(429, "slow down"),
    "away": None,
}


@pytest.mark.parametrize("answer", STARTING.values(), ids=STARTING)
def test_no_answer_of_a_starting_api_server_ends_a_drain(
    cluster: Double, answer: Answer | None
) -> None:
    """Each call is answered like this several times, evictions too, and the drain still ends."""
    cluster.pod("a", grace=1)
    answers: dict[str, int] = {}

    def starting(call: str) -> None:
        answers[call] = answers.get(call, 0) + 1
        cluster.away = answer is None and answers[call] <= 3
        cluster.failing = [answer] if answers[call] <= 3 else []

    cluster.before = starting
    drain(cluster)
    assert cluster.evicted == [("a", None)]
    assert state(cluster) == DRAINED
    uncordon(cluster)
    assert state(cluster) == FREE


@pytest.mark.parametrize("right", ["get nodes", "patch nodes", "list pods", "create pods/eviction"])
def test_a_missing_right_is_named_once_and_the_drain_fails_at_the_deadline(
    cluster: Double, caplog: pytest.LogCaptureFixture, right: str
) -> None:
    """The line says which right is missing on which resource, and where rights are described."""
    cluster.pod("a")
    cluster.pod("b")
    cluster.denied = {right}
    with pytest.raises(Unavailable, match=f"lacks the right to {right}"):
        drain(cluster, 60)
    assert 59 <= cluster.clock.monotonic() <= 60
    lines = [line for line in caplog.messages if "lacks the right" in line]
    assert len(lines) == 1
    assert f"the agent lacks the right to {right} (" in lines[0]
    assert "deploy/kubernetes-agent/base/rbac.yaml" in lines[0]


def test_a_call_cut_short_by_the_deadline_does_not_hide_the_reason(cluster: Double) -> None:
    """The last calls have little time, and may get no response."""
    cluster.pod("a")
    cluster.denied = {"get nodes"}
    cluster.clock.each.append(lambda now: setattr(cluster, "away", now > 58))
    with pytest.raises(Unavailable, match="lacks the right to get nodes"):
        drain(cluster, 60)


def test_credentials_are_read_again_after_401(cluster: Double) -> None:
    """Tokens of pods are rotated; a kubeconfig may be replaced."""
    before = api.connect
    seconds: list[float] = []

    def connect(timeout: float) -> Client:
        seconds.append(timeout)
        client: Client = before(timeout)
        return client

    cluster.failing = [failure(401, "Unauthorized")]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(api, "connect", connect)
        drain(cluster)
    assert len(seconds) == 2


def test_errors_without_lightkube_or_a_cluster(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The text says what to install or to set."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with pytest.raises(Refused, match="KUBECONFIG"):
        KubernetesNodes("vm-1")
    monkeypatch.setitem(sys.modules, "lightkube", None)
    with pytest.raises(Refused, match=r"pip install 'fairwarning\[kubernetes\]'"):
        KubernetesNodes("vm-1")
    later = datetime.now(UTC) + timedelta(seconds=60)
    with pytest.raises(Refused, match=r"pip install 'fairwarning\[kubernetes\]'"):
        kubernetes.drain(EVENT, Phase.SCHEDULED, later, False)


def test_a_hook_in_the_wrong_phase_does_nothing(cluster: Double) -> None:
    """A configuration error must not drain a recovered node or uncordon it too early."""
    deadline = cluster.clock.after(60)
    with pytest.raises(Refused, match="scheduled"):
        kubernetes.drain(EVENT, Phase.OVER, deadline, False)
    with pytest.raises(Refused, match="over"):
        kubernetes.uncordon(EVENT, Phase.SCHEDULED, deadline, False)
    assert cluster.calls == []


# --- Killed in the middle -------------------------------------------------------------------------


class Killed(BaseException):
    """The agent was killed."""


class KilledClient:
    """A client that raises `Killed` before or after its n-th call."""

    def __init__(self, client: Client, calls: Iterator[int], number: int, after: bool) -> None:
        self._client, self._calls = client, calls
        self._number, self._after = number, after

    def close(self) -> None:
        self._client.close()

    def __getattr__(self, name: str) -> Callable[..., object]:
        def call(*positional: object, **named: object) -> object:
            number = next(self._calls)
            if number == self._number and not self._after:
                raise Killed
            result = getattr(self._client, name)(*positional, **named)
            result = list(result) if name == "list" else result
            if number == self._number:
                raise Killed
            return result

        return call


def killed_at(number: int, after: bool, what: Callable[[], None]) -> bool:
    """Whether the hook was killed at that call; otherwise it made fewer."""
    connect = api.connect
    calls = itertools.count(1)  # shared by the threads that evict
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(api, "connect", lambda s: KilledClient(connect(s), calls, number, after))
        try:
            what()
        except Killed:
            return True
    return False


@pytest.mark.spec("G6")
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("number", range(1, 8))
def test_a_drain_that_is_killed_at_any_call_runs_again(
    cluster: Double, number: int, after: bool
) -> None:
    """The final state is the same, no pod is evicted twice, and our cordon is marked as ours."""
    cluster.pod("a", grace=1)
    cluster.pod("b", grace=1)
    assert killed_at(number, after, lambda: drain(cluster)) == (number <= 6)
    drain(cluster)
    assert state(cluster) == DRAINED
    assert not cluster.pods
    assert sorted(cluster.evicted) == [("a", None), ("b", None)]
    assert cluster.calls.count(f"PATCH {NODE}") == 1
    uncordon(cluster)
    assert state(cluster) == FREE


@pytest.mark.parametrize("number", range(6))
def test_a_lost_response(cluster: Double, caplog: pytest.LogCaptureFixture, number: int) -> None:
    """The next query shows the change, and it is not repeated. A short failure is not logged."""
    cluster.pod("a", grace=1)
    cluster.pod("b", grace=1)
    cluster.lost = number
    drain(cluster)
    assert state(cluster) == DRAINED
    assert sorted(cluster.evicted) == [("a", None), ("b", None)]
    assert cluster.calls.count(f"PATCH {NODE}") == 1
    assert [record for record in caplog.records if record.levelname == "WARNING"] == []


@pytest.mark.parametrize("during", ["drain", "uncordon"])
def test_concurrent_changes_of_the_node_are_kept(cluster: Double, during: str) -> None:
    """Taints are replaced as a whole, so only on the version that was read."""
    theirs = {"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule"}

    def meanwhile(call: str) -> None:
        taints = cluster.nodes["node-1"]["spec"].setdefault("taints", [])
        if call == f"PATCH {NODE}" and theirs not in taints:
            taints.append(theirs)
            cluster._touched(cluster.nodes["node-1"])

    if during == "uncordon":
        drain(cluster)
    cluster.before = meanwhile
    if during == "drain":
        drain(cluster)
        assert state(cluster)[1] == {theirs["key"]: "", TAINT: "Reboot"}
    uncordon(cluster)
    assert state(cluster) == (False, {theirs["key"]: ""}, {})


# --- Several threads that use the API for the first time ------------------------------------------

THREADS = """
import sys
import threading
from contextlib import suppress
import msgspec
from fairwarning.guest.agent.kubernetes.api import connect
from lightkube.core.decoders import decode_list, decode_object
from lightkube.resources.coordination_v1 import Lease
from lightkube.resources.core_v1 import Event, Node, Pod

sys.setswitchinterval(1e-6)
barrier, converting = threading.Barrier(8), threading.Barrier(8)
convert = msgspec.convert

def convert_together(*arguments):
    with suppress(threading.BrokenBarrierError):  # one at a time, as it should be
        converting.wait(0.5)
    return convert(*arguments)

msgspec.convert = convert_together

def decode():
    barrier.wait()
    connect(1)
    for kind in (Node, Lease, Pod):
        decode_object(b'{"metadata": {"name": "a"}}', kind)
    for kind in (Node, Pod):
        decode_list(b'{"items": [{"metadata": {"name": "a"}}]}', kind)

threads = [threading.Thread(target=decode) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def test_threads_that_connect_and_decode_for_the_first_time_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They do not crash the interpreter, as they would with msgspec alone."""
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path, "http://127.0.0.1:1")))
    result = run_python(THREADS)
    assert result.returncode == 0, result.stderr
