"""A cache of requests that passed every check, by their bytes.

The cache holds nothing about the caller: each connection identifies its own (M22).
"""

from fairwarning.metadata.answers import RequestRefused
from fairwarning.metadata.reader import ReceivedRequest
from fairwarning.metadata.validation import ParsedHeaders, ParsedRequest, RequestValidator

CACHE_REQUESTS = 1024
_REQUEST_BYTES = 1024  # pollers send about 150
_PATH = b"GET /"  # not the URL that a client sends to a proxy, which not every listener accepts


class RequestCache:
    """Complete GET requests by their bytes. The validator caches header blocks as well."""

    def __init__(self, validator: RequestValidator) -> None:
        self._validator = validator
        self.requests: dict[bytes, ParsedRequest] = {}

    def add(self, data: bytes, request: ReceivedRequest, head: ParsedHeaders | None) -> bool:
        """Cache the bytes of one request if it is a valid GET; return whether it was cached."""
        parsed = request.parsed
        if parsed is None or parsed.method != b"GET" or request.body or head is None:
            return False
        if len(data) > _REQUEST_BYTES or not data.startswith(_PATH):
            return False
        self._validator.cache_headers(data, head, close=parsed.close)
        self._store(data, parsed)
        return True

    def parse(self, data: bytes) -> ParsedRequest | None:
        """Parse and cache a GET whose headers are cached; None if the reader must read it."""
        if len(data) > _REQUEST_BYTES:
            return None
        try:
            parsed = self._validator.parse_cached(data)
        except RequestRefused:
            return None
        if parsed is not None:
            self._store(data, parsed)
        return parsed

    def _store(self, data: bytes, parsed: ParsedRequest) -> None:
        requests = self.requests
        if len(requests) >= CACHE_REQUESTS:
            requests.clear()  # evicting entries one by one costs more than parsing them again
        requests[data] = parsed
