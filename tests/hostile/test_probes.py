import pytest

from tests.fixtures.endpoint import EndpointHarness
from tests.hostile.preparation import prepare
from tests.hostile.probes import Probe
from tests.hostile.probes_frames import FRAMES
from tests.hostile.probes_heads import HEADS
from tests.hostile.probes_lines import LINES
from tests.hostile.wire import GOOD, POLL, TARGET, Client, Reply, at, head

PROBES = [*HEADS, *FRAMES, *LINES]


def names_of(probes: list[Probe]) -> list[str]:
    """How findings are reported."""
    return [probe.name for probe in probes]


def ask(client: Client, probe: Probe, event: str) -> list[Reply]:
    """Every answer to the probe; if it must leave the connection in step, a poll proves that."""
    client.send(*(at(part, event) for part in probe.parts))
    if probe.closed:
        return client.replies()
    replies = [client.reply() for _ in probe.answers]
    assert client.ask(POLL).status == 200
    return replies


@pytest.mark.spec("M4", "M5", "M17")
@pytest.mark.parametrize("probe", PROBES, ids=names_of(PROBES))
def test_each_probe_has_one_answer(probe: Probe) -> None:
    """It gets the answer that is allowed and no other, nothing changes, and others are served."""
    with EndpointHarness() as it:
        event = prepare(it)
        before = it.scope("av")
        with Client(it.open("av_0")) as client:
            replies = ask(client, probe, event)
        assert probe.answers == tuple(reply.status for reply in replies), replies
        assert_told(probe, replies)
        refusals = {probe.reason: 1} if probe.reason else {}
        assert refusals == dict(it.server.counts.refused)
        assert probe.approves or it.scope("av") is before  # IS1
        assert probe.approves is (it.scope("av").events[event].approved_by != "")
        assert it.get("av_0").status == 200


def assert_told(probe: Probe, replies: list[Reply]) -> None:
    """A refusal says why; the last answer says whether it is the last."""
    for reply in replies:
        assert reply.status == 200 or "error" in reply.json
    assert [reply.closes for reply in replies] == [False] * (len(replies) - 1) + [probe.closed]


def test_the_corpus_is_whole() -> None:
    """Every probe has a name of its own."""
    assert len(set(names_of(PROBES))) == len(PROBES) > 120


@pytest.mark.spec("M17")
@pytest.mark.parametrize("target", [TARGET, "/", "*"])
def test_head_is_refused_without_a_body(target: str) -> None:
    """No body follows an answer to HEAD, or the client would take it for its next answer."""
    with EndpointHarness() as it:
        prepare(it)
        with Client(it.open("av_0")) as client:
            client.send(head("HEAD", target, *GOOD))
            refusal = client.bare_head()
            assert refusal.status in {400, 404, 405}
            assert refusal.closes or client.ask(POLL).status == 200
            assert not refusal.closes or not client.replies()
