import pytest

from fairwarning.core.commands import AddMachines, CreateScope, Deallocate, Delete, Stop
from fairwarning.core.model import ScopeKind
from tests.hostile.tenants import TRANSPORTS, Tenant, TenantEndpoint, tenant_endpoint
from tests.hostile.tricks import APPROVALS, READS
from tests.hostile.wire import POLL, Client, Reply, approval, get, head, post

STRANGERS = {"own-address": 20, "source-address": 8, "own-listener": 8}
MADE_UP = "0F0F0F0F-0F0F-4F0F-8F0F-0F0F0F0F0F0F"
NOBODY = Tenant("vm-99-a", "home-99", "127.77.9.1", MADE_UP)
INSTANCE = get(target="/metadata/instance?api-version=2021-02-01")
each_transport = pytest.mark.parametrize("transport", TRANSPORTS)


def responses_to(where: TenantEndpoint, me: Tenant, requests: list[bytes]) -> list[Reply]:
    """Return the response to each request, with a poll before each, on few connections."""
    replies = []
    client = where.open(me)
    try:
        for request in requests:
            own, reply = responses_behind(client, request)
            assert me.event.encode() in own.body
            replies.append(reply)
            if reply.closes:
                client.sock.close()
                client = where.open(me)
    finally:
        client.sock.close()
    return replies


def responses_behind(client: Client, request: bytes) -> tuple[Reply, Reply]:
    """Return the responses to a poll and to the data in the same packet."""
    client.send(POLL + request)
    return client.reply(), client.reply()


def as_http_1_0(request: bytes) -> bytes:
    """Convert a request to HTTP/1.0."""
    return request.replace(b" HTTP/1.1\r\n", b" HTTP/1.0\r\n", 1)


@pytest.mark.spec("M16", "M22")
@each_transport
def test_no_machine_reads_for_another(transport: str) -> None:
    """Whatever a request claims, it shows its own machine's events or nothing (ID7)."""
    with tenant_endpoint(transport) as where:
        tenants = [where.add_tenant(n) for n in range(STRANGERS[transport])]
        for me in tenants:
            (own,) = responses_to(where, me, [POLL])
            for other in tenants:
                if other is not me:
                    assert_reads_nothing(where, me, other, own.body)


def assert_reads_nothing(where: TenantEndpoint, me: Tenant, other: Tenant, own: bytes) -> None:
    """Check that each trick has the same result as for a machine that does not exist."""
    requests = [trick(tenant) for trick in READS.values() for tenant in (other, NOBODY)]
    replies = iter(responses_to(where, me, requests))
    for name, real, made_up in zip(READS, replies, replies, strict=True):
        about = f"{name}, {me.machine} for {other.machine}: {real.raw!r}"
        assert without_names(real, other) == made_up.raw, about
        assert real.body == own if real.status == 200 else real.status in {400, 404}, about


def without_names(reply: Reply, other: Tenant) -> bytes:
    """Return a response with the names of the request replaced."""
    raw = reply.raw
    for real, made_up in zip(other.secrets, NOBODY.secrets, strict=True):
        raw = raw.replace(real, made_up)
    return raw


@pytest.mark.spec("M13", "M16", "M22")
@each_transport
def test_no_machine_approves_for_another(transport: str) -> None:
    """The other's event looks like one that does not exist, and nothing changes (IL10)."""
    with tenant_endpoint(transport) as where:
        tenants = [where.add_tenant(n) for n in range(STRANGERS[transport])]
        where.endpoint.tick()
        where.endpoint.run(where.endpoint.fleet.settled())
        before = where.scopes(*tenants)
        for me in tenants:
            for other in tenants:
                if other is not me:
                    assert_approves_nothing(where, me, other)
        after = where.scopes(*tenants)
        assert all(old is new for old, new in zip(before, after, strict=True))
        for me in tenants:  # each event could have been approved
            assert responses_to(where, me, [post(approval(me.event))])[0].status == 200


def assert_approves_nothing(where: TenantEndpoint, me: Tenant, other: Tenant) -> None:
    """Check that each trick is refused, as for an event that does not exist."""
    requests = [trick(me, tenant) for trick in APPROVALS.values() for tenant in (other, NOBODY)]
    replies = iter(responses_to(where, me, requests))
    for name, real, made_up in zip(APPROVALS, replies, replies, strict=True):
        about = f"{name}, {me.machine} for {other.machine}: {real.raw!r}"
        assert real.status in {400, 404}, about
        assert without_names(real, other) == made_up.raw, about


@pytest.mark.spec("M16", "M20", "M22")
@each_transport
def test_tricks_in_http_1_0(transport: str) -> None:
    """The same tricks in HTTP/1.0, which needs no Host header."""
    with tenant_endpoint(transport) as where:
        me, other = where.add_tenant(1), where.add_tenant(2)
        before = where.endpoint.scope(other.scope)
        for trick in READS.values():
            real, made_up = responses_to(
                where, me, [as_http_1_0(trick(other)), as_http_1_0(trick(NOBODY))]
            )
            assert without_names(real, other) == made_up.raw
        for both in APPROVALS.values():
            (reply,) = responses_to(where, me, [as_http_1_0(both(me, other))])
            assert reply.status in {400, 404}
        assert where.endpoint.scope(other.scope) is before


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
    with tenant_endpoint(transport) as where:
        where.add_tenant(1)
        with where.unknown_caller() as client:
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
    """Neither an old connection nor a new one is served."""
    with tenant_endpoint(transport) as where:
        me = where.add_tenant(1, machines=machines)
        where.endpoint.run(where.endpoint.fleet.advance(3600))  # its event ends
        with where.open(me) as client:
            assert client.request(POLL).status == 200
            where.endpoint.do(end(scope=me.scope, operation="end", machines=(me.machine,)))
            where.endpoint.advance(60)
            assert_not_found(client)
        with where.open(me) as client:
            assert_not_found(client)


@pytest.mark.spec("M22")
@pytest.mark.parametrize("transport", ["source-address", "own-listener"])
def test_a_recreated_machine_is_served(transport: str) -> None:
    """A new machine with the same address and name is served like any other."""
    with tenant_endpoint(transport) as where:
        me = where.add_tenant(1, machines=2)
        where.endpoint.advance(3600)
        with where.open(me) as client:
            assert client.request(POLL).status == 200
            recreate(where, me)
            assert client.request(POLL).status == 200
        with where.open(me) as client:
            assert client.request(POLL).status == 200


def recreate(where: TenantEndpoint, me: Tenant) -> None:
    """Delete a machine and create it again."""
    where.endpoint.do(Delete(scope=me.scope, operation="delete", machines=(me.machine,)))
    where.endpoint.advance(60)
    where.endpoint.do(AddMachines(scope=me.scope, machines=(where.machine(me),)))


@pytest.mark.spec("M16", "M22")
def test_an_address_can_pass_to_another_machine() -> None:
    """The current owner of an address is the caller, and sees only its own events."""
    with tenant_endpoint("source-address") as where:
        old, heir = where.add_tenant(1, machines=2), where.add_tenant(2)
        with where.open(old) as client:
            assert old.event.encode() in client.request(POLL).body
        where.endpoint.do(Delete(scope=old.scope, operation="delete", machines=(old.machine,)))
        where.endpoint.advance(60)
        where.endpoint.create(
            CreateScope(
                scope="home-03",
                kind=ScopeKind.STANDALONE,
                machines=(where.machine(Tenant("vm-03-a", "home-03", old.address)),),
            )
        )
        with where.open(old) as client:
            reply = client.request(POLL)
            assert (reply.status, reply.json["Events"]) == (200, [])
            assert client.request(post(approval(heir.event))).status == 400
