"""Whatever the control plane is sent: it is done, or refused with a reason and nothing has changed.

Every route gets requests that work but for a few places: in the path, the query, the headers and
the body. Then the same for logins, for templates, and for whole sequences of requests.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from fairwarning.arm import app
from fairwarning.arm.http import context
from fairwarning.arm.http.routes import Route
from fairwarning.arm.identity.login import FORM_BYTES
from fairwarning.arm.resources import instances, subscriptions
from fairwarning.core.limits import RESOURCE_CHARACTERS
from tests.arm.everything import OPERATOR, OURS, Everything, FleetSnapshot, state
from tests.fixtures.arm import VERSION
from tests.fixtures.http import Response
from tests.hostile.arm_requests import BENDS, LIMIT, Bend, Sent, bent
from tests.hostile.arm_templates import EXPRESSIONS, TEMPLATES

pytestmark = pytest.mark.spec("C1", "C3")

REFUSALS = {400, 404, 405, 409, 412, 413}
DOCUMENTED = {
    "GET": {200, 202, 400, 404, 405, 409},
    "HEAD": {204, 400, 404, 405},
    "PUT": {200, 201, *REFUSALS},
    "PATCH": {200, *REFUSALS},
    "POST": {200, 202, 204, 429, *REFUSALS},
    "DELETE": {200, 202, 204, 400, 404, 405, 409},
}
"""What a method may be answered with, as Azure documents it. 202 of a GET: an operation goes on."""

MESSAGE_CHARACTERS = 1_000
EXAMPLES = settings().max_examples // 5  # 20 a route, and many more with profile `explore`
ROUTES = [route for module in app.MODULES for route in module.ROUTES]
ODD = ("path", "self", "call", "query", "host", "a b", "&", "$top", "api_version", "é", "monitor")
PAGES = 100
FORM = "application/x-www-form-urlencoded"

limited = settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))


class Crowd:
    """A fleet with one of everything, made anew once it has been changed."""

    def __init__(self) -> None:
        self._snapshot = FleetSnapshot()
        self._open: Any = None
        self._arm: Everything | None = None
        self._before: object = None

    def arm(self) -> Everything:
        """The fleet as it was made."""
        if self._arm is None:
            self._open = self._snapshot.restore()
            self._arm = self._open.__enter__()
            self._before = state(self._arm)
        return self._arm

    def unchanged(self) -> bool:
        """Whether it is still that."""
        return self._arm is not None and state(self._arm) == self._before

    @contextmanager
    def lent(self) -> Iterator[Everything]:
        """The fleet as it was made, for one request."""
        try:
            yield self.arm()
        finally:
            if not self.unchanged():
                self.drop()

    def drop(self) -> None:
        """The next one shall be another."""
        if self._arm is not None:
            self._arm = None
            self._open.__exit__(None, None, None)


@pytest.fixture(scope="module")
def crowd() -> Iterator[Crowd]:
    """One for all tests here."""
    made = Crowd()
    yield made
    made.drop()


def send(arm: Everything, sent: Sent) -> Response:
    """Send it as the operator, who may do everything."""
    headers = {"authorization": f"Bearer {arm.tokens.access(OPERATOR)}", **sent.headers}
    return arm.send(sent.method, sent.path, sent.query, sent.body, headers)


def check(crowd: Crowd, arm: Everything, sent: Sent, answer: Response) -> None:
    """What holds for each request."""
    assert answer.status in DOCUMENTED[sent.method], (sent, answer)
    assert arm.fleet.broken is None, sent
    if answer.status >= 400:
        assert_told(sent, answer)
        assert crowd.unchanged(), (sent, answer)
    elif sent.method == "PUT":
        assert_kept(arm, answer)


def assert_told(sent: Sent, answer: Response) -> None:
    """A code that can be compared, and a sentence that can be read."""
    if sent.method == "HEAD" and not answer.body:
        return
    if answer.status == 409 and "monitor" in sent.query:
        return  # how an operation ended is told in the same shape, and is no refusal
    assert set(answer.json) == {"error"}, sent
    assert set(answer.json["error"]) == {"code", "message"}, sent
    assert answer.error_code.isalpha(), sent
    assert answer.error_code.isascii(), sent
    assert 0 < len(answer.error_message) <= MESSAGE_CHARACTERS, (sent, len(answer.error_message))


def assert_kept(arm: Everything, answer: Response) -> None:
    """What was written is there, under the id that it was given, and reads the same."""
    put = answer.json
    got = arm.get(f"/{put['id']}")
    assert got.status == 200, (put, got.body)
    read = got.json
    for document in (put, read):
        document.get("properties", {}).pop("provisioningState", None)
    assert read == put


def _label(route: Route) -> str:
    path = route.path.rpartition("providers/")[2].replace("Microsoft.", "")
    return f"{route.method} {path}"


@pytest.mark.parametrize("route", ROUTES, ids=_label)
@limited
@given(bend=BENDS)
def test_no_request_does_harm(crowd: Crowd, route: Route, bend: Bend) -> None:
    """It is done, soundly, or it is refused with a code and a reason, and nothing has changed."""
    with crowd.lent() as arm:
        sent = bent(arm.request_for(route), bend)
        answer = send(arm, sent)
        if route.public:
            assert answer.status in {200, 400, 401, 404, 405}, (sent, answer)
            assert crowd.unchanged()
        else:
            check(crowd, arm, sent, answer)


@pytest.mark.parametrize("over", [False, True], ids=["at", "over"])
def test_the_largest_body(crowd: Crowd, over: bool) -> None:
    """4 MiB are read; a byte more is refused wherever a body is read, and nothing has changed."""
    for route in ROUTES:
        if not route.writes or route.public:
            continue
        with crowd.lent() as arm:
            ask = arm.request_for(route)
            sent = Sent(route.method, ask.path, f"api-version={VERSION}", LIMIT[over], {})
            answer = send(arm, sent)
            reads = route.method in {"PUT", "PATCH"} or answer.status == 413
            assert not over or not reads or answer.status == 413, (sent.path, answer)
            check(crowd, arm, sent, answer)


@pytest.mark.parametrize("query", [{}, *({name: "x"} for name in ODD)], ids=str)
def test_listings_in_pages(
    crowd: Crowd, monkeypatch: pytest.MonkeyPatch, query: dict[str, str]
) -> None:
    """Whatever else stands in a query, each page leads to the next, and all are listed once."""
    everywhere = [route for route in ROUTES if not route.public and not route.writes]
    with crowd.lent() as arm:
        whole = {route.path: arm.call(arm.request_for(route)).body for route in everywhere}
        for module in (context, subscriptions, instances):
            monkeypatch.setattr(module, "PAGE", 1)
        for route in everywhere:
            if b'"value":[' in whole[route.path]:
                expected = json.loads(whole[route.path])["value"]
                first = arm.request("GET", f"/{arm.request_for(route).path}?{urlencode(query)}")
                assert list(pages(arm, first)) == expected, route


def pages(arm: Everything, answer: Response) -> Iterator[object]:
    """What stands on a page and on all that follow."""
    for _ in range(PAGES):
        assert answer.status == 200, answer
        yield from answer.json["value"]
        if "nextLink" not in answer.json:
            return
        answer = arm.follow(answer.json["nextLink"])
    raise AssertionError("the pages do not end")


# --- Logging in -----------------------------------------------------------------------------------

_FORM = {
    "grant_type": ("client_credentials", "password", "", "\0", "x" * 9_000),
    "client_id": ("operator", "nobody", "", "é", "x" * 9_000),
    "client_secret": ("{secret}", "{access}", "x", "", "a.b.c", "é", "\0", "x" * 9_000),
    "scope": ("x",),
    "resource": ("x", ""),
    "client_assertion": ("x",),
    "": ("", "x"),
}
_FIELDS = st.sampled_from([(name, value) for name, values in _FORM.items() for value in values])
_BODIES = st.sampled_from(
    (
        b"", b"&", b"=", b"%", b"%ff", b"\xff", b"a" * FORM_BYTES, b"a" * (FORM_BYTES + 1),
        b"a=b&" * 40, b"a=1&a=2", b"{}", b"client_id=%00&client_secret=%00", b";" * 100,
        LIMIT[1],
    )
)  # fmt: skip
_TYPES = st.sampled_from((FORM, FORM, FORM, f"{FORM}; charset=utf-16", "application/json", "", "é"))
_BASIC = st.sampled_from(("", "", "Basic", "Basic !", "Basic eA==", "Basic eDp5", "Bearer x", "é"))
_TENANTS = st.sampled_from(("adfs", "common", "nowhere", "..", "%", "x" * 5_000))


@dataclass(frozen=True)
class Login:
    """A form, or something else, with headers."""

    fields: list[tuple[str, str]]
    raw: bytes | None = None  # instead of the fields
    kind: str = FORM
    basic: str = ""
    tenant: str = "adfs"


_GOOD = Login([(name, values[0]) for name, values in list(_FORM.items())[:3]])
_LOGINS = st.builds(
    Login,
    fields=st.lists(_FIELDS, max_size=5),
    raw=st.none() | st.none() | _BODIES,
    kind=_TYPES,
    basic=_BASIC,
    tenant=_TENANTS,
)


@settings(max_examples=EXAMPLES * 8, suppress_health_check=list(HealthCheck))
@given(login=_LOGINS)
@example(login=_GOOD)
def test_no_login_does_harm(crowd: Crowd, login: Login) -> None:
    """Who has a secret gets a token, everybody else one of two refusals; nothing has changed."""
    arm = crowd.arm()
    tokens = {"{secret}": arm.tokens.secret(OPERATOR), "{access}": arm.tokens.access(OPERATOR)}
    form = urlencode([(name, tokens.get(value, value)) for name, value in login.fields])
    body = form.encode() if login.raw is None else login.raw
    headers = {"content-type": login.kind}
    if login.basic:
        headers["authorization"] = login.basic
    answer = arm.send("POST", f"/{login.tenant}/oauth2/token", "", body, headers)
    assert answer.status in {200, 400, 401}, answer
    if answer.status == 200:
        assert ("client_secret", "{secret}") in login.fields
        assert arm.tokens.read(answer.json["access_token"]) == OPERATOR
    else:
        assert set(answer.json) == {"error", "error_description"}
        assert 0 < len(answer.json["error_description"]) <= MESSAGE_CHARACTERS
        assert not any(token in answer.body.decode() for token in tokens.values())
    assert crowd.unchanged()


# --- Templates ------------------------------------------------------------------------------------

_DEPLOYMENT = f"/resourceGroups/{OURS}/providers/Microsoft.Resources/deployments/new"


def deploy(crowd: Crowd, body: object) -> tuple[Response, Response]:
    """What validating it says, and deploying it; either does no harm."""
    with crowd.lent() as arm:
        return _deployed(crowd, arm, body)


def _deployed(crowd: Crowd, arm: Everything, body: object) -> tuple[Response, Response]:
    valid = arm.post(f"{_DEPLOYMENT}/validate", body)
    assert valid.status in {200, 400, 404, 413}, (body, valid)
    assert crowd.unchanged()
    done = arm.put(_DEPLOYMENT, body)
    sent = Sent("PUT", _DEPLOYMENT, "", repr(body).encode(), {})
    assert done.status in {201, 400, 413}, (body, done)
    if valid.status >= 400:
        assert_told(sent, valid)
    if done.status == 201:
        assert_ended(arm, done)
    check(crowd, arm, sent, done)
    return valid, done


def assert_ended(arm: Everything, done: Response) -> None:
    """The deployment tells how it went."""
    status = arm.follow(done.headers["azure-asyncoperation"]).json
    assert status["status"] in {"Succeeded", "Failed"}
    assert ("error" in status) is (status["status"] == "Failed")
    if "error" in status:
        assert status["error"]["code"].isalpha()
        assert 0 < len(status["error"]["message"]) <= 2 * MESSAGE_CHARACTERS


@settings(max_examples=EXAMPLES * 5, suppress_health_check=list(HealthCheck))
@given(template=TEMPLATES)
def test_no_template_does_harm(crowd: Crowd, template: object) -> None:
    """It is deployed, or the deployment says what is wrong; either way it can be read."""
    deploy(crowd, {"properties": {"mode": "Incremental", "template": template}})


@settings(max_examples=EXAMPLES * 5, suppress_health_check=list(HealthCheck))
@given(text=EXPRESSIONS)
def test_no_expression_does_harm(crowd: Crowd, text: str) -> None:
    """It has a value, or the deployment says what is wrong with it."""
    template = {
        "contentVersion": "1.0.0.0",
        "parameters": {"p": {"type": "string", "defaultValue": "v"}},
        "variables": {"v": {"a": [1, "b", None]}},
        "resources": [],
        "outputs": {"o": {"type": "string", "value": f"[string({text})]"}},
    }
    deploy(crowd, {"properties": {"mode": "Incremental", "template": template}})


def test_a_deployment_that_cannot_be_kept(crowd: Crowd) -> None:
    """What it comes to is too long to be written down: it fails and says so, or was never begun."""
    disk = {
        "type": "Microsoft.Compute/disks",
        "name": "made",
        "apiVersion": "2024-03-02",
        "location": "local",
    }
    template = {
        "contentVersion": "1.0.0.0",
        "resources": [disk],
        "outputs": {"o": {"type": "string", "value": "x" * RESOURCE_CHARACTERS}},
    }
    deploy(crowd, {"properties": {"mode": "Incremental", "template": template}})
