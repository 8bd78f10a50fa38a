"""What is known by heart is read as if it were new: the memo opens no door that the gate shuts."""

from random import Random

import pytest

from fairwarning.metadata.answers import RequestRefused
from fairwarning.metadata.reader import ReceivedRequest, RequestReader
from fairwarning.metadata.request_cache import RequestCache
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
    """What somebody makes of these bytes who never saw any; and whether more has to come."""
    reader = RequestReader(RequestValidator(MetadataSettings()))
    return reader.feed(data), reader.in_message


def warm() -> RequestValidator:
    """A gate that has seen the good requests."""
    gate = RequestValidator(MetadataSettings())
    memo = RequestCache(gate)
    for base in BASES:
        reader = RequestReader(gate)
        (request,) = reader.feed(base)
        assert memo.learn(base, request, reader.head)
    return gate


def check(gate: RequestValidator, data: bytes) -> bool:
    """Whether the gate knows this; then it must know it as a reader would."""
    try:
        ask, refused = gate.recognise(data), None
    except RequestRefused as refusal:
        ask, refused = None, refusal
    if ask is None and refused is None:
        return False
    (request,), more = read(data)
    assert not more, data
    assert request.ask == ask, data
    assert (request.refusal is None) == (refused is None), data
    if refused is not None and request.refusal is not None:
        assert request.refusal.answer(close=True) == refused.answer(close=True), data
    elif ask is not None:
        assert (request.body, request.last) == (b"", ask.close), data
    return True


@pytest.mark.spec("M4", "M5", "M22")
@pytest.mark.parametrize("seed", [3001, 3002])
def test_what_is_recognised_is_what_would_be_read(seed: int) -> None:
    """Mutated first lines, headers and whole requests: each is unknown, or read the same."""
    rng, gate, known = Random(seed), warm(), 0
    for _ in range(CASES):
        line, _, block = rng.choice(BASES).partition(b"\r\n")
        if rng.random() < 0.7:
            data = mutated(rng, line) + b"\r\n" + block
        else:
            data = mutated(rng, line + b"\r\n" + block)
        known += check(gate, data)
    assert known > CASES // 100, "hardly any of this seed was recognised"
