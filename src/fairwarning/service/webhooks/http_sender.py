"""Outgoing HTTP requests: to a checked address, with timeouts, without proxies or redirects.

Each request runs in a thread; its caller can be cancelled at any time.
"""

import asyncio
import http.client
import socket
import ssl
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from io import BufferedReader
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from fairwarning.core.printable import printable
from fairwarning.core.record import record
from fairwarning.service.webhooks import limits
from fairwarning.service.webhooks.environment import Environment
from fairwarning.service.webhooks.messages import (
    SIGNATURE,
    Headers,
    WebhookMessage,
    render,
    signature,
)
from fairwarning.service.webhooks.subscription import Subscription
from fairwarning.service.webhooks.targets import AllowedTargets, AllowedUrl, addresses

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


class WebhookSendFailed(Exception):
    """A request got no response; the text is the reason, and printable whatever was received."""

    def __init__(self, reason: str) -> None:
        super().__init__(printable(reason.strip(), limits.ERROR_CHARACTERS))


@record
class WebhookResponse:
    """A response. Header names are in lower case."""

    status: int
    headers: Headers


class HttpSender:
    """Sends to subscribers whose hosts are still allowed."""

    def __init__(self, targets: AllowedTargets, environment: Environment) -> None:
        self._targets = targets
        self._environment = environment
        self._tls: ssl.SSLContext | None = None
        self._pool = ThreadPoolExecutor(limits.THREADS, thread_name_prefix="webhook")
        self._threads: Counter[str] = Counter()  # in use, by subscription

    async def post(self, to: Subscription, message: WebhookMessage) -> WebhookResponse:
        """Send a signed message; check the target again, because the allowed hosts may change."""
        target = self._targets.check(to.url)
        headers, body = render(message)
        signed = signature(to.secret, body, int(self._environment.wall_time()))
        return await self.send(to.id, target, {**headers, SIGNATURE: signed}, body)

    async def send(
        self, subscription: str, target: AllowedUrl, headers: Headers, body: bytes
    ) -> WebhookResponse:
        """Post a message of this subscription; return the response, whatever its status.

        Raise `WebhookSendFailed` if there is no response, `Refused` if the URL is not allowed.
        """
        if self._threads[subscription] >= limits.THREADS_OF_ONE:
            raise WebhookSendFailed("earlier requests still hang, in DNS look-ups")
        if target.secure and self._tls is None:
            # Created on demand: loading the CA certificates is slow.
            self._tls = ssl.create_default_context()
        exchange = _Exchange(target, self._environment, self._tls if target.secure else None)
        seconds = self._environment.request_seconds
        future = self._start(subscription, partial(exchange.run, headers, body))
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.wrap_future(future)
        except TimeoutError:
            if exchange.head is not None:  # only the body, which does not matter, is late
                return exchange.head
            raise _no_answer(seconds) from None
        finally:
            exchange.abort()

    def _start(
        self, subscription: str, exchange: Callable[[], WebhookResponse]
    ) -> Future[WebhookResponse]:
        """Run an exchange in a thread; one that hangs takes a thread of its subscription only."""
        future = self._pool.submit(exchange)
        self._threads[subscription] += 1
        loop = asyncio.get_running_loop()

        def release(_: object) -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._threads.subtract, (subscription,))

        future.add_done_callback(release)
        return future

    def close(self) -> None:
        """Shut the thread pool down without waiting for hanging threads."""
        self._pool.shutdown(wait=False, cancel_futures=True)


class _BoundedReader(socket.SocketIO):
    """Reads a bounded part of a response, whatever it consists of: headers, 100 Continue, body."""

    _left = limits.RESPONSE_BYTES

    def readinto(self, buffer: "WriteableBuffer") -> int | None:
        if not self._left:
            raise OSError(f"it sent more than {limits.RESPONSE_BYTES} bytes")
        count = super().readinto(memoryview(buffer)[: self._left])
        self._left -= count or 0
        return count


class _Exchange:
    """A request and its response, in a thread; `abort` is called from another thread."""

    def __init__(
        self, target: AllowedUrl, environment: Environment, tls: ssl.SSLContext | None
    ) -> None:
        self.head: WebhookResponse | None = None
        self._target = target
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

    def run(self, headers: Headers, body: bytes) -> WebhookResponse:
        try:
            self._connect()
            return self._exchange(headers, body)
        except ssl.SSLCertVerificationError as error:
            raise WebhookSendFailed(
                f"its certificate is not trusted: {error.verify_message}"
            ) from error
        except TimeoutError as error:  # of the socket: it may come before that of `send`
            raise _no_answer(self._environment.request_seconds) from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise WebhookSendFailed(str(error) or type(error).__name__) from error
        finally:
            if self._socket is not None:
                self._socket.close()

    def _connect(self) -> None:
        target = self._target
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
        error: OSError = OSError(f"{self._target.host} has no address")
        for address in candidates:
            left = deadline - time.monotonic()
            if left <= 0:
                break
            try:
                return socket.create_connection((address, self._target.port), left)
            except OSError as reason:
                error = reason
        raise WebhookSendFailed(f"no connection: {error}") from error

    def _set_socket(self, connected: socket.socket) -> None:
        self._socket = connected
        connected.settimeout(self._environment.request_seconds)
        if self._aborted:
            raise WebhookSendFailed("the request was aborted")

    def _exchange(self, headers: Headers, body: bytes) -> WebhookResponse:
        target = self._target
        connection = http.client.HTTPConnection(target.host, target.port)
        connection.sock = self._socket
        ours = {"Host": target.authority, "User-Agent": "fairwarning", "Connection": "close"}
        connection.request("POST", target.path, body, ours | dict(headers))
        assert self._socket is not None
        reader = _BoundedReader(self._socket, "rb")
        source = cast("socket.socket", SimpleNamespace(makefile=lambda _: BufferedReader(reader)))
        with http.client.HTTPResponse(source, method="POST") as response:
            response.begin()
            fields = {name.lower(): value for name, value in response.getheaders()}
            self.head = WebhookResponse(status=response.status, headers=fields)
            with suppress(OSError, http.client.HTTPException, ValueError):
                response.read(limits.RESPONSE_BYTES)  # the receiver can finish it
        return self.head


def describe_failure(response: WebhookResponse) -> str:
    """Return why a response is a failure; empty on success."""
    status = response.status
    if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
        return ""
    if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
        return f"the receiver answered {status}; redirects are not followed, so use the final url"
    return f"the receiver answered {status}"


def _no_answer(seconds: float) -> WebhookSendFailed:
    return WebhookSendFailed(f"no answer within {seconds:g} s")
