"""Outgoing HTTP requests: to a checked address, with timeouts, without proxies or redirects.

Each request runs in a thread; its caller can be cancelled at any time.
"""

import asyncio
import http.client
import socket
import ssl
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from fairwarning.core.record import record
from fairwarning.service.webhooks import limits
from fairwarning.service.webhooks.environment import Environment
from fairwarning.service.webhooks.targets import AllowedUrl, addresses


class WebhookSendFailed(Exception):
    """A request got no response; the text is the reason."""


@record
class WebhookRequest:
    """A request to send."""

    target: AllowedUrl
    method: str
    headers: Mapping[str, str]
    body: bytes = b""


@record
class WebhookResponse:
    """A response. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""


class HttpSender:
    """Sends requests."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._tls: ssl.SSLContext | None = None
        self._pool = ThreadPoolExecutor(limits.THREADS, thread_name_prefix="webhook")

    async def send(self, request: WebhookRequest) -> WebhookResponse:
        """Send a request and return the response, whatever its status.

        Raise `WebhookSendFailed` if there is no response, `Refused` if the URL is not allowed.
        """
        if request.target.secure and self._tls is None:
            # Created on demand: loading the CA certificates is slow.
            self._tls = ssl.create_default_context()
        exchange = _Exchange(
            request, self._environment, self._tls if request.target.secure else None
        )
        seconds = self._environment.request_seconds
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(seconds):
                return await loop.run_in_executor(self._pool, exchange.run)
        except TimeoutError:
            if exchange.head is not None:  # only the body, which does not matter, is late
                return exchange.head
            raise WebhookSendFailed(
                f"no answer within {self._environment.request_seconds:g} s"
            ) from None
        finally:
            exchange.abort()

    def close(self) -> None:
        """Shut the thread pool down without waiting for hanging threads."""
        self._pool.shutdown(wait=False, cancel_futures=True)


class _Exchange:
    """A request and its response, in a thread; `abort` is called from another thread."""

    def __init__(
        self, request: WebhookRequest, environment: Environment, tls: ssl.SSLContext | None
    ) -> None:
        self.head: WebhookResponse | None = None
        self._request = request
        self._environment = environment
        self._tls = tls
        self._socket: socket.socket | None = None
        self._aborted = False

    def abort(self) -> None:
        """Shut the socket down, so that any blocked call on it fails."""
        self._aborted = True
        if self._socket is not None:
            with suppress(OSError):
                # Bypass SSLSocket.shutdown: it changes TLS state that the other thread uses.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def run(self) -> WebhookResponse:
        try:
            self._connect()
            return self._exchange()
        except ssl.SSLCertVerificationError as error:
            raise WebhookSendFailed(
                f"its certificate is not trusted: {error.verify_message}"
            ) from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = str(error) or type(error).__name__
            raise WebhookSendFailed(reason[: limits.ERROR_CHARACTERS]) from error
        finally:
            if self._socket is not None:
                self._socket.close()

    def _connect(self) -> None:
        target = self._request.target
        self._set_socket(self._connect_any(addresses(target, self._environment.resolve)))
        if self._tls is not None:
            assert self._socket is not None
            secure = self._tls.wrap_socket(
                self._socket, server_hostname=target.host, do_handshake_on_connect=False
            )
            self._set_socket(secure)
            secure.do_handshake()

    def _connect_any(self, candidates: list[str]) -> socket.socket:
        """Connect to the first address that accepts, within the connection timeout."""
        deadline = time.monotonic() + self._environment.connect_seconds
        error: OSError = OSError(f"{self._request.target.host} has no address")
        for address in candidates:
            left = deadline - time.monotonic()
            if left <= 0:
                break
            try:
                return socket.create_connection((address, self._request.target.port), left)
            except OSError as reason:
                error = reason
        raise WebhookSendFailed(f"no connection: {error}") from error

    def _set_socket(self, connected: socket.socket) -> None:
        self._socket = connected
        connected.settimeout(self._environment.request_seconds)
        if self._aborted:
            raise WebhookSendFailed("the request was aborted")

    def _exchange(self) -> WebhookResponse:
        request = self._request
        connection = http.client.HTTPConnection(request.target.host, request.target.port)
        connection.sock = self._socket
        headers = {
            "Host": request.target.authority,
            "User-Agent": "fairwarning",
            "Connection": "close",
            **request.headers,
        }
        connection.request(request.method, request.target.path, request.body, headers)
        with connection.getresponse() as response:
            fields = {name.lower(): value for name, value in response.getheaders()}
            self.head = head = WebhookResponse(status=response.status, headers=fields)
            try:
                body = response.read(limits.RESPONSE_BYTES)
            except (OSError, http.client.HTTPException, ValueError):
                return head
        return WebhookResponse(status=head.status, headers=fields, body=body)
