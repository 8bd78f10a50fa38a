"""Channels between the processes of one `exec`."""

import pytest

from fairwarning.machines.process.channel import Channel

pytestmark = pytest.mark.spec("O3")


def test_the_last_message_of_an_end_that_did_not_read() -> None:
    """An end that is closed with unread messages has still delivered its own."""
    one, other = Channel.pair()
    one.send("signal", 15)
    other.send("exit", 143)
    other.close()
    assert one.receive() == (["exit", 143], [])
    assert one.receive() == ([], [])
    one.close()


def test_an_end_that_is_gone_has_no_words() -> None:
    """Sending to it is no error; receiving says so."""
    one, other = Channel.pair()
    other.close()
    one.send("signal", 15)
    assert one.receive() == ([], [])
    one.close()
