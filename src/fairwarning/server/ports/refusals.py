"""Refusals by a port itself, before a request reaches the application."""

import json

from fairwarning.core import limits
from fairwarning.core.record import short_record
from fairwarning.core.times import rfc1123
from fairwarning.metadata.answers import render


@short_record
class PortRefusal:
    """The status of a refusal, with the code and message of its body."""

    status: int
    code: str
    message: str
    retry: bool = False  # whether the client may try again in a second

    def to_bytes(self, now: float) -> bytes:
        """Return the response, dated with fleet time (E11). It ends the connection."""
        body = json.dumps({"error": {"code": self.code, "message": self.message}}).encode()
        headers = f"Date: {rfc1123(int(now))}\r\n" + ("Retry-After: 1\r\n" if self.retry else "")
        return render(self.status, body, close=True, headers=headers)


OF_PORT = PortRefusal(
    503, "TooManyConnections", "the server has too many connections; try again", retry=True
)
OF_ADDRESS = PortRefusal(
    429,
    "TooManyConnections",
    "your address has too many connections; close some, or reuse them",
    retry=True,
)
MALFORMED = PortRefusal(400, "BadRequest", "the request is not valid HTTP/1.1 or HTTP/1.0")
TLS_REQUIRED = PortRefusal(
    400, "TlsRequired", "this port uses TLS; begin the URL with https:// instead of http://"
)
LATE = PortRefusal(
    408,
    "RequestTimeout",
    f"the request took too long to arrive; send its headers within {limits.PORT_HEADER_SECONDS}"
    f" seconds, and its body within another {limits.PORT_BODY_SECONDS}",
)
HEADERS_TOO_LARGE = PortRefusal(
    431,
    "HeadersTooLarge",
    f"send at most {limits.PORT_HEADER_FIELDS} headers with {limits.PORT_HEADER_BYTES} bytes, and a"
    f" path of at most {limits.PORT_PATH_BYTES} bytes",
)
