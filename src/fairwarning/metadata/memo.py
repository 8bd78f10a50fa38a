"""What is known by heart: requests that were seen before and passed every check.

Who asked is no part of it: that is the connection's to say, each time (M22).
"""

from fairwarning.metadata.answers import Refusal
from fairwarning.metadata.gate import Ask, Gate, Head
from fairwarning.metadata.reader import Request

MEMO_REQUESTS = 1024
_REQUEST_BYTES = 1024  # pollers send about 150


class Memo:
    """Whole GETs, byte for byte, and (in the gate) headers below any first line of one."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self.known: dict[bytes, Ask] = {}

    def learn(self, data: bytes, request: Request, head: Head | None) -> bool:
        """These bytes are one request: whether it is a GET that passed, and known from now on."""
        ask = request.ask
        if ask is None or ask.method != b"GET" or request.body or head is None:
            return False
        if len(data) > _REQUEST_BYTES:
            return False
        self._gate.learn(data, head, close=ask.close)
        self._remember(data, ask)
        return True

    def recognise(self, data: bytes) -> Ask | None:
        """A GET that is new but for its headers; None if it has to be read, or to be refused."""
        if len(data) > _REQUEST_BYTES:
            return None
        try:
            ask = self._gate.recognise(data)
        except Refusal:
            return None
        if ask is not None:
            self._remember(data, ask)
        return ask

    def _remember(self, data: bytes, ask: Ask) -> None:
        known = self.known
        if len(known) >= MEMO_REQUESTS:
            known.clear()  # dropping one at a time costs more than learning them again
        known[data] = ask
