"""One request to a receiver that may be anything: slow, huge, broken, or somebody else."""

import asyncio
import socket
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from fairwarning.core.errors import Refused
from fairwarning.service.webhooks.posting import (
    HttpSender,
    WebhookRequest,
    WebhookResponse,
    WebhookSendFailed,
)
from fairwarning.service.webhooks.targets import AllowedTargets
from tests.fixtures.receiver import Receiver, ReceiverResponse
from tests.fixtures.waiting import LIMIT_SECONDS, run_async
from tests.webhooks.authority import authority
from tests.webhooks.webhook_fleet import ALLOWED, CountedPauses

SHORT_SECONDS = 0.3  # a deadline that a test can wait for


async def send(
    url: str,
    *,
    seconds: float = 10.0,
    trusting: Path | None = None,
    resolve: Callable[[str, int], list[str]] | None = None,
) -> WebhookResponse:
    """Post something there."""
    settings: dict[str, object] = {"whole_seconds": seconds, "connect_seconds": min(seconds, 5)}
    if resolve:
        settings["resolve"] = resolve
    poster = HttpSender(CountedPauses().outside(**settings))
    with pytest.MonkeyPatch.context() as patch:
        if trusting:
            patch.setenv("SSL_CERT_FILE", str(trusting))
        try:
            target = AllowedTargets((*ALLOWED, "hooks.example")).check(url)
            request = WebhookRequest(
                target=target, method="POST", headers={"X-A": "b"}, body=b"hello"
            )
            return await poster.send(request)
        finally:
            poster.close()


@run_async
async def test_a_request_and_its_answer() -> None:
    """Path, query, headers and body go out as they are; status, headers and body come back."""
    with Receiver(lambda _: ReceiverResponse(201, {"X-C": "d"}, b"thanks")) as receiver:
        answer = await send(receiver.url)
    assert (answer.status, answer.headers["x-c"], answer.body) == (201, "d", b"thanks")
    (got,) = receiver.requests
    assert (got.method, got.path, got.body) == ("POST", "/hook?from=test", b"hello")
    assert got.headers["host"] == f"127.0.0.1:{receiver.port}"
    assert got.headers["x-a"] == "b"


@run_async
async def test_no_redirect_is_followed() -> None:
    """A 3xx is an answer like any other; whoever it points to hears nothing."""
    with (
        Receiver() as other,
        Receiver(lambda _: ReceiverResponse(307, {"Location": other.url})) as receiver,
    ):
        assert (await send(receiver.url)).status == 307
        assert other.requests == []


@run_async
async def test_no_proxy_is_used() -> None:
    """Whatever the environment says: a proxy would look names up by itself, unchecked."""
    with Receiver() as proxy, Receiver() as receiver, pytest.MonkeyPatch.context() as patch:
        for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "ALL_PROXY"):
            patch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        assert (await send(receiver.url)).status == 200
        assert proxy.requests == []


def _drip_head(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    for n in range(10_000):
        handler.wfile.write(b"X-%d: y\r\n" % n)
        handler.wfile.flush()
        time.sleep(0.02)


@run_async
async def test_a_receiver_that_hangs_is_left_at_the_deadline() -> None:
    """Saying nothing, or a header line now and then: the whole has a deadline."""
    with Receiver() as receiver:
        for raw in (receiver.hang, _drip_head):
            receiver.answer = lambda _, raw=raw: ReceiverResponse(raw=raw)  # type: ignore[misc]
            began = time.monotonic()
            with pytest.raises(WebhookSendFailed, match=r"no answer within 0\.3 s|headers"):
                await send(receiver.url, seconds=SHORT_SECONDS)
            assert time.monotonic() - began < 5


@run_async
async def test_a_slow_body_does_not_undo_an_answer() -> None:
    """The status said it all: a body that never ends is left at the deadline."""
    with Receiver() as receiver:

        def raw(handler: BaseHTTPRequestHandler) -> None:
            handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab")
            receiver.hang()

        receiver.answer = lambda _: ReceiverResponse(raw=raw)
        assert (await send(receiver.url, seconds=SHORT_SECONDS)).status == 200


@run_async
async def test_a_huge_answer_is_not_read_to_its_end() -> None:
    """64 KiB of it at most, whether its length is said or not."""
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
        answer = await send(receiver.url)
        assert await asyncio.to_thread(done.wait, 10)
    assert len(answer.body) == 65536
    assert len(sent) < 1000  # what fits in the sockets' buffers


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\x16\x03\x01\x02\x00",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n",
    ],
    ids=["nothing", "tls", "ssh", "status", "long line", "many lines"],
)
def test_what_is_no_answer_is_a_failure(answer: bytes) -> None:
    """Whatever else speaks on that port."""

    @run_async
    async def story() -> None:
        def raw(handler: BaseHTTPRequestHandler) -> None:
            handler.wfile.write(answer)

        with Receiver(lambda _: ReceiverResponse(raw=raw)) as receiver:
            with pytest.raises(WebhookSendFailed) as failure:
                await send(receiver.url)
            assert 0 < len(str(failure.value)) <= 300

    story()


@run_async
async def test_nobody_there() -> None:
    """A closed port, a host without address, a name that does not exist: said as it is."""
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


@run_async
async def test_a_look_up_that_hangs_is_left_at_the_deadline() -> None:
    """The thread may hang on; nobody waits for it, and it sends nothing when it comes back."""
    back = threading.Event()

    def slow(_host: str, _port: int) -> list[str]:
        back.wait(LIMIT_SECONDS)
        return ["127.0.0.1"]

    with Receiver() as receiver:
        url = receiver.url.replace("127.0.0.1", "hooks.example")
        with pytest.raises(WebhookSendFailed, match="no answer within"):
            await send(url, seconds=SHORT_SECONDS, resolve=slow)
        back.set()
        await asyncio.to_thread(_join_threads)
        assert receiver.requests == []


def _join_threads() -> None:
    for thread in threading.enumerate():
        if thread.name.startswith("webhook"):
            thread.join(LIMIT_SECONDS)


@run_async
async def test_the_next_address_is_tried() -> None:
    """A host with several addresses of which one does not answer."""
    with Receiver() as receiver:
        url = receiver.url.replace("127.0.0.1", "hooks.example")
        found = ["::1", "127.0.0.1"]
        assert (await send(url, resolve=lambda _host, _port: found)).status == 200


@run_async
async def test_a_forbidden_address_is_never_connected_to() -> None:
    """Refused after the look-up, before any connection: not even the allowed one is used."""
    with Receiver() as receiver:
        url = receiver.url.replace("127.0.0.1", "hooks.example")
        found = ["127.0.0.1", "169.254.7.7"]  # not one where anything could answer
        with pytest.raises(Refused, match="link-local"):
            await send(url, resolve=lambda _host, _port: found)
        assert receiver.requests == []


# --- TLS -----------------------------------------------------------------------------------------


@run_async
async def test_tls_with_an_authority_that_is_trusted(tmp_path: Path) -> None:
    """By address and by name: the name is looked up by us, and checked against the certificate."""
    file, context = authority(tmp_path, "127.0.0.1")
    with Receiver(tls=context) as receiver:
        assert (await send(receiver.url, trusting=file)).status == 200
    file, context = authority(tmp_path, "hooks.example")
    with Receiver(tls=context) as receiver:
        url = receiver.url.replace("127.0.0.1", "hooks.example")
        answer = await send(url, trusting=file, resolve=lambda _host, _port: ["127.0.0.1"])
        assert answer.status == 200


@pytest.mark.parametrize("case", ["stranger", "another host", "expired"])
def test_tls_that_cannot_be_trusted_gets_nothing(tmp_path: Path, case: str) -> None:
    """An unknown authority, another host's certificate, one that ran out: nothing is sent."""

    @run_async
    async def story() -> None:
        host = "other.example" if case == "another host" else "127.0.0.1"
        file, context = authority(tmp_path, host, days=-1 if case == "expired" else 1)
        with Receiver(tls=context) as receiver:
            with pytest.raises(WebhookSendFailed, match="certificate is not trusted"):
                await send(receiver.url, trusting=None if case == "stranger" else file)
            assert receiver.requests == []

    story()


@run_async
async def test_a_tls_receiver_that_never_shakes_hands(tmp_path: Path) -> None:
    """It accepts the connection and says nothing: the deadline holds there, too."""
    file, _ = authority(tmp_path, "127.0.0.1")
    with socket.create_server(("127.0.0.1", 0)) as mute:
        url = f"https://127.0.0.1:{mute.getsockname()[1]}/"
        with pytest.raises(WebhookSendFailed, match="no answer within"):
            await send(url, seconds=SHORT_SECONDS, trusting=file)
        await asyncio.to_thread(_join_threads)
