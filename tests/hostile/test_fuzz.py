import json
import time
from collections.abc import Mapping
from random import Random
from typing import Any

import pytest

from fairwarning.core.model import Event
from fairwarning.metadata.answers import RequestRefused
from fairwarning.metadata.reader import ReceivedRequest, RequestCache, RequestReader
from fairwarning.metadata.validation import RequestValidator
from fairwarning.service.config.settings import MetadataSettings
from tests.campaigns import split
from tests.fixtures.endpoint import EndpointHarness
from tests.fixtures.waiting import on_this_machine
from tests.hostile.mutations import body, mutated, request
from tests.hostile.preparation import Watch, prepare, resident_bytes
from tests.hostile.wire import POLL, TARGET, Client, Reply, get, post

SEEDS = range(1701, 1705)  # one test each; the seed is in its name
CASES = 2_500  # per seed
EVENTS = 30
DOCUMENTED = {100, 200, 304, 400, 404, 405, 408, 413, 429, 431}
GROWTH_BYTES = 8 * 1024 * 1024  # in the second half of a test; noise is about 1 MiB
SMALL_SECONDS = 0.05  # of processor time, for the worst body possible

Events = Mapping[str, Event]


def planned(endpoint: EndpointHarness) -> Events:
    """Create a scope with pending events."""
    endpoint.make("av", EVENTS)
    assert endpoint.get("av_0").status == 200
    for n in range(EVENTS):
        endpoint.freeze(f"av_{n}")
    endpoint.stop_ticking()
    return endpoint.scope("av").events


def approved(events: Events) -> set[str]:
    """Return the approved events."""
    return {event.id for event in events.values() if event.approved_by}


def named(data: bytes) -> set[str]:
    """Return the ids in an approval, as another JSON parser reads them; none if it is invalid."""
    try:
        whole: Any = json.loads(data)
        return {start["EventId"].upper() for start in whole["StartRequests"]}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return set()


def measure_memory(case: int, memory: list[int]) -> None:
    """Record memory use half way through and at the end."""
    if case in {CASES // 2, CASES - 1}:
        memory.append(resident_bytes())


def assert_no_growth(memory: list[int]) -> None:
    """Check that the second half needed no more memory than the first."""
    middle, end = memory
    assert end - middle < GROWTH_BYTES


@pytest.mark.spec("M12", "M13")
@pytest.mark.parametrize("seed", split(SEEDS, 1))
def test_mutated_bodies(seed: int) -> None:
    """Each is approved or refused as a whole, and the connection stays usable."""
    rng, memory = Random(seed), list[int]()
    with EndpointHarness() as endpoint, Watch(endpoint) as watch:
        events = planned(endpoint)
        ids = [*events, "0F0F0F0F-0F0F-4F0F-8F0F-0F0F0F0F0F0F"]
        before = approved(events)
        with Client(endpoint.open("av_0")) as client:
            for case in range(CASES):
                data = body(rng, ids)
                reply = client.request(post(data))
                after = approved(endpoint.scope("av").events)
                assert_all_or_none(data, reply, before, after)
                before = after
                measure_memory(case, memory)
            assert client.request(POLL).status == 200
        assert watch.seen == []
        assert_no_growth(memory)
        assert before, "no body of this seed approved anything"


def assert_all_or_none(data: bytes, reply: Reply, before: set[str], after: set[str]) -> None:
    """Check that 200 approves all named events, and that a refusal approves none."""
    if reply.status == 200:
        assert named(data), data
        assert after == before | named(data), data
    else:
        assert (reply.status, reply.closes) == (400, False), (data, reply)
        assert reply.json["error"].startswith("Bad request"), data
        assert after == before, data


@pytest.mark.spec("M13", "M17")
@pytest.mark.parametrize("seed", split(SEEDS, 1))
def test_mutated_requests(seed: int) -> None:
    """All responses are documented ones; only a 200 can change anything."""
    rng, memory = Random(seed), list[int]()
    with EndpointHarness() as endpoint, Watch(endpoint) as watch:
        events = planned(endpoint)
        before = approved(events)
        for case in range(CASES):
            data = request(rng, list(events))
            with Client(endpoint.open("av_0")) as client:
                client.send(data)
                statuses = [reply.status for reply in client.finish()]
            assert set(statuses) <= DOCUMENTED, (data, statuses)
            after = approved(endpoint.scope("av").events)
            assert after == before or (after > before and 200 in statuses), (data, statuses)
            before = after
            measure_memory(case, memory)
        assert watch.seen == []
        assert_no_growth(memory)
        assert endpoint.get("av_0").status == 200


_SIZE = 64 * 1024
_START = b'{"StartRequests":['
_ID = b'{"EventId":"' + b"A" * 36 + b'"},'

WORST = {
    "arrays": b"[" * _SIZE,
    "closed-arrays": b"[" * (_SIZE // 2) + b"]" * (_SIZE // 2),
    "objects": (b'{"a":' * _SIZE)[:_SIZE],
    "starts": (_START * _SIZE)[:_SIZE],
    "digits": b"9" * _SIZE,
    "exponent": b"1e" + b"9" * (_SIZE - 2),
    "incarnation": b'{"DocumentIncarnation":' + b"9" * (_SIZE - 24) + b"}",
    "fraction": b"0." + b"0" * (_SIZE - 3) + b"1",
    "escapes": b'"' + (b"\\u0041" * _SIZE)[: _SIZE - 4] + b'"',
    "spaces": b" " * _SIZE,
    "ids": (_START + _ID * _SIZE)[: _SIZE - 2],
    "many-ids": _START + _ID * 1_200 + _ID[:-1] + b"]}",
    "keys": b"{" + b'"a":1,' * (_SIZE // 6 - 2) + b'"a":1}',
    "invalid-utf8": b'"' + b"\xff" * (_SIZE - 2) + b'"',
}


@pytest.mark.spec("M13", "M17")
@pytest.mark.parametrize("name", WORST)
def test_cost_of_the_worst_body(name: str) -> None:
    """A body of maximum size that is hardest to parse is refused at once."""
    assert len(WORST[name]) <= _SIZE
    with EndpointHarness() as endpoint:
        prepare(endpoint)
        spent = []
        with Client(endpoint.open("av_0")) as client:
            for _ in range(3):
                began = time.process_time()
                assert client.request(post(WORST[name])).status == 400
                spent.append(time.process_time() - began)
        assert min(spent) < on_this_machine(SMALL_SECONDS)


# --- Cached requests are parsed like new ones ---


CACHED_CASES = 10_000
BASES = (
    POLL,
    get("Connection: close"),
    get('If-None-Match: "2"', target=f"{TARGET}&wait=5"),
    get("Connection: Upgrade", "Upgrade: h2c"),
    get("Content-Length: 0"),
    get(target="/metadata/instance/compute?api-version=2021-02-01"),
)


def read(data: bytes) -> tuple[list[ReceivedRequest], bool]:
    """Read bytes with an empty cache; return the requests, and whether one is incomplete."""
    reader = RequestReader(RequestValidator(MetadataSettings()))
    return reader.feed(data), reader.in_message


def warm() -> RequestValidator:
    """Return a validator whose cache holds the valid requests."""
    validator = RequestValidator(MetadataSettings())
    cache = RequestCache(validator)
    for base in BASES:
        reader = RequestReader(validator)
        (request,) = reader.feed(base)
        assert cache.add(base, request, reader.head)
    return validator


def check(validator: RequestValidator, data: bytes) -> bool:
    """Whether the cache parses these bytes; the result must equal that of a reader."""
    try:
        parsed, refused = validator.parse_cached(data), None
    except RequestRefused as error:
        parsed, refused = None, error.refusal
    if parsed is None and refused is None:
        return False
    (request,), more = read(data)
    assert not more, data
    assert request.parsed == parsed, data
    assert (request.refusal is None) == (refused is None), data
    if refused is not None and request.refusal is not None:
        assert request.refusal.to_bytes(close=True) == refused.to_bytes(close=True), data
    elif parsed is not None:
        assert (request.body, request.last) == (b"", parsed.close), data
    return True


@pytest.mark.spec("M4", "M5", "M22")
@pytest.mark.parametrize("seed", [3001, 3002])
def test_cached_parsing_equals_reading(seed: int) -> None:
    """Mutated request lines, headers and requests: each misses the cache, or parses the same."""
    rng, validator, hits = Random(seed), warm(), 0
    for _ in range(CACHED_CASES):
        line, _, block = rng.choice(BASES).partition(b"\r\n")
        if rng.random() < 0.7:
            data = mutated(rng, line) + b"\r\n" + block
        else:
            data = mutated(rng, line + b"\r\n" + block)
        hits += check(validator, data)
    assert hits > CACHED_CASES // 100, "hardly any request of this seed hit the cache"
