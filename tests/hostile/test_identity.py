import pytest

from fairwarning.core.commands import CreateScope, Deallocate, Delete, Start, Stop
from fairwarning.core.model import ScopeKind
from tests.hostile.tenants import (
    APPROVALS,
    READS,
    TRANSPORTS,
    Tenant,
    TenantEndpoint,
    tenant_endpoint,
)
from tests.hostile.wire import POLL, Client, Reply, approval, get, head, post

STRANGERS = 8
MORE_STRANGERS = 20
MADE_UP = "0F0F0F0F-0F0F-4F0F-8F0F-0F0F0F0F0F0F"
NOBODY = Tenant("vm-99-a", "home-99", "127.77.9.1", MADE_UP)
INSTANCE = get(target="/metadata/instance?api-version=2021-02-01")
each_transport = pytest.mark.parametrize("transport", TRANSPORTS)
among_strangers = pytest.mark.parametrize(
    ("transport", "count"),
    [
        *((transport, STRANGERS) for transport in TRANSPORTS),
        pytest.param("own-address", MORE_STRANGERS, marks=pytest.mark.campaign),
    ],
)


def responses_to(harness: TenantEndpoint, caller: Tenant, requests: list[bytes]) -> list[Reply]:
    """Return the response to each request, with a poll before each, on few connections."""
    replies = []
    client = harness.open(caller)
    try:
        for request in requests:
            own, reply = responses_behind(client, request)
            assert caller.event.encode() in own.body
            replies.append(reply)
            if reply.closes:
                client.sock.close()
                client = harness.open(caller)
    finally:
        client.sock.close()
    return replies


def responses_behind(client: Client, request: bytes) -> tuple[Reply, Reply]:
    """Return the responses to a poll and to the data in the same packet."""
    client.send(POLL + request)
    return client.reply(), client.reply()


@pytest.mark.spec("M16", "M22")
@among_strangers
def test_no_machine_reads_for_another(transport: str, count: int) -> None:
    """Whatever a request claims, it shows its own machine's events or nothing (ID7)."""
    with tenant_endpoint(transport) as harness:
        tenants = [harness.add_tenant(n) for n in range(count)]
        for caller in tenants:
            (own,) = responses_to(harness, caller, [POLL])
            for other in tenants:
                if other is not caller:
                    assert_reads_nothing(harness, caller, other, own.body)


def assert_reads_nothing(
    harness: TenantEndpoint, caller: Tenant, other: Tenant, own: bytes
) -> None:
    """Check that each trick has the same result as for a machine that does not exist."""
    requests = [trick(tenant) for trick in READS.values() for tenant in (other, NOBODY)]
    replies = iter(responses_to(harness, caller, requests))
    for name, real, made_up in zip(READS, replies, replies, strict=True):
        about = f"{name}, {caller.machine} for {other.machine}: {real.raw!r}"
        assert without_names(real, other) == made_up.raw, about
        assert real.body == own if real.status == 200 else real.status in {400, 404}, about


def without_names(reply: Reply, other: Tenant) -> bytes:
    """Return a response with the names of the request replaced."""
    raw = reply.raw
    for real, made_up in zip(other.secrets, NOBODY.secrets, strict=True):
        raw = raw.replace(real, made_up)
    return raw


@pytest.mark.spec("M13", "M16", "M22")
@among_strangers
def test_no_machine_approves_for_another(transport: str, count: int) -> None:
    """The other's event looks like one that does not exist, and nothing changes (IL10)."""
    with tenant_endpoint(transport) as harness:
        tenants = [harness.add_tenant(n) for n in range(count)]
        harness.endpoint.tick()
        harness.endpoint.run(harness.endpoint.fleet.settled())
        before = harness.scopes(*tenants)
        for caller in tenants:
            for other in tenants:
                if other is not caller:
                    assert_approves_nothing(harness, caller, other)
        after = harness.scopes(*tenants)
        assert all(old is new for old, new in zip(before, after, strict=True))
        for caller in tenants:  # each event could have been approved
            assert responses_to(harness, caller, [post(approval(caller.event))])[0].status == 200


def assert_approves_nothing(harness: TenantEndpoint, caller: Tenant, other: Tenant) -> None:
    """Check that each trick is refused, as for an event that does not exist."""
    requests = [trick(caller, tenant) for trick in APPROVALS.values() for tenant in (other, NOBODY)]
    replies = iter(responses_to(harness, caller, requests))
    for name, real, made_up in zip(APPROVALS, replies, replies, strict=True):
        about = f"{name}, {caller.machine} for {other.machine}: {real.raw!r}"
        assert real.status in {400, 404}, about
        assert without_names(real, other) == made_up.raw, about


# --- Unknown and deleted machines ---


def assert_not_found(client: Client) -> None:
    """Check that every request gets 404 with a reason, and that the connection stays usable."""
    for request in (POLL, post(approval(MADE_UP)), INSTANCE, POLL):
        reply = client.request(request)
        assert (reply.status, reply.closes) == (404, False), reply.raw
        assert reply.json["error"].startswith("Not found")


@pytest.mark.spec("M22")
@each_transport
def test_an_unknown_caller_gets_404(transport: str) -> None:
    """At every version, and in HTTP/1.0."""
    with tenant_endpoint(transport) as harness:
        harness.add_tenant(1)
        with harness.unknown_caller() as client:
            assert_not_found(client)
            client.send(head("GET", "/metadata/versions", "Metadata: true", version="HTTP/1.0"))
            assert [reply.status for reply in client.replies()] == [404]


@pytest.mark.spec("M22")
@each_transport
@pytest.mark.parametrize("end", [Delete, Stop, Deallocate])
@pytest.mark.parametrize("machines", [1, 2])
def test_a_deleted_or_stopped_machine_is_refused(
    transport: str, end: type[Delete | Stop | Deallocate], machines: int
) -> None:
    """Neither an old connection nor a new one is served, until it is started again."""
    with tenant_endpoint(transport) as harness:
        caller = harness.add_tenant(1, machines=machines)
        harness.endpoint.run(harness.endpoint.fleet.advance(3600))  # its event ends
        with harness.open(caller) as client:
            assert client.request(POLL).status == 200
            harness.endpoint.do(
                end(scope=caller.scope, operation="end", machines=(caller.machine,))
            )
            harness.endpoint.advance(60)
            assert_not_found(client)
        with harness.open(caller) as client:
            assert_not_found(client)
            if end is Delete:
                return
            start = Start(scope=caller.scope, operation="start", machines=(caller.machine,))
            harness.endpoint.do(start)
            harness.endpoint.advance(60)
            assert client.request(POLL).status == 200


@pytest.mark.spec("M16", "M22")
def test_an_address_can_pass_to_another_machine() -> None:
    """The current owner of an address is the caller, and sees only its own events."""
    with tenant_endpoint("source-address") as harness:
        old, heir = harness.add_tenant(1, machines=2), harness.add_tenant(2)
        with harness.open(old) as client:
            assert old.event.encode() in client.request(POLL).body
        harness.endpoint.do(Delete(scope=old.scope, operation="delete", machines=(old.machine,)))
        harness.endpoint.advance(60)
        harness.endpoint.create(
            CreateScope(
                scope="home-03",
                kind=ScopeKind.STANDALONE,
                machines=(harness.machine(Tenant("vm-03-a", "home-03", old.address)),),
            )
        )
        with harness.open(old) as client:
            reply = client.request(POLL)
            assert (reply.status, reply.json["Events"]) == (200, [])
            assert client.request(post(approval(heir.event))).status == 400
