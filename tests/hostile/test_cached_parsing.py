"""Cached requests are parsed like new ones: the cache accepts nothing that validation refuses."""

from random import Random

import pytest

from fairwarning.metadata.answers import RequestRefused
from fairwarning.metadata.reader import ReceivedRequest, RequestCache, RequestReader
from fairwarning.metadata.validation import RequestValidator
from fairwarning.service.config.settings import MetadataSettings
from tests.hostile.mutations import mutated
from tests.hostile.wire import POLL, TARGET, get

CASES = 10_000
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
    for _ in range(CASES):
        line, _, block = rng.choice(BASES).partition(b"\r\n")
        if rng.random() < 0.7:
            data = mutated(rng, line) + b"\r\n" + block
        else:
            data = mutated(rng, line + b"\r\n" + block)
        hits += check(validator, data)
    assert hits > CASES // 100, "hardly any request of this seed hit the cache"
