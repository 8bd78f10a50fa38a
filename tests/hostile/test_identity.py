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


def asked(where: TenantEndpoint, me: Tenant, requests: list[bytes]) -> list[Reply]:
    """The answer to each, on as few connections as the endpoint allows, an own poll before each."""
    replies = []
    client = where.open(me)
    try:
        for request in requests:
            own, reply = asked_behind(client, request)
            assert me.event.encode() in own.body
            replies.append(reply)
            if reply.closes:
                client.sock.close()
                client = where.open(me)
    finally:
        client.sock.close()
    return replies


def asked_behind(client: Client, request: bytes) -> tuple[Reply, Reply]:
    """Answers to an own poll, and to what is sent in one piece with it."""
    client.send(POLL + request)
    return client.reply(), client.reply()


def as_old(request: bytes) -> bytes:
    """The same in HTTP/1.0."""
    return request.replace(b" HTTP/1.1\r\n", b" HTTP/1.0\r\n", 1)


@pytest.mark.spec("M16", "M22")
@each_transport
def test_nobody_reads_for_another(transport: str) -> None:
    """Whatever a request says, it shows its own machine's events or nothing (ID7)."""
    with tenant_endpoint(transport) as where:
        tenants = [where.add_tenant(n) for n in range(STRANGERS[transport])]
        for me in tenants:
            (own,) = asked(where, me, [POLL])
            for other in tenants:
                if other is not me:
                    assert_reads_nothing(where, me, other, own.body)


def assert_reads_nothing(where: TenantEndpoint, me: Tenant, other: Tenant, own: bytes) -> None:
    """Each trick gets what it gets for a machine that is not there: own events, or nothing."""
    requests = [trick(tenant) for trick in READS.values() for tenant in (other, NOBODY)]
    replies = iter(asked(where, me, requests))
    for name, real, made_up in zip(READS, replies, replies, strict=True):
        about = f"{name}, {me.machine} for {other.machine}: {real.raw!r}"
        assert unnamed(real, other) == made_up.raw, about
        assert real.body == own if real.status == 200 else real.status in {400, 404}, about


def unnamed(reply: Reply, other: Tenant) -> bytes:
    """The answer, with what it may have been told put in place of what was asked about."""
    raw = reply.raw
    for real, made_up in zip(other.secrets, NOBODY.secrets, strict=True):
        raw = raw.replace(real, made_up)
    return raw


@pytest.mark.spec("M13", "M16", "M22")
@each_transport
def test_nobody_approves_for_another(transport: str) -> None:
    """The other's event cannot be told from one that was never made, and nothing changes (IL10)."""
    with tenant_endpoint(transport) as where:
        tenants = [where.add_tenant(n) for n in range(STRANGERS[transport])]
        where.it.tick()
        where.it.run(where.it.fleet.settled())
        before = where.scopes(*tenants)
        for me in tenants:
            for other in tenants:
                if other is not me:
                    assert_approves_nothing(where, me, other)
        after = where.scopes(*tenants)
        assert all(old is new for old, new in zip(before, after, strict=True))
        for me in tenants:  # and all of it could have been approved
            assert asked(where, me, [post(approval(me.event))])[0].status == 200


def assert_approves_nothing(where: TenantEndpoint, me: Tenant, other: Tenant) -> None:
    """Every trick is refused, as it is for an event that is not there at all."""
    requests = [trick(me, tenant) for trick in APPROVALS.values() for tenant in (other, NOBODY)]
    replies = iter(asked(where, me, requests))
    for name, real, made_up in zip(APPROVALS, replies, replies, strict=True):
        about = f"{name}, {me.machine} for {other.machine}: {real.raw!r}"
        assert real.status in {400, 404}, about
        assert unnamed(real, other) == made_up.raw, about


@pytest.mark.spec("M16", "M20", "M22")
@each_transport
def test_http10_names_nobody_either(transport: str) -> None:
    """The same tricks in HTTP/1.0, where no Host is needed."""
    with tenant_endpoint(transport) as where:
        me, other = where.add_tenant(1), where.add_tenant(2)
        before = where.it.scope(other.scope)
        for trick in READS.values():
            real, made_up = asked(where, me, [as_old(trick(other)), as_old(trick(NOBODY))])
            assert unnamed(real, other) == made_up.raw
        for both in APPROVALS.values():
            (reply,) = asked(where, me, [as_old(both(me, other))])
            assert reply.status in {400, 404}
        assert where.it.scope(other.scope) is before


# --- Who is no machine, or no longer ---


def assert_not_found(client: Client) -> None:
    """Whatever is asked, the answer is 404 and says why; the connection can be used again."""
    for request in (POLL, post(approval(MADE_UP)), INSTANCE, POLL):
        reply = client.ask(request)
        assert (reply.status, reply.closes) == (404, False), reply.raw
        assert reply.json["error"].startswith("Not found")


@pytest.mark.spec("M22")
@each_transport
def test_an_unknown_caller_is_told_nothing(transport: str) -> None:
    """Where no machine asks from there is nothing, in any version and in HTTP/1.0 too."""
    with tenant_endpoint(transport) as where:
        where.add_tenant(1)
        with where.stranger() as client:
            assert_not_found(client)
            client.send(head("GET", "/metadata/versions", "Metadata: true", version="HTTP/1.0"))
            assert [reply.status for reply in client.replies()] == [404]


@pytest.mark.spec("M22")
@each_transport
@pytest.mark.parametrize("end", [Delete, Stop, Deallocate])
@pytest.mark.parametrize("machines", [1, 2])
def test_a_machine_that_is_gone_asks_no_more(
    transport: str, end: type[Delete | Stop | Deallocate], machines: int
) -> None:
    """A connection from before is of no use once its machine is gone or off; nor is a new one."""
    with tenant_endpoint(transport) as where:
        me = where.add_tenant(1, machines=machines)
        where.it.run(where.it.fleet.advance(3600))  # its event runs out
        with where.open(me) as client:
            assert client.ask(POLL).status == 200
            where.it.do(end(scope=me.scope, operation="end", machines=(me.machine,)))
            where.it.advance(60)
            assert_not_found(client)
        with where.open(me) as client:
            assert_not_found(client)


@pytest.mark.spec("M22")
@pytest.mark.parametrize("transport", ["source-address", "own-listener"])
def test_a_machine_that_comes_again_is_served(transport: str) -> None:
    """One that is made anew, at the same place and under the same name, is as good as any."""
    with tenant_endpoint(transport) as where:
        me = where.add_tenant(1, machines=2)
        where.it.advance(3600)
        with where.open(me) as client:
            assert client.ask(POLL).status == 200
            renew(where, me)
            assert client.ask(POLL).status == 200
        with where.open(me) as client:
            assert client.ask(POLL).status == 200


def renew(where: TenantEndpoint, me: Tenant) -> None:
    """Delete a machine, and make it again."""
    where.it.do(Delete(scope=me.scope, operation="delete", machines=(me.machine,)))
    where.it.advance(60)
    where.it.do(AddMachines(scope=me.scope, machines=(where.machine(me),)))


@pytest.mark.spec("M16", "M22")
def test_an_address_can_pass_to_another_machine() -> None:
    """Whoever has an address now is who asks from it: the new one is shown its own events only."""
    with tenant_endpoint("source-address") as where:
        old, heir = where.add_tenant(1, machines=2), where.add_tenant(2)
        with where.open(old) as client:
            assert old.event.encode() in client.ask(POLL).body
        where.it.do(Delete(scope=old.scope, operation="delete", machines=(old.machine,)))
        where.it.advance(60)
        where.it.create(
            CreateScope(
                scope="home-03",
                kind=ScopeKind.STANDALONE,
                machines=(where.machine(Tenant("vm-03-a", "home-03", old.address)),),
            )
        )
        with where.open(old) as client:
            reply = client.ask(POLL)
            assert (reply.status, reply.json["Events"]) == (200, [])
            assert client.ask(post(approval(heir.event))).status == 400
