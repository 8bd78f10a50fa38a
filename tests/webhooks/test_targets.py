"""Allowed webhook targets, and known ways to bypass the check."""

import pytest

from fairwarning.core.errors import Refused
from fairwarning.service.webhooks.targets import AllowedTargets, addresses
from tests.fixtures.receiver import Receiver
from tests.fixtures.waiting import wait_until_async
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
def test_an_allowed_url_is_accepted(url: str, authority: str, path: str) -> None:
    """Hosts are case-insensitive, `*.` allows any subdomain, and a host allows any port."""
    target = TARGETS.check(url)
    assert (target.authority, target.path) == (authority, path)


@pytest.mark.parametrize(
    "url",
    [
        "https://other.example/", "https://ops.example:8444/", "https://evilcorp.example/",
        "https://corp.example.evil.test/", "https://hooks.example.evil.test/",
        "https://ahooks.example/", "http://127.0.0.2/", "http://[::1]/", "http://[::1]:9001/",
        "http://[::ffff:127.0.0.1]/",
        "https://ops.example/",  # only port 8443 is allowed
        "https://corp.example/",  # `*.` requires a subdomain
    ],
)  # fmt: skip
def test_a_host_that_is_not_allowed_is_refused(url: str) -> None:
    """The refusal says where to allow the host."""
    with pytest.raises(Refused, match="webhook_hosts under") as refusal:
        TARGETS.check(url)
    assert refusal.value.code == "TargetNotAllowed"


@pytest.mark.parametrize(
    "url",
    [
        "", "hooks.example", "//hooks.example/", "ftp://hooks.example/", "file:///etc/passwd",
        "https:///path", "https://", "https:hooks.example", "https://user@hooks.example/",
        "https://user:pass@hooks.example/", "https://hooks.example@evil.test/",
        "https://evil.test\\@hooks.example/", "https://hooks.example\\.evil.test/",
        "https://hooks.example/#fragment", "https://evil.test#@hooks.example/",
        "https://hooks.example./", "https://.hooks.example/", "https://hooks..example/",
        "https://-hooks.example/", "https://hooks.example:0/", "https://hooks.example:65536/",
        "https://hooks.example:443443/", "https://hooks.example:/", "https://hooks.example:٤٤٣/",
        "https://hooks.example:+443/", "https://b\u00fccher.example/",
        "https://hooks.example/\u00fc", "https://hooks.example/a b",
        "https://hooks.example/a\r\nX-Injected: 1", "https://hooks.example/\n",
        " https://hooks.example/", "https://hooks.example\t/", "https://%68ooks.example/",
        "http://2130706433/", "http://1684300488/", "http://0x646464c8/", "http://0x7f000001/",
        "http://0x7f.1/", "http://127.1/", "http://0177.0.0.1/", "http://127.0.0.1./",
        "http://127.0.0.0x1/", "http://1.2.3.4.5/", "http://[::1/", "http://::1:9000/",
        "http://[fe80::1%25eth0]/", "http://[::1].evil.test/", "http://[v1.fe]/",
        "https://h\u043eoks.example/",  # a Cyrillic o
        "https://hooks\u3002example/",  # a full stop of another script
        "https://hooks.example/" + "a" * 2048,
    ],
)  # fmt: skip
def test_an_unusual_url_is_refused(url: str) -> None:
    """A URL that two parsers might read differently is refused."""
    with pytest.raises(Refused) as refusal:
        TARGETS.check(url)
    assert refusal.value.code == "BadUrl"
    assert "https://HOST[:PORT]/PATH" in refusal.value.message


@pytest.mark.parametrize(
    "host",
    [
        "169.254.169.254", "169.254.0.1", "168.63.129.16", "100.100.100.200",
        "[::ffff:100.100.100.200]", "[64:ff9b::6464:64c8]", "[fd00:ec2::254]",
        "[fd00:0ec2:0:0::0254]", "[fe80::1]", "[febf::1]", "[::ffff:169.254.169.254]",
        "[::ffff:a83f:8110]", "[::169.254.169.254]", "[64:ff9b::a9fe:a9fe]", "[2002:a9fe:a9fe::1]",
    ],
)  # fmt: skip
def test_metadata_addresses_are_always_refused(host: str) -> None:
    """Link-local addresses and metadata services of clouds are refused in every notation."""
    with pytest.raises(Refused) as refusal:
        AllowedTargets((host,)).check(f"http://{host}/")
    assert refusal.value.code == "TargetForbidden"


@pytest.mark.parametrize(
    "resolved",
    [
        ["169.254.169.254"],
        ["127.0.0.1", "169.254.169.254"],
        ["::ffff:168.63.129.16"],
        ["127.0.0.1", "fd00:ec2::254"],
        ["100.100.100.200"],
        ["fe80::1"],
    ],
)
def test_a_name_with_a_forbidden_address_is_refused(resolved: list[str]) -> None:
    """One forbidden address among several is enough to refuse the host."""
    target = TARGETS.check("https://hooks.example/")
    with pytest.raises(Refused) as refusal:
        addresses(target, lambda _host, _port: resolved)
    assert refusal.value.code == "TargetForbidden"


@pytest.mark.parametrize(
    "entry",
    ["", "*", "*.", "https://a.example", "a.example/", "a.example:0", "a.example:x", "*.127.0.0.1",
     "a b", "a.*.example", "user@a.example", "0x7f.1", "b\u00fccher.example", "::1"],
)  # fmt: skip
def test_an_invalid_entry_is_refused(entry: str) -> None:
    """An invalid entry is refused at the start."""
    with pytest.raises(Refused) as refusal:
        AllowedTargets((entry,))
    assert refusal.value.code == "BadWebhookHost"


def test_no_host_is_allowed_by_default() -> None:
    """By default, no host is allowed."""
    with pytest.raises(Refused, match="allowed: none"):
        AllowedTargets().check("https://hooks.example/")


async def test_a_name_is_resolved_once_per_request(receiver: Receiver) -> None:
    """Each request resolves the name once, so DNS rebinding has no effect."""
    look_ups: list[str] = []

    def rebinding(host: str, _port: int) -> list[str]:
        look_ups.append(host)
        return ["127.0.0.1"] if len(look_ups) % 2 else ["169.254.7.7"]  # no server is there

    pauses = CountedPauses()
    url = receiver.url.replace("127.0.0.1", "hooks.example")
    async with webhook_fleet(
        environment=pauses.environment(resolve=rebinding), allow=["hooks.example"]
    ) as fleet:
        await fleet.webhooks.create("ops", url)
        await fleet.invent(3)
        await fleet.caught_up()
    assert receiver.posts[0].headers["host"] == f"hooks.example:{receiver.port}"
    assert len(look_ups) == 5  # three arrived; in between, two resolved to a forbidden address


async def test_a_host_that_is_no_longer_allowed_gets_no_messages(receiver: Receiver) -> None:
    """The allowed hosts are checked for every message, so a restart with fewer takes effect."""
    pauses = CountedPauses(3)
    async with webhook_fleet(environment=pauses.environment()) as fleet:
        await fleet.create(receiver)
        store = fleet.fleet.store
        await fleet.webhooks.stop()
        await fleet.invent(1)
        await fleet.fleet.stop()
        async with webhook_fleet(store, pauses.environment(), allow=[]) as later:
            await wait_until_async(lambda: len(pauses.taken) == 4)
            assert "may not be sent" in (await later.status()).last_error
        await fleet.fleet.start()
    assert receiver.requests == []
