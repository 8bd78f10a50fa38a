"""Where webhooks may go: what is allowed, and every known way to pretend that something is."""

import pytest

from fairwarning.core.errors import Refused
from fairwarning.service.webhooks.targets import AllowedTargets, addresses
from tests.fixtures.receiver import Receiver
from tests.fixtures.waiting import run_async, wait_until_async
from tests.webhooks.webhook_fleet import CountedPauses, webhook_fleet

TARGETS = AllowedTargets(
    (
        "hooks.example",
        "ops.example:8443",
        "*.corp.example",
        "127.0.0.1",
        "[::1]:9000",
        "xn--bcher-kva.example",
    )
)


@pytest.mark.parametrize(
    ("url", "authority", "path"),
    [
        ("https://hooks.example", "hooks.example", "/"),
        ("http://hooks.example:81/a?b=c", "hooks.example:81", "/a?b=c"),
        ("HTTPS://HOOKS.Example:443/x", "hooks.example", "/x"),
        ("https://hooks.example?q=1", "hooks.example", "/?q=1"),
        ("https://ops.example:8443/", "ops.example:8443", "/"),
        ("https://a.corp.example/", "a.corp.example", "/"),
        ("https://a.b.corp.example:444/", "a.b.corp.example:444", "/"),
        ("http://127.0.0.1:80/", "127.0.0.1", "/"),
        ("http://[::1]:9000/", "[::1]:9000", "/"),
        ("http://[0:0:0:0:0:0:0:1]:9000/", "[::1]:9000", "/"),
        ("https://xn--bcher-kva.example/", "xn--bcher-kva.example", "/"),
        ("https://hooks.example/a@b", "hooks.example", "/a@b"),
    ],
)
def test_an_allowed_url_is_taken(url: str, authority: str, path: str) -> None:
    """Hosts compare without case, a star stands for any names before it, a host for any port."""
    target = TARGETS.check(url)
    assert (target.authority, target.path) == (authority, path)


@pytest.mark.parametrize(
    "url",
    [
        "https://other.example/",
        "https://ops.example/",  # only its port 8443
        "https://ops.example:8444/",
        "https://corp.example/",  # the star stands for something
        "https://evilcorp.example/",
        "https://corp.example.evil.test/",
        "https://hooks.example.evil.test/",
        "https://ahooks.example/",
        "http://127.0.0.2/",
        "http://[::1]/",
        "http://[::1]:9001/",
        "http://[::ffff:127.0.0.1]/",
    ],
)
def test_a_host_that_is_not_allowed_is_refused(url: str) -> None:
    """The refusal says where to allow it."""
    with pytest.raises(Refused, match="webhook_hosts under") as refusal:
        TARGETS.check(url)
    assert refusal.value.code == "TargetNotAllowed"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "hooks.example",
        "//hooks.example/",
        "ftp://hooks.example/",
        "file:///etc/passwd",
        "https:///path",
        "https://",
        "https:hooks.example",
        "https://user@hooks.example/",
        "https://user:pass@hooks.example/",
        "https://hooks.example@evil.test/",
        "https://evil.test\\@hooks.example/",
        "https://hooks.example\\.evil.test/",
        "https://hooks.example/#fragment",
        "https://evil.test#@hooks.example/",
        "https://hooks.example./",
        "https://.hooks.example/",
        "https://hooks..example/",
        "https://-hooks.example/",
        "https://hooks.example:0/",
        "https://hooks.example:65536/",
        "https://hooks.example:443443/",
        "https://hooks.example:/",
        "https://hooks.example:٤٤٣/",
        "https://hooks.example:+443/",
        "https://h\u043eoks.example/",  # a Cyrillic o
        "https://b\u00fccher.example/",
        "https://hooks\u3002example/",  # a full stop of another script
        "https://hooks.example/\u00fc",
        "https://hooks.example/a b",
        "https://hooks.example/a\r\nX-Injected: 1",
        "https://hooks.example/\n",
        " https://hooks.example/",
        "https://hooks.example\t/",
        "https://%68ooks.example/",
        "http://2130706433/",
        "http://0x7f000001/",
        "http://0x7f.1/",
        "http://127.1/",
        "http://0177.0.0.1/",
        "http://127.0.0.1./",
        "http://127.0.0.0x1/",
        "http://1.2.3.4.5/",
        "http://[::1/",
        "http://::1:9000/",
        "http://[fe80::1%25eth0]/",
        "http://[::1].evil.test/",
        "http://[v1.fe]/",
        "https://hooks.example/" + "a" * 2048,
    ],
)
def test_what_is_no_plain_url_is_refused(url: str) -> None:
    """No two readers may understand a url differently: what is unusual is refused."""
    with pytest.raises(Refused) as refusal:
        TARGETS.check(url)
    assert refusal.value.code == "BadUrl"
    assert "https://HOST[:PORT]/PATH" in refusal.value.message


@pytest.mark.parametrize(
    "host",
    [
        "169.254.169.254",
        "169.254.0.1",
        "168.63.129.16",
        "[fe80::1]",
        "[febf::1]",
        "[::ffff:169.254.169.254]",
        "[::ffff:a83f:8110]",
        "[::169.254.169.254]",
        "[64:ff9b::a9fe:a9fe]",
        "[2002:a9fe:a9fe::1]",
    ],
)
def test_metadata_addresses_are_refused_whoever_allows_them(host: str) -> None:
    """Link-local addresses and 168.63.129.16, in any spelling that leads there."""
    with pytest.raises(Refused) as refusal:
        AllowedTargets((host,)).check(f"http://{host}/")
    assert refusal.value.code == "TargetForbidden"


@pytest.mark.parametrize(
    "found",
    [
        ["169.254.169.254"],
        ["127.0.0.1", "169.254.169.254"],
        ["::ffff:168.63.129.16"],
        ["fe80::1"],
    ],
)
def test_a_name_that_leads_there_is_refused(found: list[str]) -> None:
    """One such address among several is enough."""
    target = TARGETS.check("https://hooks.example/")
    with pytest.raises(Refused) as refusal:
        addresses(target, lambda _host, _port: found)
    assert refusal.value.code == "TargetForbidden"


@pytest.mark.parametrize(
    "entry",
    ["", "*", "*.", "https://a.example", "a.example/", "a.example:0", "a.example:x", "*.127.0.0.1",
     "a b", "a.*.example", "user@a.example", "0x7f.1", "b\u00fccher.example", "::1"],
)  # fmt: skip
def test_an_entry_that_cannot_be_meant_is_refused(entry: str) -> None:
    """A slip in the settings is found at start, not when somebody slips through."""
    with pytest.raises(Refused) as refusal:
        AllowedTargets((entry,))
    assert refusal.value.code == "BadWebhookHost"


def test_nothing_is_allowed_unless_somebody_says_so() -> None:
    """The default."""
    with pytest.raises(Refused, match="allowed: none"):
        AllowedTargets().check("https://hooks.example/")


@run_async
async def test_a_name_is_looked_up_once_for_each_request() -> None:
    """A resolver that gives another address the second time is never asked a second time."""
    asked: list[str] = []

    def rebinding(host: str, _port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) % 2 else ["169.254.7.7"]  # nobody is there

    pauses = CountedPauses()
    with Receiver() as receiver:
        url = receiver.url.replace("127.0.0.1", "hooks.example")
        async with webhook_fleet(
            outside=pauses.outside(resolve=rebinding), allow=["hooks.example"]
        ) as fleet:
            await fleet.webhooks.create("ops", url, handshake=False)
            await fleet.invent(3)
            await fleet.caught_up()
            status = await fleet.status()
    assert receiver.posts[0].headers["host"] == f"hooks.example:{receiver.port}"
    assert len(asked) == 5  # three arrived; twice in between the address was a forbidden one
    assert status.failed == 2


@run_async
async def test_a_host_that_is_no_longer_allowed_gets_nothing_more() -> None:
    """What is allowed is looked at for every message, so a restart with less of it counts."""
    pauses = CountedPauses(3)
    with Receiver() as receiver:
        async with webhook_fleet(outside=pauses.outside()) as fleet:
            await fleet.create(receiver)
            store = fleet.fleet.store
            await fleet.webhooks.stop()
            await fleet.invent(1)
            await fleet.fleet.stop()
            async with webhook_fleet(store, pauses.outside(), allow=[]) as later:
                await wait_until_async(lambda: len(pauses.taken) == 4)
                assert "may not be sent" in (await later.status()).last_error
            await fleet.fleet.start()
    assert receiver.requests == []
