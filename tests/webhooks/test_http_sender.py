"""Requests to receivers that may be slow, broken, untrusted or not HTTP servers."""

import asyncio
import socket
import ssl
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID

from fairwarning.core.errors import Refused
from fairwarning.service.webhooks.http_sender import HttpSender, WebhookResponse, WebhookSendFailed
from fairwarning.service.webhooks.targets import AllowedTargets
from tests.fixtures.certificates import certificate, key_pem, named, new_key
from tests.fixtures.receiver import Receiver, ReceiverResponse
from tests.fixtures.waiting import LIMIT_SECONDS, on_this_machine
from tests.webhooks.webhook_fleet import ALLOWED, CountedPauses

SHORT_SECONDS = 0.3  # a timeout short enough for a test


async def send(
    url: str,
    *,
    seconds: float = 10.0,
    authority_file: Path | None = None,
    resolve: Callable[[str, int], list[str]] | None = None,
) -> WebhookResponse:
    """Post a request to a URL."""
    settings: dict[str, object] = {"request_seconds": seconds, "connect_seconds": min(seconds, 5)}
    if resolve:
        settings["resolve"] = resolve
    targets = AllowedTargets((*ALLOWED, "hooks.example"))
    sender = HttpSender(targets, CountedPauses().environment(**settings))
    with pytest.MonkeyPatch.context() as patch:
        if authority_file:
            patch.setenv("SSL_CERT_FILE", str(authority_file))
        try:
            return await sender.send("ops", targets.check(url), {"X-A": "b"}, b"hello")
        finally:
            sender.close()


async def test_a_request_and_its_response() -> None:
    """Path, query, headers and body are sent unchanged; status and headers are returned."""
    with Receiver(lambda _: ReceiverResponse(201, {"X-C": "d"}, b"thanks")) as receiver:
        response = await send(receiver.url)
    assert (response.status, response.headers["x-c"]) == (201, "d")
    (request,) = receiver.requests
    assert (request.method, request.path, request.body) == ("POST", "/hook?from=test", b"hello")
    assert request.headers["host"] == f"127.0.0.1:{receiver.port}"
    assert request.headers["x-a"] == "b"


async def test_no_redirect_is_followed() -> None:
    """A 3xx response is returned, and its target gets no request."""
    with (
        Receiver() as other,
        Receiver(lambda _: ReceiverResponse(307, {"Location": other.url})) as receiver,
    ):
        assert (await send(receiver.url)).status == 307
        assert other.requests == []


async def test_no_proxy_is_used() -> None:
    """Proxy variables are ignored: a proxy would resolve names without our checks."""
    with Receiver() as proxy, Receiver() as receiver, pytest.MonkeyPatch.context() as patch:
        for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "ALL_PROXY"):
            patch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        assert (await send(receiver.url)).status == 200
        assert proxy.requests == []


def _send_headers_slowly(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    for n in range(10_000):
        handler.wfile.write(b"X-%d: y\r\n" % n)
        handler.wfile.flush()
        time.sleep(0.02)


async def test_a_hanging_receiver_times_out(receiver: Receiver) -> None:
    """The timeout covers the whole request, also if header lines keep arriving."""
    for raw in (receiver.hang, _send_headers_slowly):
        receiver.answer = lambda _, raw=raw: ReceiverResponse(raw=raw)  # type: ignore[misc]
        started = time.monotonic()
        with pytest.raises(WebhookSendFailed, match=r"no answer within 0\.3 s|headers"):
            await send(receiver.url, seconds=SHORT_SECONDS)
        assert time.monotonic() - started < on_this_machine(5)


async def test_a_slow_body_does_not_fail_the_request(receiver: Receiver) -> None:
    """The status is returned at the timeout, even if the body never ends."""

    def raw(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab")
        receiver.hang()

    receiver.answer = lambda _: ReceiverResponse(raw=raw)
    assert (await send(receiver.url, seconds=SHORT_SECONDS)).status == 200


async def test_a_huge_response_is_not_read_to_its_end() -> None:
    """At most 64 KiB of a response is read; its status is all that matters of a longer one."""
    sent: list[int] = []
    done = threading.Event()

    def raw(handler: BaseHTTPRequestHandler) -> None:
        try:
            handler.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
            for n in range(100_000):
                handler.wfile.write(b"x" * 65536)
                sent.append(n)
        finally:
            done.set()

    with Receiver(lambda _: ReceiverResponse(raw=raw)) as receiver:
        response = await send(receiver.url)
        assert await asyncio.to_thread(done.wait, 10)
    assert response.status == 200
    assert len(sent) < 1000  # what fits in the sockets' buffers


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\x16\x03\x01\x02\x00",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 \x00\x1b[2J\x85" + b"\xff" * 500 + b"\r\n\r\n",
        "HTTP/1.1 \u202e\r\n\r\n".encode(),
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n",
    ],
    ids=["nothing", "tls", "ssh", "status", "controls", "marks", "long line", "many lines"],
)
async def test_an_invalid_response_is_a_failure(answer: bytes) -> None:
    """Data that is not an HTTP response is a failure with a short, printable reason."""

    def raw(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(answer)

    with Receiver(lambda _: ReceiverResponse(raw=raw)) as receiver:
        with pytest.raises(WebhookSendFailed) as failure:
            await send(receiver.url)
        assert 0 < len(str(failure.value)) <= 300
        assert str(failure.value).isprintable()


async def test_an_unreachable_receiver() -> None:
    """A closed port, a host without address and an unknown name have clear errors."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/"
        with pytest.raises(WebhookSendFailed, match="no connection"):
            await send(url)
    with pytest.raises(WebhookSendFailed, match=r"hooks\.example has no address"):
        await send("http://hooks.example/", resolve=lambda _host, _port: [])

    def unknown(_host: str, _port: int) -> list[str]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    with pytest.raises(WebhookSendFailed, match="not known"):
        await send("http://hooks.example/", resolve=unknown)


async def test_a_hanging_look_up_times_out(receiver: Receiver) -> None:
    """The caller does not wait for a hanging look-up, and nothing is sent when it returns."""
    resume = threading.Event()

    def slow(_host: str, _port: int) -> list[str]:
        resume.wait(LIMIT_SECONDS)
        return ["127.0.0.1"]

    url = receiver.url.replace("127.0.0.1", "hooks.example")
    with pytest.raises(WebhookSendFailed, match="no answer within"):
        await send(url, seconds=SHORT_SECONDS, resolve=slow)
    resume.set()
    await asyncio.to_thread(_join_threads)
    assert receiver.requests == []


def _join_threads() -> None:
    for thread in threading.enumerate():
        if thread.name.startswith("webhook"):
            thread.join(LIMIT_SECONDS)


async def test_the_next_address_is_tried(receiver: Receiver) -> None:
    """If one address of a host does not answer, the next one is tried."""
    url = receiver.url.replace("127.0.0.1", "hooks.example")
    resolved = ["::1", "127.0.0.1"]
    assert (await send(url, resolve=lambda _host, _port: resolved)).status == 200


async def test_a_forbidden_address_is_never_connected_to(receiver: Receiver) -> None:
    """The request is refused before any connection, even to the allowed address."""
    url = receiver.url.replace("127.0.0.1", "hooks.example")
    resolved = ["127.0.0.1", "169.254.7.7"]  # no server has this address
    with pytest.raises(Refused, match="link-local"):
        await send(url, resolve=lambda _host, _port: resolved)
    assert receiver.requests == []


# --- TLS -----------------------------------------------------------------------------------------


def authority(folder: Path, host: str, days: int = 1) -> tuple[Path, ssl.SSLContext]:
    """Return the authority's certificate file, and the TLS context of a server at this host.

    With a negative number of days, the server's certificate has expired.
    """
    key, server_key, issuer = new_key(), new_key(), named("A test")
    file, chain = folder / "authority.pem", folder / "server.pem"
    file.write_bytes(certificate(issuer, issuer, key, key))
    signed = certificate(
        named("A receiver"),
        issuer,
        server_key,
        key,
        ExtendedKeyUsageOID.SERVER_AUTH,
        host=host,
        days=days,
    )
    chain.write_bytes(key_pem(server_key) + signed)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)
    return file, context


async def test_tls_with_a_trusted_authority(tmp_path: Path) -> None:
    """TLS works by address and by name, and the name is checked against the certificate."""
    file, context = authority(tmp_path, "127.0.0.1")
    with Receiver(tls=context) as receiver:
        assert (await send(receiver.url, authority_file=file)).status == 200
    file, context = authority(tmp_path, "hooks.example")
    with Receiver(tls=context) as receiver:
        url = receiver.url.replace("127.0.0.1", "hooks.example")
        response = await send(url, authority_file=file, resolve=lambda _host, _port: ["127.0.0.1"])
        assert response.status == 200


@pytest.mark.parametrize("case", ["unknown authority", "another host", "expired"])
async def test_nothing_is_sent_over_untrusted_tls(tmp_path: Path, case: str) -> None:
    """Nothing is sent if the authority is unknown, the host differs or the certificate expired."""
    host = "other.example" if case == "another host" else "127.0.0.1"
    file, context = authority(tmp_path, host, days=-1 if case == "expired" else 1)
    with Receiver(tls=context) as receiver:
        with pytest.raises(WebhookSendFailed, match="certificate is not trusted"):
            await send(receiver.url, authority_file=None if case == "unknown authority" else file)
        assert receiver.requests == []


async def test_a_tls_receiver_without_a_handshake_times_out(tmp_path: Path) -> None:
    """The timeout also covers the TLS handshake."""
    file, _ = authority(tmp_path, "127.0.0.1")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"https://127.0.0.1:{silent.getsockname()[1]}/"
        with pytest.raises(WebhookSendFailed, match="no answer within"):
            await send(url, seconds=SHORT_SECONDS, authority_file=file)
        await asyncio.to_thread(_join_threads)
