import base64
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest

from fairwarning.service.config.settings import TENANT
from fairwarning.service.tokens import Principal, Role
from tests.fixtures.arm import OPERATOR, ArmHarness
from tests.fixtures.http import Response

BASE = "https://127.0.0.1:8171"
TOKEN = "/adfs/oauth2/token"
FORM = "application/x-www-form-urlencoded"


def public(
    arm: ArmHarness, path: str, query: str = "", headers: Mapping[str, str] | None = None
) -> Response:
    """What somebody without a token gets."""
    return arm.send("GET", path, query, b"", headers or {})


def log_in(
    arm: ArmHarness, form: Mapping[str, str] | str, path: str = TOKEN, **headers: str
) -> Response:
    """What the token endpoint answers."""
    body = form if isinstance(form, str) else urlencode(form)
    return arm.send("POST", path, "", body.encode(), {"content-type": FORM, **headers})


def good(arm: ArmHarness, who: Principal = OPERATOR, **more: str) -> dict[str, str]:
    """A form that gets a token."""
    return {
        "grant_type": "client_credentials",
        "client_id": who.name,
        "client_secret": arm.tokens.secret(who),
        "scope": f"{BASE}/.default",
        **more,
    }


def urls(value: Any) -> list[str]:  # noqa: ANN401  (any JSON)
    """All URLs in a document."""
    if isinstance(value, dict):
        return [url for part in value.values() for url in urls(part)]
    if isinstance(value, list):
        return [url for part in value for url in urls(part)]
    return [value] if isinstance(value, str) and "://" in value else []


# --- The cloud ------------------------------------------------------------------------------------


def test_a_cloud_describes_itself_in_one_object() -> None:
    """What `az cloud register` reads: everything is here, under the name that was called."""
    with ArmHarness() as arm:
        found = public(arm, "/metadata/endpoints", "api-version=2022-09-01").json
    assert found["resourceManager"] == f"{BASE}/"
    assert found["vmImageAliasDoc"] == f"{BASE}/aliases.json"
    assert found["authentication"] == {
        "loginEndpoint": f"{BASE}/adfs",
        "audiences": [BASE, "https://management.azure.com/"],
        "tenant": "common",
        "identityProvider": "AAD",
    }
    needed = {
        "name", "portal", "media", "graph", "graphAudience", "batch", "sqlManagement", "gallery",
        "microsoftGraphResourceId",
    }  # fmt: skip
    assert needed <= set(found)
    assert {"storage", "keyVaultDns"} <= set(found["suffixes"])


def test_nothing_in_it_leads_elsewhere() -> None:
    """No URL is another's, but the audience, which is a name; no suffix is one of Azure's."""
    with ArmHarness() as arm:
        found = public(arm, "/metadata/endpoints").json
    others = [url for url in urls(found) if not url.startswith(BASE)]
    assert others == ["https://management.azure.com/"]
    assert all(one.endswith(".invalid") for one in found["suffixes"].values())


@pytest.mark.parametrize("version", ["2024-01-01", "2022-09-01"])
def test_later_versions_are_as_the_newest(version: str) -> None:
    """Versions are compared as dates."""
    with ArmHarness() as arm:
        found = public(arm, "/metadata/endpoints", f"api-version={version}").json
        assert found == public(arm, "/metadata/endpoints").json


def test_older_versions_have_their_own_shapes() -> None:
    """A list in 2019; flat in 2015, with the three endpoints that an old client looks for."""
    with ArmHarness() as arm:
        listed = public(arm, "/metadata/endpoints", "api-version=2019-05-01").json
        assert listed == [public(arm, "/metadata/endpoints").json]
        flat = public(arm, "/metadata/endpoints", "API-Version=2015-01-01").json
    assert set(flat) == {"galleryEndpoint", "graphEndpoint", "portalEndpoint", "authentication"}
    assert flat["authentication"] == listed[0]["authentication"]


def test_a_version_that_is_none() -> None:
    """It is refused as everywhere."""
    with ArmHarness() as arm:
        refused = public(arm, "/metadata/endpoints", "api-version=soon")
    assert (refused.status, refused.error_code) == (400, "InvalidApiVersionParameter")


def test_whoever_calls_by_another_name_is_told_that_name() -> None:
    """URLs are those that the caller can reach; a name that cannot be one is refused."""
    with ArmHarness() as arm:
        found = public(arm, "/metadata/endpoints", headers={"host": "cloud.test:8171"}).json
        assert found["resourceManager"] == "https://cloud.test:8171/"
        refused = public(arm, "/metadata/endpoints", headers={"host": "a b"})
    assert (refused.status, refused.error_code) == (400, "InvalidHost")


def test_short_names_of_images() -> None:
    """`--image UbuntuLTS` works, which current clients do not know by themselves any more."""
    with ArmHarness() as arm:
        found = public(arm, "/aliases.json").json["outputs"]["aliases"]["value"]
    assert {"UbuntuLTS", "Ubuntu2204", "Ubuntu2404", "Debian11", "Debian12"} <= set(found["Linux"])
    assert {"Win2019Datacenter", "Win2022Datacenter"} <= set(found["Windows"])
    for one in [*found["Linux"].values(), *found["Windows"].values()]:
        assert set(one) == {"publisher", "offer", "sku", "version", "architecture"}
        assert (one["version"], one["architecture"]) == ("latest", "x64")


# --- Finding the login ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "token"),
    [
        ("/adfs", f"{BASE}/adfs/oauth2/token"),
        (f"/{TENANT}/v2.0", f"{BASE}/{TENANT}/oauth2/v2.0/token"),
        (f"/{TENANT}", f"{BASE}/{TENANT}/oauth2/token"),
        ("/organizations/v2.0", f"{BASE}/{TENANT}/oauth2/v2.0/token"),
    ],
)
def test_where_to_log_in(path: str, token: str) -> None:
    """Clients find the token endpoint in the OpenID document, and it is there."""
    with ArmHarness() as arm:
        found = public(arm, f"{path}/.well-known/openid-configuration").json
        assert found["token_endpoint"] == token
        assert {"authorization_endpoint", "device_authorization_endpoint"} <= set(found)
        assert public(arm, urlsplit(found["jwks_uri"]).path).json == {"keys": []}
        assert log_in(arm, good(arm), urlsplit(token).path).status == 200


def test_the_issuer_is_the_one_that_tokens_name() -> None:
    """A client that compares them finds them equal."""
    with ArmHarness() as arm:
        found = public(arm, "/adfs/.well-known/openid-configuration").json
        payload = arm.tokens.access(OPERATOR).split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    assert found["issuer"] == claims["iss"]


def test_there_is_one_tenant() -> None:
    """Another is refused, and the one there is named."""
    other = "/11111111-1111-1111-1111-111111111111"
    with ArmHarness() as arm:
        document = public(arm, f"{other}/v2.0/.well-known/openid-configuration")
        token = log_in(arm, good(arm), f"{other}/oauth2/v2.0/token")
    for refused in (document, token):
        assert refused.status == 400
        assert refused.json["error"] == "invalid_request"
        assert TENANT in refused.json["error_description"]


def test_an_authority_of_another_tenant() -> None:
    """It is refused, as its OpenID document would be."""
    with ArmHarness() as arm:
        asked = urlencode({"authorization_endpoint": f"{BASE}/other/oauth2/v2.0/authorize"})
        refused = public(arm, "/common/discovery/instance", asked)
    assert (refused.status, refused.json["error"]) == (400, "invalid_request")


def test_an_authority_that_is_ours() -> None:
    """Instance discovery leads to the OpenID document, also when the port was left out."""
    with ArmHarness() as arm:
        for host in ("127.0.0.1", "127.0.0.1:8171"):
            asked = f"https://{host}/{TENANT}/oauth2/v2.0/authorize"
            query = urlencode({"authorization_endpoint": asked, "api-version": "1.0"})
            found = public(arm, "/common/discovery/instance", query).json
            leads = urlsplit(found["tenant_discovery_endpoint"])
            assert public(arm, leads.path).json["issuer"]


@pytest.mark.parametrize(
    "asked", ["", "https://login.test/common/oauth2/authorize", "https://[", "common"]
)
def test_an_authority_that_is_not_ours(asked: str) -> None:
    """Clients are told, in the word that they compare."""
    with ArmHarness() as arm:
        query = urlencode({"authorization_endpoint": asked})
        refused = public(arm, "/common/discovery/instance", query)
    assert (refused.status, refused.json["error"]) == (400, "invalid_instance")


# --- Logging in -----------------------------------------------------------------------------------


def test_a_secret_gets_a_token_that_opens_doors() -> None:
    """From a client secret to the list of subscriptions, as every client does it."""
    with ArmHarness() as arm:
        answer = log_in(arm, good(arm))
        assert answer.status == 200
        assert answer.headers["cache-control"] == "no-store"
        token = answer.json.pop("access_token")
        opened = arm.send(
            "GET",
            "/subscriptions",
            "api-version=2022-12-01",
            b"",
            {"authorization": f"Bearer {token}"},
        )
    rest = {key: value for key, value in answer.json.items() if key != "access_token"}
    assert rest == {"token_type": "Bearer", "expires_in": 3600, "ext_expires_in": 3600}
    assert opened.status == 200


def test_the_token_is_for_whom_the_secret_was() -> None:
    """Nobody gets more than was given to him."""
    ann = Principal(name="ann", role=Role.TENANT, group="hers")
    with ArmHarness() as arm:
        token = log_in(arm, good(arm, ann)).json["access_token"]
        assert arm.tokens.read(token) == ann


@pytest.mark.parametrize(
    "path",
    [
        "/adfs/oauth2/token",
        "/adfs/oauth2/v2.0/token",
        f"/{TENANT}/oauth2/token",
        f"/{TENANT}/oauth2/v2.0/token",
        f"/adfs/{TENANT}/oauth2/v2.0/token",
        f"/{TENANT.upper()}/OAuth2/Token",
    ],
)
def test_every_way_in(path: str) -> None:
    """Wherever a client thinks that tokens are given, they are."""
    with ArmHarness() as arm:
        assert log_in(arm, good(arm), path).status == 200


def test_the_first_version_spells_numbers_as_strings() -> None:
    """Who names a resource and no scope is an old client."""
    with ArmHarness() as arm:
        found = log_in(arm, good(arm, resource="https://management.azure.com/")).json
    assert found["resource"] == "https://management.azure.com/"
    assert found["expires_in"] == "3600"
    assert int(found["expires_on"]) - int(found["not_before"]) == 3600


def test_credentials_in_the_header() -> None:
    """RFC 6749's own way works as well; both at once do not."""
    with ArmHarness() as arm:
        form = good(arm)
        secret = form.pop("client_secret")
        basic = base64.b64encode(f"operator:{secret}".encode()).decode()
        header = {"authorization": f"Basic {basic}"}
        assert log_in(arm, form, **header).status == 200
        assert log_in(arm, {"grant_type": "client_credentials"}, **header).status == 200
        twice = log_in(arm, good(arm), **header)
        another = log_in(arm, {**form, "client_id": "ann"}, **header)
    for refused in (twice, another):
        assert (refused.status, refused.json["error"]) == (400, "invalid_request")


@pytest.mark.parametrize("basic", ["", "x", "b3BlcmF0b3I=", "//79", "ä"])
def test_a_header_that_cannot_be_read(basic: str) -> None:
    """401, whatever it is."""
    with ArmHarness() as arm:
        form = {"grant_type": "client_credentials"}
        refused = log_in(arm, form, authorization=f"Basic {basic}")
    assert (refused.status, refused.json["error"]) == (401, "invalid_client")


@pytest.mark.parametrize(
    ("change", "status", "error"),
    [
        ({"grant_type": ""}, 400, "invalid_request"),
        ({"grant_type": "password"}, 400, "unsupported_grant_type"),
        ({"grant_type": "refresh_token"}, 400, "unsupported_grant_type"),
        ({"client_id": ""}, 400, "invalid_request"),
        ({"client_secret": ""}, 401, "invalid_client"),
        ({"client_secret": "guessed"}, 401, "invalid_client"),
        ({"client_id": "somebody else"}, 401, "invalid_client"),
    ],
)
def test_a_login_that_fails(change: dict[str, str], status: int, error: str) -> None:
    """OAuth's own words, with a sentence that says what to do."""
    with ArmHarness() as arm:
        refused = log_in(arm, {**good(arm), **change})
    assert (refused.status, refused.json["error"]) == (status, error)
    assert set(refused.json) == {"error", "error_description"}
    assert refused.json["error_description"]
    assert ("www-authenticate" in refused.headers) == (status == 401)


def test_an_access_token_is_no_secret() -> None:
    """Nobody makes his token last for ever by logging in with it."""
    with ArmHarness() as arm:
        refused = log_in(arm, good(arm, client_secret=arm.tokens.access(OPERATOR)))
    assert (refused.status, refused.json["error"]) == (401, "invalid_client")


def test_a_secret_that_has_ended() -> None:
    """It gets no token any more."""
    with ArmHarness() as arm:
        ended = arm.tokens.secret(OPERATOR, seconds=-1)
        refused = log_in(arm, good(arm, client_secret=ended))
    assert (refused.status, refused.json["error"]) == (401, "invalid_client")


@pytest.mark.parametrize(
    "body",
    [
        "grant_type=client_credentials&client_id=a&client_id=a&client_secret=b",
        "&".join(f"p{n}=1" for n in range(100)),
        "client_secret=" + "x" * 70_000,
        "client_id=%FF",
    ],
)
def test_a_form_that_is_none(body: str) -> None:
    """Twice the same, too much, or no text: refused as a whole."""
    with ArmHarness() as arm:
        refused = log_in(arm, body)
    assert (refused.status, refused.json["error"]) == (400, "invalid_request")


def test_more_than_any_form() -> None:
    """It is not even read to its end."""
    with ArmHarness() as arm:
        refused = log_in(arm, "x" * (5 * 1024 * 1024))
    assert (refused.status, refused.json["error"]) == (400, "invalid_request")


def test_another_kind_of_content() -> None:
    """JSON is not OAuth's."""
    with ArmHarness() as arm:
        body = json.dumps(good(arm)).encode()
        refused = arm.send("POST", TOKEN, "", body, {"content-type": "application/json"})
    assert (refused.status, refused.json["error"]) == (400, "invalid_request")


def test_no_secret_is_told_again(caplog: pytest.LogCaptureFixture) -> None:
    """Neither in an answer nor in a log."""
    with ArmHarness() as arm:
        form = good(arm)
        wrong = ({"client_id": "ann"}, {"grant_type": "password"}, {"client_secret": "hunter2"})
        for change in wrong:
            refused = log_in(arm, {**form, **change})
            for secret in (form["client_secret"], "hunter2"):
                assert secret not in refused.body.decode()
                assert secret not in caplog.text
