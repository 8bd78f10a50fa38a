"""DHCP packets: finding the endpoint's address, and ignoring unrelated packets."""

from ipaddress import IPv4Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairwarning.guest.discover import discover_packet, offered_endpoint

pytestmark = pytest.mark.spec("G2")

MAC = bytes.fromhex("000d3a112233")
OURS = 0xC0FFEE00
COOKIE = bytes.fromhex("63825363")
PAD, END = b"\0", b"\xff"
AZURE = bytes((168, 63, 129, 16))


def option(number: int, value: bytes) -> bytes:
    """Encode an option; a long one is split into parts."""
    parts = [value[place : place + 255] for place in range(0, len(value), 255)] or [b""]
    return b"".join(bytes((number, len(part))) + part for part in parts)


def reply(request: bytes, *options: bytes) -> bytes:
    """Return a server's reply to a packet, with these options."""
    return b"\x02" + request[1:236] + COOKIE + b"".join(options)


DISCOVER = discover_packet(OURS, MAC)


def endpoint(packet: bytes) -> IPv4Address | None:
    """Return the endpoint address in a packet."""
    return offered_endpoint(packet, OURS, MAC)


# --- Requests -------------------------------------------------------------------------------------


def test_the_discover_packet() -> None:
    """A DISCOVER of this network card, to be answered by broadcast, without requested options."""
    assert DISCOVER[:4] == bytes((1, 1, 6, 0))
    assert DISCOVER[4:8] == OURS.to_bytes(4)
    assert DISCOVER[10:12] == b"\x80\x00"
    assert DISCOVER[12:28] == bytes(16)
    assert DISCOVER[28:34] == MAC
    assert DISCOVER[34:236] == bytes(202)
    assert DISCOVER[236:244] == COOKIE + option(53, b"\x01") + END
    assert len(DISCOVER) == 300


@given(st.integers(0, 2**32 - 1), st.binary(min_size=6, max_size=6))
def test_replies_match_their_request(transaction: int, mac: bytes) -> None:
    """A reply to one request is not a reply to another."""
    request = discover_packet(transaction, mac)
    packet = reply(request, option(245, AZURE), END)
    assert offered_endpoint(packet, transaction, mac) == IPv4Address("168.63.129.16")
    assert offered_endpoint(packet, transaction ^ 1, mac) is None
    assert offered_endpoint(packet, transaction, bytes((mac[0] ^ 1,)) + mac[1:]) is None
    assert offered_endpoint(request, transaction, mac) is None


# --- Offers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        (),
        (END,),
        (option(53, b"\x02"), option(3, bytes(4)), END),
        (option(245, b""), END),
        (option(245, AZURE[:3]), END),
        (option(245, AZURE + b"\0"), END),
        (END, option(245, AZURE)),
        (option(1, option(245, AZURE)), END),
        (b"\xf5",),
        (b"\xf5\x04\xa8\x3f",),
        (b"\xf5\xff", AZURE),
    ],
)
def test_an_offer_without_an_endpoint(options: tuple[bytes, ...]) -> None:
    """The option is missing, of another size, truncated, after the end, or inside another."""
    assert endpoint(reply(DISCOVER, *options)) is None


@pytest.mark.parametrize(
    "options",
    [
        (option(245, AZURE),),
        (PAD, PAD, option(245, AZURE), PAD, END, PAD),
        (option(249, bytes(600)), option(245, AZURE), END),
        (option(245, AZURE), b"\x03\xff\x01"),
        (option(245, AZURE[:1]), option(245, AZURE[1:]), END),
    ],
)
def test_an_offer_with_an_endpoint(options: tuple[bytes, ...]) -> None:
    """With padding, after a long option, without an end, before a truncated option, or in parts."""
    assert endpoint(reply(DISCOVER, *options)) == IPv4Address("168.63.129.16")


@given(st.binary(max_size=300), st.booleans())
def test_any_packet(raw: bytes, ours: bool) -> None:
    """It may be truncated anywhere; it never raises."""
    assert endpoint(reply(DISCOVER, raw) if ours else raw) is None or ours
