"""Packets in, an address out; and whatever else is on the network is passed over."""

from ipaddress import IPv4Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairwarning.guest import dhcp

pytestmark = pytest.mark.spec("G2")

MAC = bytes.fromhex("000d3a112233")
OURS = 0xC0FFEE00
COOKIE = bytes.fromhex("63825363")
PAD, END = b"\0", b"\xff"
AZURE = bytes((168, 63, 129, 16))


def option(number: int, value: bytes) -> bytes:
    """An option as it is sent; a long one comes in parts."""
    parts = [value[place : place + 255] for place in range(0, len(value), 255)] or [b""]
    return b"".join(bytes((number, len(part))) + part for part in parts)


def reply(asked: bytes, *options: bytes) -> bytes:
    """A server's answer to a packet, with these options."""
    return b"\x02" + asked[1:236] + COOKIE + b"".join(options)


ASKED = dhcp.discover(OURS, MAC)
OFFER = reply(ASKED, option(53, b"\x02"), option(245, AZURE), END)


def endpoint(packet: bytes) -> IPv4Address | None:
    """The address that a packet names to us."""
    offered = dhcp.offer(packet, OURS, MAC)
    return offered.endpoint if offered else None


# --- Asking ---------------------------------------------------------------------------------------


def test_what_is_asked() -> None:
    """A DISCOVER of this card, to be answered to all, which asks for nothing in particular."""
    assert ASKED[:4] == bytes((1, 1, 6, 0))
    assert ASKED[4:8] == OURS.to_bytes(4)
    assert ASKED[10:12] == b"\x80\x00"
    assert ASKED[12:28] == bytes(16)
    assert ASKED[28:34] == MAC
    assert ASKED[34:236] == bytes(202)
    assert ASKED[236:244] == COOKIE + option(53, b"\x01") + END
    assert len(ASKED) == 300


@given(st.integers(0, 2**32 - 1), st.binary(min_size=6, max_size=6))
def test_who_asked_is_who_is_answered(transaction: int, mac: bytes) -> None:
    """An answer to one question is an answer to no other."""
    asked = dhcp.discover(transaction, mac)
    packet = reply(asked, option(245, AZURE), END)
    found = dhcp.offer(packet, transaction, mac)
    assert found is not None
    assert found.endpoint == IPv4Address("168.63.129.16")
    assert dhcp.offer(packet, transaction ^ 1, mac) is None
    assert dhcp.offer(packet, transaction, bytes((mac[0] ^ 1,)) + mac[1:]) is None
    assert dhcp.offer(asked, transaction, mac) is None


# --- What is offered ------------------------------------------------------------------------------


def test_an_offer_of_azure() -> None:
    """Option 245 is four bytes: the address."""
    assert endpoint(OFFER) == IPv4Address("168.63.129.16")


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
def test_an_offer_that_names_no_endpoint(options: tuple[bytes, ...]) -> None:
    """The option is missing, of another size, cut short, behind the end, or inside another."""
    assert endpoint(reply(ASKED, *options)) is None


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
def test_an_offer_that_names_one(options: tuple[bytes, ...]) -> None:
    """There is padding, a long option before it, no end, half an option after it, or two parts."""
    assert endpoint(reply(ASKED, *options)) == IPv4Address("168.63.129.16")


@given(st.dictionaries(st.integers(1, 254), st.binary(max_size=700), max_size=8), st.data())
def test_options_are_read_as_they_were_written(
    options: dict[int, bytes], data: st.DataObject
) -> None:
    """In any order, of any size, with padding between them."""
    order = data.draw(st.permutations(list(options)))
    sent = [data.draw(st.sampled_from([b"", PAD])) + option(one, options[one]) for one in order]
    found = dhcp.offer(reply(ASKED, *sent, END), OURS, MAC)
    assert found is not None
    assert found.options == options


@pytest.mark.parametrize("length", range(len(OFFER)))
def test_a_packet_that_is_cut_short(length: int) -> None:
    """What is whole is read; nothing is made up."""
    whole = length >= len(OFFER) - len(END)
    assert (endpoint(OFFER[:length]) is not None) == whole


@pytest.mark.parametrize("place", [0, *range(4, 8), *range(28, 34), *range(236, 240)])
def test_a_packet_that_is_not_for_us(place: int) -> None:
    """One byte of what makes it ours is another: it is passed over."""
    other = bytearray(OFFER)
    other[place] ^= 0xFF
    assert dhcp.offer(bytes(other), OURS, MAC) is None


@given(st.binary(max_size=300), st.booleans())
def test_any_packet_at_all(raw: bytes, ours: bool) -> None:
    """It is an offer to us or it is not; it never does harm."""
    found = dhcp.offer(reply(ASKED, raw) if ours else raw, OURS, MAC)
    assert (found is not None) == ours
    if found is not None:
        assert sum(map(len, found.options.values())) <= len(raw)
        assert found.endpoint is None or len(found.options[245]) == 4
