"""One request to the outside: to a checked address, with deadlines, no proxy and no redirect.

It runs in a thread of its own; whoever waits for it can let go at any time.
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
from fairwarning.service.webhooks.outside import Environment
from fairwarning.service.webhooks.targets import AllowedUrl, addresses


class WebhookSendFailed(Exception):
    """No answer came; the text says why."""


@record
class WebhookRequest:
    """What is to be sent."""

    target: AllowedUrl
    method: str
    headers: Mapping[str, str]
    body: bytes = b""


@record
class WebhookResponse:
    """What came back. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""


class HttpSender:
    """Sends requests."""

    def __init__(self, outside: Environment) -> None:
        self._outside = outside
        self._tls: ssl.SSLContext | None = None
        self._pool = ThreadPoolExecutor(limits.THREADS, thread_name_prefix="webhook")

    async def send(self, request: WebhookRequest) -> WebhookResponse:
        """The response, whatever its status.

        Raises `WebhookSendFailed` if there is none, `Refused` if the URL is not allowed.
        """
        if request.target.secure and self._tls is None:
            # Not before it is needed: reading all authorities takes a while.
            self._tls = ssl.create_default_context()
        exchange = _Exchange(request, self._outside, self._tls if request.target.secure else None)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._outside.whole_seconds):
                return await loop.run_in_executor(self._pool, exchange.run)
        except TimeoutError:
            if exchange.head is not None:  # only the body was slow, and it decides nothing
                return exchange.head
            raise WebhookSendFailed(f"no answer within {self._outside.whole_seconds:g} s") from None
        finally:
            exchange.abort()

    def close(self) -> None:
        """Let go of the threads; nobody waits for one that hangs."""
        self._pool.shutdown(wait=False, cancel_futures=True)


class _Exchange:
    """One request and its answer, in a thread; `abort` comes from another."""

    def __init__(
        self, request: WebhookRequest, outside: Environment, tls: ssl.SSLContext | None
    ) -> None:
        self.head: WebhookResponse | None = None
        self._request = request
        self._outside = outside
        self._tls = tls
        self._socket: socket.socket | None = None
        self._aborted = False

    def abort(self) -> None:
        """End it, wherever it is: what waits on the socket wakes up with an error."""
        self._aborted = True
        if self._socket is not None:
            with suppress(OSError):
                # Past what TLS would do first: its state belongs to the thread.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def run(self) -> WebhookResponse:
        try:
            self._connect()
            return self._converse()
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
        self._keep(self._reach(addresses(target, self._outside.resolve)))
        if self._tls is not None:
            assert self._socket is not None
            secure = self._tls.wrap_socket(
                self._socket, server_hostname=target.host, do_handshake_on_connect=False
            )
            self._keep(secure)
            secure.do_handshake()

    def _reach(self, found: list[str]) -> socket.socket:
        """The first of the addresses that answers, while there is time to connect."""
        ends = time.monotonic() + self._outside.connect_seconds
        error: OSError = OSError(f"{self._request.target.host} has no address")
        for address in found:
            left = ends - time.monotonic()
            if left <= 0:
                break
            try:
                return socket.create_connection((address, self._request.target.port), left)
            except OSError as reason:
                error = reason
        raise WebhookSendFailed(f"no connection: {error}") from error

    def _keep(self, connected: socket.socket) -> None:
        self._socket = connected
        connected.settimeout(self._outside.whole_seconds)
        if self._aborted:
            raise WebhookSendFailed("too late")

    def _converse(self) -> WebhookResponse:
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
        with connection.getresponse() as answer:
            fields = {name.lower(): value for name, value in answer.getheaders()}
            self.head = head = WebhookResponse(status=answer.status, headers=fields)
            try:
                body = answer.read(limits.ANSWER_BYTES)
            except (OSError, http.client.HTTPException, ValueError):
                return head
        return WebhookResponse(status=head.status, headers=fields, body=body)
