import base64
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest

from fairwarning.service.config.settings import TENANT, ArmSettings
from fairwarning.service.tokens import Principal, Role, TokenUse
from tests.fixtures.arm import OPERATOR, ArmHarness
from tests.fixtures.http import Response
from tests.fixtures.tokens import sign_token

BASE = "https://127.0.0.1:8171"
TOKEN = "/adfs/oauth2/token"
FORM = "application/x-www-form-urlencoded"


def public(
    arm: ArmHarness, path: str, query: str = "", headers: Mapping[str, str] | None = None
) -> Response:
    """Send a GET request without a token."""
    return arm.send("GET", path, query, b"", headers or {})


def log_in(
    arm: ArmHarness, form: Mapping[str, str] | str, path: str = TOKEN, **headers: str
) -> Response:
    """Send a form to the token endpoint."""
    body = form if isinstance(form, str) else urlencode(form)
    return arm.send("POST", path, "", body.encode(), {"content-type": FORM, **headers})


def good(arm: ArmHarness, principal: Principal = OPERATOR, **more: str) -> dict[str, str]:
    """Return a valid form."""
    return {
        "grant_type": "client_credentials",
        "client_id": principal.name,
        "client_secret": sign_token(arm.tokens, principal, TokenUse.LOGIN),
        "scope": f"{BASE}/.default",
        **more,
    }


def urls(value: Any) -> list[str]:  # noqa: ANN401  (any JSON)
    """Return all URLs of a document."""
    if isinstance(value, dict):
        return [url for part in value.values() for url in urls(part)]
    if isinstance(value, list):
        return [url for part in value for url in urls(part)]
    return [value] if isinstance(value, str) and "://" in value else []


def test_cloud_metadata(arm: ArmHarness) -> None:
    """`az cloud register` reads all endpoints, under the host of the request."""
    document = public(arm, "/metadata/endpoints", "api-version=2022-09-01").json
    assert document["resourceManager"] == f"{BASE}/"
    assert document["vmImageAliasDoc"] == f"{BASE}/aliases.json"
    assert document["authentication"] == {
        "loginEndpoint": f"{BASE}/adfs",
        "audiences": [BASE, "https://management.azure.com/"],
        "tenant": "common",
        "identityProvider": "AAD",
    }
    required = {
        "name", "portal", "media", "graph", "graphAudience", "batch", "sqlManagement", "gallery",
        "microsoftGraphResourceId",
    }  # fmt: skip
    assert required <= set(document)
    assert {"storage", "keyVaultDns"} <= set(document["suffixes"])
    others = [url for url in urls(document) if not url.startswith(BASE)]
    assert others == ["https://management.azure.com/"]  # the name of an audience
    assert all(item.endswith(".invalid") for item in document["suffixes"].values())


def test_other_versions_of_cloud_metadata(arm: ArmHarness) -> None:
    """The document is a list in 2019, and flat with three endpoints in 2015."""
    newest = public(arm, "/metadata/endpoints").json
    assert public(arm, "/metadata/endpoints", "api-version=2024-01-01").json == newest
    listed = public(arm, "/metadata/endpoints", "api-version=2019-05-01").json
    assert listed == [newest]
    flat = public(arm, "/metadata/endpoints", "API-Version=2015-01-01").json
    assert flat == public(arm, "/metadata/endpoints", "api-version=1.0").json  # Azure Stack's
    assert set(flat) == {"galleryEndpoint", "graphEndpoint", "portalEndpoint", "authentication"}
    assert flat["authentication"] == listed[0]["authentication"]


def test_an_invalid_version_of_cloud_metadata(arm: ArmHarness) -> None:
    """An invalid api-version is refused as on all other routes."""
    response = public(arm, "/metadata/endpoints", "api-version=soon")
    assert (response.status, response.error_code) == (400, "InvalidApiVersionParameter")


def test_urls_have_the_host_of_the_request() -> None:
    """URLs use the Host header if it names this service; an invalid one is refused."""
    with ArmHarness(ArmSettings(hosts=("cloud.test",))) as arm:
        document = public(arm, "/metadata/endpoints", headers={"host": "cloud.test:8171"}).json
        assert document["resourceManager"] == "https://cloud.test:8171/"
        response = public(arm, "/metadata/endpoints", headers={"host": "a b"})
    assert (response.status, response.error_code) == (400, "InvalidHost")


def test_image_aliases(arm: ArmHarness) -> None:
    """`--image UbuntuLTS` works, although current clients no longer know this alias."""
    document = public(arm, "/aliases.json").json["outputs"]["aliases"]["value"]
    assert {"UbuntuLTS", "Ubuntu2204", "Ubuntu2404", "Debian11", "Debian12"} <= set(
        document["Linux"]
    )
    assert {"Win2019Datacenter", "Win2022Datacenter"} <= set(document["Windows"])
    for item in [*document["Linux"].values(), *document["Windows"].values()]:
        assert set(item) == {"publisher", "offer", "sku", "version", "architecture"}
        assert (item["version"], item["architecture"]) == ("latest", "x64")


@pytest.mark.parametrize(
    ("path", "token"),
    [
        ("/adfs", f"{BASE}/adfs/oauth2/token"),
        (f"/{TENANT}/v2.0", f"{BASE}/{TENANT}/oauth2/v2.0/token"),
        (f"/{TENANT}", f"{BASE}/{TENANT}/oauth2/token"),
        ("/organizations/v2.0", f"{BASE}/{TENANT}/oauth2/v2.0/token"),
    ],
)
def test_openid_configuration(arm: ArmHarness, path: str, token: str) -> None:
    """The OpenID document names a token endpoint that works."""
    document = public(arm, f"{path}/.well-known/openid-configuration").json
    assert document["token_endpoint"] == token
    assert {"authorization_endpoint", "device_authorization_endpoint"} <= set(document)
    assert public(arm, urlsplit(document["jwks_uri"]).path).json == {"keys": []}
    assert log_in(arm, good(arm), urlsplit(token).path).status == 200


def test_the_issuer_of_tokens(arm: ArmHarness) -> None:
    """The issuer of the OpenID document is the issuer of the tokens."""
    document = public(arm, "/adfs/.well-known/openid-configuration").json
    payload = sign_token(arm.tokens, OPERATOR).split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    assert document["issuer"] == claims["iss"]


def test_there_is_one_tenant(arm: ArmHarness) -> None:
    """Another tenant is refused, and the error names the valid one."""
    other = "/11111111-1111-1111-1111-111111111111"
    document = public(arm, f"{other}/v2.0/.well-known/openid-configuration")
    token = log_in(arm, good(arm), f"{other}/oauth2/v2.0/token")
    authority = urlencode({"authorization_endpoint": f"{BASE}{other}/oauth2/v2.0/authorize"})
    discovery = public(arm, "/common/discovery/instance", authority)
    for response in (document, token, discovery):
        assert response.status == 400
        assert response.json["error"] == "invalid_request"
        assert TENANT in response.json["error_description"]


def test_instance_discovery(arm: ArmHarness) -> None:
    """Instance discovery names the OpenID document, even without the port."""
    for host in ("127.0.0.1", "127.0.0.1:8171"):
        authority = f"https://{host}/{TENANT}/oauth2/v2.0/authorize"
        query = urlencode({"authorization_endpoint": authority, "api-version": "1.0"})
        document = public(arm, "/common/discovery/instance", query).json
        url = urlsplit(document["tenant_discovery_endpoint"])
        assert public(arm, url.path).json["issuer"]


@pytest.mark.parametrize(
    "authority", ["", "https://login.test/common/oauth2/authorize", "https://[", "common"]
)
def test_instance_discovery_of_another_host(arm: ArmHarness, authority: str) -> None:
    """Another authority is refused with the code that clients compare."""
    query = urlencode({"authorization_endpoint": authority})
    response = public(arm, "/common/discovery/instance", query)
    assert (response.status, response.json["error"]) == (400, "invalid_instance")


def test_the_token_has_the_principal_of_the_secret(arm: ArmHarness) -> None:
    """The token has the name, role and group of the secret."""
    ann = Principal(name="ann", role=Role.TENANT, group="hers")
    response = log_in(arm, good(arm, ann))
    assert (response.status, response.headers["cache-control"]) == (200, "no-store")
    document = response.json
    assert arm.tokens.read(document.pop("access_token"), TokenUse.ARM).principal == ann
    assert document == {"token_type": "Bearer", "expires_in": 3600, "ext_expires_in": 3600}


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
def test_token_endpoints(arm: ArmHarness, path: str) -> None:
    """The token endpoint works under all paths that clients use."""
    assert log_in(arm, good(arm), path).status == 200


def test_v1_token_responses(arm: ArmHarness) -> None:
    """A client that names a resource and no scope gets numbers as strings."""
    document = log_in(arm, good(arm, resource="https://management.azure.com/")).json
    assert document["resource"] == "https://management.azure.com/"
    assert document["expires_in"] == "3600"
    assert int(document["expires_on"]) - int(document["not_before"]) == 3600


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
        ({"client_secret": "{access token}"}, 401, "invalid_client"),
        ({"client_secret": "{expired}"}, 401, "invalid_client"),
    ],
)
def test_a_login_that_fails(
    arm: ArmHarness, change: dict[str, str], status: int, error: str
) -> None:
    """The error has OAuth's code and a description."""
    secrets = {
        "{access token}": sign_token(arm.tokens, OPERATOR),
        "{expired}": sign_token(arm.tokens, OPERATOR, TokenUse.LOGIN, -1),
    }
    changed = {name: secrets.get(value, value) for name, value in change.items()}
    response = log_in(arm, {**good(arm), **changed})
    assert (response.status, response.json["error"]) == (status, error)
    assert set(response.json) == {"error", "error_description"}
    assert response.json["error_description"]
    assert ("www-authenticate" in response.headers) == (status == 401)


@pytest.mark.parametrize(
    "body",
    [
        "grant_type=client_credentials&client_id=a&client_id=a&client_secret=b",
        "&".join(f"p{n}=1" for n in range(100)),
        "client_secret=" + "x" * 70_000,
        "x" * (5 * 1024 * 1024),
        "client_id=%FF",
    ],
)
def test_invalid_forms(arm: ArmHarness, body: str) -> None:
    """A form with duplicates, too many or too long fields, or invalid UTF-8 is refused."""
    response = log_in(arm, body)
    assert (response.status, response.json["error"]) == (400, "invalid_request")


def test_another_content_type(arm: ArmHarness) -> None:
    """The token endpoint does not accept JSON."""
    body = json.dumps(good(arm)).encode()
    response = arm.send("POST", TOKEN, "", body, {"content-type": "application/json"})
    assert (response.status, response.json["error"]) == (400, "invalid_request")


def test_secrets_are_not_repeated(arm: ArmHarness, caplog: pytest.LogCaptureFixture) -> None:
    """Neither a response nor the log contains a secret."""
    form = good(arm)
    invalid = ({"client_id": "ann"}, {"grant_type": "password"}, {"client_secret": "hunter2"})
    for change in invalid:
        response = log_in(arm, {**form, **change})
        for secret in (form["client_secret"], "hunter2"):
            assert secret not in response.body.decode()
            assert secret not in caplog.text
