"""What is known by heart: requests that were seen before and passed every check.

Who asked is no part of it: that is the connection's to say, each time (M22).
"""

from fairwarning.metadata.answers import RequestRefused
from fairwarning.metadata.reader import ReceivedRequest
from fairwarning.metadata.validation import ParsedHeaders, ParsedRequest, RequestValidator

MEMO_REQUESTS = 1024
_REQUEST_BYTES = 1024  # pollers send about 150


class RequestCache:
    """Whole GETs, byte for byte, and (in the gate) headers below any first line of one."""

    def __init__(self, gate: RequestValidator) -> None:
        self._gate = gate
        self.known: dict[bytes, ParsedRequest] = {}

    def learn(self, data: bytes, request: ReceivedRequest, head: ParsedHeaders | None) -> bool:
        """These bytes are one request: whether it is a GET that passed, and known from now on."""
        ask = request.ask
        if ask is None or ask.method != b"GET" or request.body or head is None:
            return False
        if len(data) > _REQUEST_BYTES:
            return False
        self._gate.learn(data, head, close=ask.close)
        self._remember(data, ask)
        return True

    def recognise(self, data: bytes) -> ParsedRequest | None:
        """A GET that is new but for its headers; None if it has to be read, or to be refused."""
        if len(data) > _REQUEST_BYTES:
            return None
        try:
            ask = self._gate.recognise(data)
        except RequestRefused:
            return None
        if ask is not None:
            self._remember(data, ask)
        return ask

    def _remember(self, data: bytes, ask: ParsedRequest) -> None:
        known = self.known
        if len(known) >= MEMO_REQUESTS:
            known.clear()  # dropping one at a time costs more than learning them again
        known[data] = ask
