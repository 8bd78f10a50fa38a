import gc

import pytest

from fairwarning.core.commands import Delete
from fairwarning.metadata.connection import MetadataConnection
from tests.fixtures.endpoint import EndpointHarness
from tests.hostile.preparation import prepare
from tests.hostile.probes import Probe
from tests.hostile.probes_frames import FRAMES
from tests.hostile.probes_heads import HEADS
from tests.hostile.probes_lines import LINES
from tests.hostile.wire import GOOD, POLL, TARGET, Client, Reply, head, with_event

PROBES = [*HEADS, *FRAMES, *LINES]


def names_of(probes: list[Probe]) -> list[str]:
    """Return the names under which findings are reported."""
    return [probe.name for probe in probes]


def send_probe(client: Client, probe: Probe, event: str) -> list[Reply]:
    """Return all responses to a probe; if the connection must stay usable, check with a poll."""
    client.send(*(with_event(part, event) for part in probe.parts))
    if probe.closed:
        return client.replies()
    replies = [client.reply() for _ in probe.statuses]
    assert client.request(POLL).status == 200
    return replies


@pytest.mark.spec("M4", "M5", "M17")
@pytest.mark.parametrize("probe", PROBES, ids=names_of(PROBES))
def test_each_probe_has_one_response(endpoint: EndpointHarness, probe: Probe) -> None:
    """It gets the allowed response, nothing changes, and other clients are served."""
    event = prepare(endpoint)
    before = endpoint.scope("av")
    with Client(endpoint.open("av_0")) as client:
        replies = send_probe(client, probe, event)
    assert probe.statuses == tuple(reply.status for reply in replies), replies
    assert_reason(probe, replies)
    refusals = {probe.reason: 1} if probe.reason else {}
    assert refusals == dict(endpoint.server.counts.refused)
    assert probe.approves or endpoint.scope("av") is before  # IS1
    assert probe.approves is (endpoint.scope("av").events[event].approved_by != "")
    assert endpoint.get("av_0").status == 200


def assert_reason(probe: Probe, replies: list[Reply]) -> None:
    """Check that a refusal has a reason and the last response says whether it closes."""
    for reply in replies:
        assert reply.status == 200 or "error" in reply.json
    assert [reply.closes for reply in replies] == [False] * (len(replies) - 1) + [probe.closed]


@pytest.mark.spec("M17")
@pytest.mark.parametrize("target", [TARGET, "/", "*"])
def test_head_is_refused_without_a_body(endpoint: EndpointHarness, target: str) -> None:
    """A body after a response to HEAD would be read as the next response."""
    prepare(endpoint)
    with Client(endpoint.open("av_0")) as client:
        client.send(head("HEAD", target, *GOOD))
        refusal = client.bare_head()
        assert refusal.status in {400, 404, 405}
        assert refusal.closes or client.request(POLL).status == 200
        assert not refusal.closes or not client.replies()


@pytest.mark.spec("M17")
def test_a_refused_request_leaves_nothing_behind(endpoint: EndpointHarness) -> None:
    """Neither the probes that are refused nor the polls of a deleted machine keep memory."""
    event = prepare(endpoint)
    for probe in PROBES:
        if probe.reason:
            with Client(endpoint.open("av_0")) as client:
                send_probe(client, probe, event)
    endpoint.do(Delete(scope="av", operation="delete", machines=("av_0",)))
    endpoint.advance(3600)
    for _ in range(10):
        assert endpoint.get("av_0").status == 404
    endpoint.wait_until(lambda: not endpoint.connections)
    gc.collect()
    assert [kept for kept in gc.get_objects() if isinstance(kept, MetadataConnection)] == []
