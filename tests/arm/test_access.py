"""Who may do what: every route, asked by everybody who may not, and by those who may (C3)."""

import base64
import json
import logging
import time
from collections.abc import Iterator

import pytest

from fairwarning.service.config.settings import TENANT
from fairwarning.service.tokens import Principal, Role, Tokens
from tests.arm.everything import (
    ANN,
    BOB,
    OPERATOR,
    OURS,
    READER,
    THEIRS,
    Everything,
    Mould,
    RouteRequest,
    state,
)
from tests.fixtures.arm import KEY, VERSION, ArmHarness
from tests.fixtures.http import Response

pytestmark = pytest.mark.spec("C3")

PUBLIC = {
    "GET /metadata/endpoints",
    "GET /aliases.json",
    "GET /common/discovery/instance",
    "GET /{tenant}/.well-known/openid-configuration",
    "GET /{tenant}/v2.0/.well-known/openid-configuration",
    "GET /{tenant}/discovery/keys",
    "GET /{tenant}/discovery/v2.0/keys",
    "POST /{tenant}/oauth2/token",
    "POST /{tenant}/oauth2/v2.0/token",
    "GET /adfs/{tenant}/.well-known/openid-configuration",
    "GET /adfs/{tenant}/v2.0/.well-known/openid-configuration",
    "GET /adfs/{tenant}/discovery/keys",
    "GET /adfs/{tenant}/discovery/v2.0/keys",
    "POST /adfs/{tenant}/oauth2/token",
    "POST /adfs/{tenant}/oauth2/v2.0/token",
}
"""What takes no token. Whoever adds to it has thought about it."""

OPAQUE = {"operation", "event"}  # parameters that are ids of ours, to be sent back as they are
METHODS = ("GET", "HEAD", "PUT", "PATCH", "POST", "DELETE", "OPTIONS", "TRACE", "get", "BREW")
QUIET = {"register", "manualupgrade", "validate"}  # POSTs that change nothing in this fleet


@pytest.fixture(scope="module")
def mould() -> Mould:
    """One for all tests here: each casts fleets of its own."""
    return Mould()


@pytest.fixture(autouse=True)
def no_secret_is_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Whatever a test here does, the log holds neither tokens nor secrets nor the key."""
    with caplog.at_level(logging.DEBUG, "fairwarning"):
        yield
    for record in caplog.records:
        told = f"{record.getMessage()} {record.args} {record.exc_text}"
        assert not any(secret in told for secret in _secrets()), told


def _tokens() -> Tokens:
    return Tokens(KEY, TENANT)


def _secrets() -> list[str]:
    """What begins every token, what keeps one a secret, and what stands in bodies."""
    header = _tokens().access(OPERATOR).partition(".")[0]
    return [header, KEY.decode(), base64.b64encode(KEY).decode(), KEY.hex(), "never-kept"]


def assert_told(answer: Response, label: str) -> None:
    """A refusal as Azure words it, and nothing that nobody may know."""
    assert answer.status >= 400, label
    assert answer.headers["cache-control"] == "no-store", label
    if answer.body:
        assert set(answer.json) == {"error"}, label
        assert set(answer.json["error"]) == {"code", "message"}, label
        assert answer.error_code.isalpha(), label
        assert 0 < len(answer.error_message) <= 1_000, label
    assert_discreet(answer, label)


def assert_discreet(answer: Response, label: str) -> None:
    """No secret is in it."""
    whole = f"{answer.headers} {answer.body.decode()}"
    assert not any(secret in whole for secret in _secrets()), label


# --- The table ------------------------------------------------------------------------------------


def test_what_is_public() -> None:
    """Logging in, and what is asked before; nothing else does without a token."""
    with ArmHarness() as arm:
        routes = [one for one in arm.app.table.routes if one.public]
    assert {f"{one.method} {one.path}" for one in routes} == PUBLIC


def test_no_two_routes_are_the_same() -> None:
    """Each method and path is there once, and is found however it is spelt."""
    with Everything() as arm:
        table = arm.app.table
        assert len({(one.method, one.path.lower()) for one in table.routes}) == len(table.routes)


def test_every_route_works(mould: Mould) -> None:
    """For the operator: what the tests below refuse would have been done, and seen to be done."""
    with mould.cast() as first:
        requests = first.requests()
    for one in requests:
        with mould.cast() as arm:
            before = state(arm)
            answer = arm.call(one)
            assert 200 <= answer.status < 300, (one.label, answer.body)
            changes = one.route.writes and one.path.rpartition("/")[2] not in QUIET
            assert (state(arm) != before) is changes, one.label
            assert_discreet(answer, one.label)


# --- Nobody ---------------------------------------------------------------------------------------


def _unsigned() -> str:
    """A token that says of itself that nobody has signed it."""
    _, claims, _ = _tokens().access(OPERATOR).split(".")
    header = base64.urlsafe_b64encode(b'{"alg":"none","typ":"JWT"}').rstrip(b"=").decode()
    return f"{header}.{claims}."


def _promoted() -> str:
    """A reader's token that says operator."""
    header, claims, signature = _tokens().access(READER).split(".")
    told = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
    told |= {"role": "operator", "roles": ["operator"]}
    more = base64.urlsafe_b64encode(json.dumps(told, separators=(",", ":")).encode())
    return f"{header}.{more.rstrip(b'=').decode()}.{signature}"


def _strangers() -> dict[str, str]:
    """Authorization headers that are nobody's; an empty one is not sent."""
    good = _tokens().access(OPERATOR)
    past, future = time.time() - 7_200, time.time() + 7_200
    return {
        "none": "",
        "empty": "Bearer ",
        "garbage": "Bearer garbage",
        "dots": "Bearer ...",
        "not-ascii": "Bearer \xe9\xff.\xe9.\xe9",
        "too-long": f"Bearer {'a' * 100_000}",
        "expired": f"Bearer {Tokens(KEY, TENANT, lambda: past).access(OPERATOR)}",
        "not-yet": f"Bearer {Tokens(KEY, TENANT, lambda: future).access(OPERATOR)}",
        "other-key": f"Bearer {Tokens(b'x' * 32, TENANT).access(OPERATOR)}",
        "other-tenant": f"Bearer {Tokens(KEY, 'another').access(OPERATOR)}",
        "client-secret": f"Bearer {_tokens().secret(OPERATOR)}",
        "unsigned": f"Bearer {_unsigned()}",
        "promoted": f"Bearer {_promoted()}",
        "cut": f"Bearer {good[:-1]}",
        "longer": f"Bearer {good}A",
        "twice": f"Bearer {good} {good}",
        "basic": f"Basic {good}",
        "basic-pair": f"Basic {base64.b64encode(f'operator:{good}'.encode()).decode()}",
        "bare": good,
        "glued": f"Bearer{good}",
    }


@pytest.mark.parametrize("stranger", _strangers())
def test_nobody_gets_in(mould: Mould, stranger: str) -> None:
    """401, and what would have told who asks; nothing has changed."""
    header = _strangers()[stranger]
    headers = {"authorization": header} if header else {}
    with mould.cast() as arm:
        before = state(arm)
        for one in arm.requests():
            body = json.dumps(one.body).encode() if one.body else b""
            query = f"api-version={VERSION}"
            answer = arm.send(one.route.method, one.path, query, body, headers)
            assert answer.status == 401, one.label
            assert answer.headers["www-authenticate"].startswith("Bearer"), one.label
            assert answer.error_code in _REASONS, one.label
            assert_told(answer, one.label)
        assert state(arm) == before


_REASONS = {"AuthenticationFailed", "InvalidAuthenticationToken", "ExpiredAuthenticationToken"}


@pytest.mark.parametrize("query", ["access_token", "authorization", "token"])
def test_a_token_is_a_header(mould: Mould, query: str) -> None:
    """URLs end up in logs; a token in one is not even looked at."""
    with mould.cast() as arm:
        given = f"api-version={VERSION}&{query}={arm.tokens.access(OPERATOR)}"
        path = arm.requests()[0].path
        assert arm.send("GET", path, given, b"", {}).status == 401


def test_what_there_is_nobody_is_told(mould: Mould) -> None:
    """Without a token, a path that exists and one that does not look the same."""
    with mould.cast() as arm:
        for path in ("/subscriptions/x/nothing", "/nothing", "/", "//", "/a/b/c/d/e/f/g"):
            answer = arm.send("GET", path, "", b"", {})
            assert (answer.status, answer.error_code) == (401, "AuthenticationFailed"), path


def test_public_routes_change_nothing(mould: Mould) -> None:
    """Whoever asks them, with whatever."""
    with mould.cast() as arm:
        before = state(arm)
        for route in arm.app.table.routes:
            if route.public:
                one = arm.request_for(route)
                for headers in ({}, {"authorization": "Bearer x"}, {"content-type": "text/x"}):
                    answer = arm.send(route.method, one.path, "", b"", headers)
                    assert answer.status in {200, 400, 401}, one.label
                    assert_discreet(answer, one.label)
        assert state(arm) == before


# --- Others ---------------------------------------------------------------------------------------


def test_a_tenant_of_another_group(mould: Mould) -> None:
    """Neither changes nor sees anything of ours."""
    with mould.cast() as arm:
        before = state(arm)
        for one in arm.requests():
            answer = arm.call(one, principal=BOB)
            if "group" in one.params:
                assert (answer.status, answer.error_code) == (403, "AuthorizationFailed"), one.label
                assert_told(answer, one.label)
            elif "/operations/" in one.route.path:
                assert (answer.status, answer.error_code) == (404, "NotFound"), one.label
            else:
                assert answer.status == 200, one.label
                assert OURS.lower() not in answer.body.decode().lower(), one.label
        assert state(arm) == before


def test_whether_a_group_exists_others_are_not_told(mould: Mould) -> None:
    """What is not theirs is refused alike, be it there or not."""
    with mould.cast() as arm:
        for one in arm.requests():
            if "group" not in one.params:
                continue
            ours, none = (arm.call(one.at(group=g), principal=BOB) for g in (OURS, "None"))
            assert ours.status == none.status, one.label
            assert ours.body.replace(OURS.encode(), b"None") == none.body, one.label


@pytest.mark.parametrize("spelling", ["theirs", "THEIRS", "Theirs"])
def test_a_group_is_compared_without_case(mould: Mould, spelling: str) -> None:
    """Tokens may spell it in any way; it is the same group, and no other."""
    who = Principal(name="bob", role=Role.TENANT, group=spelling)
    with mould.cast() as arm:
        assert arm.get(f"/resourceGroups/{THEIRS}", principal=who).status == 200
        assert arm.get(f"/resourceGroups/{OURS}", principal=who).status == 403
        found = arm.get("/resourceGroups", principal=who).json["value"]
        assert [group["name"] for group in found] == [THEIRS]


@pytest.mark.parametrize(
    "group", ["Our", "Ours2", "Ours:", "Our*", "%", ".", "ours:one", "our\u017f"]
)
def test_a_group_is_compared_whole(mould: Mould, group: str) -> None:
    """A token for a group that ours begins with, or looks like, is for another group."""
    who = Principal(name="mallory", role=Role.TENANT, group=group)
    with mould.cast() as arm:
        before = state(arm)
        for one in arm.requests():
            answer = arm.call(one, principal=who)
            if "group" in one.params:
                assert answer.status == 403, one.label
            else:
                assert OURS.lower() not in answer.body.decode().lower(), one.label
        assert state(arm) == before


@pytest.mark.parametrize("who", [OPERATOR, BOB, READER], ids=lambda who: who.name)
def test_a_refusal_is_short(mould: Mould, who: Principal) -> None:
    """However long what was asked for is, the refusal tells only so much of it."""
    long = "x" * 20_000
    with mould.cast() as arm:
        before = state(arm)
        for one in arm.requests():
            for name in one.params:
                answer = arm.call(one.at(**{name: long}), principal=who)
                if answer.status >= 400:
                    assert_told(answer, f"{one.label} {name}")
                    assert answer.status in {400, 403, 404}, one.label
        assert state(arm) == before


LISTS = (
    "/resources",
    "/resourceGroups",
    "/providers/Microsoft.Compute/virtualMachines",
    "/providers/Microsoft.Compute/disks",
)


@pytest.mark.parametrize("path", LISTS)
def test_no_query_shows_more(mould: Mould, path: str) -> None:
    """Neither a filter nor a place in a listing leads out of one's own group."""
    places = [
        "microsoft.compute/availabilitysets:ours:",
        "microsoft.compute/virtualmachines:ours:inside",
        "microsoft.compute/disks:ours",
        "microsoft.resources/resourcegroups::",
        "",
        "zzz",
    ]
    tokens = [base64.urlsafe_b64encode(place.encode()).decode() for place in places]
    queries = [
        *({"$skiptoken": token} for token in tokens),
        *({"$filter": f} for f in ("resourceGroup eq 'Ours'", "name eq 'one'")),
        {"$filter": "resourceGroup eq 'Theirs' or resourceGroup eq 'Ours'"},
        {"$expand": "instanceView", "statusOnly": "true"},
        {"$top": "1000"},
    ]
    with mould.cast() as arm:
        for query in queries:
            answer = arm.get(path, principal=BOB, **query)
            assert answer.status in {200, 400}, query
            assert OURS.lower() not in answer.body.decode().lower(), query


def test_references_lead_nowhere(mould: Mould) -> None:
    """What a body or a template names of another group is not looked up, let alone changed."""
    ours = f"/subscriptions/{{0}}/resourceGroups/{OURS}/providers"
    with mould.cast() as arm:
        home = ours.format(arm.app.context.cloud.subscription)
        compute = f"/resourceGroups/{THEIRS}/providers/Microsoft.Compute"
        before = state(arm)
        inside = {"availabilitySet": {"id": f"{home}/Microsoft.Compute/availabilitySets/av"}}
        body = {"location": "local", "properties": inside}
        refused = arm.put(f"{compute}/virtualMachines/new", body, principal=BOB)
        assert (refused.status, refused.error_code) == (400, "InvalidParameter")
        assert state(arm) == before
        value = f"[reference('{home}/Microsoft.Network/virtualNetworks/one', '2024-05-01', 'Full')]"
        template = {
            "contentVersion": "1.0.0.0",
            "resources": [],
            "outputs": {"x": {"type": "object", "value": value}},
        }
        path = f"/resourceGroups/{THEIRS}/providers/Microsoft.Resources/deployments/spy"
        body = {"properties": {"mode": "Incremental", "template": template}}
        shown = arm.put(path, body, principal=BOB)
        assert shown.json["properties"]["error"]["code"] == "InvalidTemplate"
        assert "10.7.0.0" not in shown.body.decode()


# --- Readers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("group", ["", "ours"], ids=["everywhere", "bound"])
def test_a_reader(mould: Mould, group: str) -> None:
    """Reads all there is (of its group), writes nothing."""
    who = Principal(name="eve", role=Role.READER, group=group)
    with mould.cast() as arm:
        before = state(arm)
        for one in arm.requests():
            answer = arm.call(one, principal=who)
            if one.route.writes:
                assert (answer.status, answer.error_code) == (403, "AuthorizationFailed"), one.label
                assert_told(answer, one.label)
            elif "/operations/" in one.route.path and group:
                assert answer.status == 404, one.label
            else:
                assert answer.status in {200, 204}, (one.label, answer.body)
                assert group != "ours" or THEIRS not in answer.body.decode(), one.label
        assert state(arm) == before


# --- Our own --------------------------------------------------------------------------------------


def test_a_tenant_at_home(mould: Mould) -> None:
    """Does all that the operator can inside its group, and sees nothing outside."""
    with mould.cast() as first:
        requests = first.requests()
    for one in requests:
        with mould.cast() as arm:
            others = _of(arm, THEIRS)
            answer = arm.call(one, principal=ANN)
            assert 200 <= answer.status < 300, (one.label, answer.body)
            assert THEIRS.lower() not in answer.body.decode().lower(), one.label
            arm.advance(3_600)
            assert _of(arm, THEIRS) == others, one.label


def _of(arm: Everything, group: str) -> list[object]:
    """What a group has, told by its names alone: time goes on for the others as well."""
    found, *_ = state(arm)
    assert isinstance(found, dict)
    names = sorted(str(name) for _, name in found)
    return [name for name in names if f":{group}:".lower() in f":{name}:".lower()]


# --- Ways to ask ----------------------------------------------------------------------------------


def test_another_subscription(mould: Mould) -> None:
    """There is one; 404 for any other, also where the rest of the path is right."""
    with mould.cast() as arm:
        before = state(arm)
        for one in arm.requests():
            if "subscription" in one.params:
                there = one.at(subscription="00000000-0000-0000-0000-000000000002")
                answer = arm.call(there)
                assert (answer.status, answer.error_code) == (404, "SubscriptionNotFound"), (
                    one.label
                )
                assert_told(answer, one.label)
        assert state(arm) == before


VERSIONS = {
    "": "MissingApiVersionParameter",
    "latest": "InvalidApiVersionParameter",
    "2024-13-01": "InvalidApiVersionParameter",
    "2024-11-01 ": "InvalidApiVersionParameter",
    "2024-11-01-preview-2": "InvalidApiVersionParameter",
    "٢٠٢٤-11-01": "InvalidApiVersionParameter",
    "x" * 5_000: "InvalidApiVersionParameter",
}


@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: str(version)[:20] or "none")
def test_a_version_is_required(mould: Mould, version: str) -> None:
    """400 without one and with one that is none; nothing has changed."""
    with mould.cast() as arm:
        before = state(arm)
        for one in arm.requests():
            answer = arm.call(one, version=version)
            assert (answer.status, answer.error_code) == (400, VERSIONS[version]), one.label
            assert_told(answer, one.label)
        assert state(arm) == before


def _spellings(one: RouteRequest) -> Iterator[str]:
    """A path in other cases. Ids of ours are to be sent back as they are."""
    kept = {value for name, value in one.params.items() if name in OPAQUE}
    if "/operations/" in one.route.path:
        kept.add(one.params["name"])
    for spell in (str.upper, str.lower, str.swapcase, str.title):
        yield "/".join(part if part in kept else spell(part) for part in one.path.split("/"))


def test_case_does_not_matter(mould: Mould) -> None:
    """A path reads the same in any case."""
    with mould.cast() as arm:
        for one in arm.requests():
            if one.route.writes:
                continue
            right = arm.call(one)
            for path in _spellings(one):
                answer = arm.request(one.route.method, f"/{path}")
                assert answer.status == right.status, (path, answer.body)
                assert answer.body.lower() == right.body.lower(), path


def test_case_does_not_matter_for_writes(mould: Mould) -> None:
    """Nor is anything new made, or anything left out, because of the case of a path."""
    with mould.cast() as first:
        requests = [one for one in first.requests() if one.route.writes]
    for one in requests:
        with mould.cast() as arm:
            right = arm.call(one)
            names = _names(arm)
        with mould.cast() as arm:
            answer = arm.request(one.route.method, f"/{next(_spellings(one))}", one.body)
            assert answer.status == right.status, (one.label, answer.body)
            assert _names(arm) == names, one.label


def _names(arm: Everything) -> set[str]:
    found, *_ = state(arm)
    assert isinstance(found, dict)
    return {name for kind, name in found if kind.__name__ != "Operation"}


def test_other_methods(mould: Mould) -> None:
    """405 for a method that a path does not have; nothing has changed."""
    with mould.cast() as arm:
        before = state(arm)
        for one in arm.requests():
            for method in _missing(arm, one):
                answer = arm.request(method, f"/{one.path}")
                assert (answer.status, answer.error_code) == (405, "MethodNotAllowed"), one.label
                assert_told(answer, one.label)
        assert state(arm) == before


def _missing(arm: Everything, one: RouteRequest) -> list[str]:
    """Methods that there are not, for this very path."""
    here = {route.method for route in arm.app.table.routes if route.path == one.route.path}
    return [method for method in METHODS if method not in here]


@pytest.mark.parametrize(
    "path",
    [
        "//nothing",
        "//",
        "///",
        "//subscriptions/x/y",
        "/resourceGroups/Ours/nothing",
        "/resourceGroups/Ours/providers/Microsoft.Compute/virtualMachines/one/nothing",
        "/resourceGroups/Ours/providers/Microsoft.Storage/storageAccounts/one",
        "/resourceGroups/Ours/providers/Microsoft.Compute/virtualMachines/one/restart/more",
        "/resourceGroups/Ours/../Theirs",
        "//" + "a/" * 3_000,
        "//" + "a" * 60_000,
    ],
    ids=lambda path: str(path)[:60],
)
def test_unknown_paths(mould: Mould, path: str) -> None:
    """404 for a path that there is not."""
    with mould.cast() as arm:
        before = state(arm)
        for method in ("GET", "PUT", "POST", "DELETE"):
            answer = arm.request(method, path)
            assert answer.status == 404, path
            assert answer.error_code in {"InvalidResourceType", "SubscriptionNotFound"}, path
            assert_told(answer, path)
        assert state(arm) == before
