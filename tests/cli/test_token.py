"""Tokens of the real program: each is revoked by itself and has one use (C7)."""

import json
import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from fairwarning.console.access import COOKIE
from fairwarning.core.times import parse_date
from fairwarning.server.start_token import START_TOKEN_SECONDS
from tests.cli.test_workers import workers
from tests.fixtures.credentials import (
    api_status,
    arm_status,
    by_cookie,
    create,
    is_logged_in,
    log_in,
    log_out,
    open_session,
)
from tests.fixtures.postgres.database import database_or_skip
from tests.fixtures.service import ServiceProcess
from tests.fixtures.waiting import LIMIT_SECONDS, on_this_machine, wait_until

pytestmark = [pytest.mark.spec("C7"), pytest.mark.up("--memory")]


def start_token(service: ServiceProcess) -> str:
    """The token that commands on this host use now."""
    token: str = json.loads((service.data / "up.json").read_text())["token"]
    return token


def revoke(service: ServiceProcess, *ids: str) -> None:
    """Revoke tokens with the command."""
    done = service.run("token", "revoke", *ids)
    assert done.returncode == 0, done.stderr


def test_a_token_is_worth_nothing_for_another_use(service: ServiceProcess) -> None:
    """A cookie is no bearer token, an ARM token no token of the console, and so on."""
    api = create(service)["text"]
    secret = create(service, use="login")["text"]
    cookie = open_session(service)
    arm = log_in(service, "ann", secret).json["access_token"]
    accepted = {
        name: (
            api_status(service, text) == 200,
            is_logged_in(service, text),
            arm_status(service, text) == 200,
            log_in(service, "ann", text).status == 200,
        )
        for name, text in {"api": api, "page": cookie, "arm": arm, "login": secret}.items()
    }
    assert accepted == {
        "api": (True, False, True, False),
        "page": (False, True, False, False),
        "arm": (False, False, True, False),
        "login": (False, False, False, True),
    }


def test_a_session_cannot_create_tokens(service: ServiceProcess) -> None:
    """Otherwise a stolen cookie would outlive the session as a bearer token."""
    body = json.dumps({"name": "thief", "role": "operator"})
    response = by_cookie(service, open_session(service), "/api/tokens", "POST", body)
    assert (response.status, response.error_code) == (403, "Forbidden")
    assert "fairwarning token" in response.error_message


def test_tokens_are_revoked_one_by_one(tmp_path: Path) -> None:
    """Of every use, at once and after kill -9, with the logins of a secret; others stay valid."""
    with ServiceProcess(tmp_path / "data") as service:
        tokens = [create(service) for _ in range(2)]
        words = ("token", "create", "ann", "--role", "tenant", "--login")
        secrets = [service.json(*words) for _ in range(2)]
        assert secrets[0]["authority"] == service.ready["arm"]
        logins = [log_in(service, "ann", s["secret"]).json["access_token"] for s in secrets]
        cookies = [open_session(service) for _ in range(2)]

        def answers(service: ServiceProcess) -> list[list[int]]:
            return [
                [api_status(service, token["text"]) for token in tokens],
                [arm_status(service, token["text"]) for token in tokens],
                [log_in(service, "ann", secret["secret"]).status for secret in secrets],
                [arm_status(service, login) for login in logins],
                [by_cookie(service, cookie, "/api/clock").status for cookie in cookies],
            ]

        assert answers(service) == [[200, 200]] * 5
        for _ in range(2):  # a repeat changes nothing
            revoke(service, tokens[0]["id"], secrets[0]["id"])
            log_out(service, cookies[0])
        assert answers(service) == [[401, 200]] * 5
        refused = service.api("GET", "/api/clock", token=tokens[0]["text"])
        assert "it was revoked; get a new one" in refused.error_message
        assert log_in(service, "ann", secrets[0]["secret"]).json["error"] == "invalid_client"
    with ServiceProcess(tmp_path / "data") as service:
        assert answers(service) == [[401, 200]] * 5
        listed = {t["id"]: bool(t["revoked_at"]) for t in service.json("token", "list")}
        assert [listed[token["id"]] for token in tokens] == [True, False]


def test_a_session_ends_with_the_token_that_opened_it(service: ServiceProcess) -> None:
    """When that is revoked, and no later than it expires."""
    token = create(service, seconds=600)
    cookie = open_session(service, token["text"])
    (session,) = [t for t in service.json("token", "list") if t["parent"] == token["id"]]
    (parent,) = [t for t in service.json("token", "list") if t["id"] == token["id"]]
    assert session["use"] == "page"
    assert session["expires_at"] == parent["expires_at"]
    assert is_logged_in(service, cookie)
    revoke(service, token["id"])
    assert not is_logged_in(service, cookie)


def test_the_list(service: ServiceProcess) -> None:
    """Every token is there with its use and holder, without its text."""
    reader = create(service, "ci", role="reader")
    secret = create(service, "ann", role="tenant", group="rg", use="login")
    arm = log_in(service, "ann", secret["text"]).json["access_token"]
    cookie = open_session(service)
    revoke(service, reader["id"])
    tokens = service.json("token", "list")
    shown = [(t["use"], t["name"], t["role"], t["group"], bool(t["revoked_at"])) for t in tokens]
    assert sorted(shown) == [
        ("api", "ci", "reader", "", True),
        ("api", "operator", "operator", "", False),  # the start token
        ("arm", "ann", "tenant", "rg", False),
        ("login", "ann", "tenant", "rg", False),
        ("page", "operator", "operator", "", False),
    ]
    table = service.run("token", "list").stdout
    for text in (reader["text"], secret["text"], arm, cookie):
        assert text not in json.dumps(tokens) + table
    headings = ("token", "use", "holder", "created", "expires", "revoked")
    assert all(word in table for word in (*headings, reader["id"], secret["id"]))


def test_an_unknown_id(service: ServiceProcess) -> None:
    """The error says how to list the ids, and no other token is revoked."""
    token = create(service)
    for unknown in ("0" * 16, "nonsense", "../x"):
        service.assert_refused(
            ("token", "revoke", token["id"], unknown), 3, "run `fairwarning token list"
        )
    assert api_status(service, token["text"]) == 200
    assert service.api("GET", f"/api/tokens/{token['id']}").json["revoked_at"] is None
    assert service.api("GET", "/api/tokens/x").status == 404


STUB = """#!/bin/sh
case "$1" in
  version) echo '{"azure-cli": "2.0"}' ;;
  login)
    cat >> "$LOG"; echo >> "$LOG"
    echo '"Fairwarning"' > "$AZURE_CONFIG_DIR/azureProfile.json" ;;
esac
"""


def test_the_secret_of_fairwarning_az_is_revoked_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Azure CLI is logged out, and the next `fairwarning az` logs it in with a new secret."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "az"
    program.write_text(STUB)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    monkeypatch.setenv("LOG", str(tmp_path / "log"))

    def secrets() -> list[str]:
        assert service.run("az", "vm", "list").returncode == 0
        return (tmp_path / "log").read_text().split()

    with ServiceProcess(tmp_path / "data", "--memory") as service:
        (first,) = secrets()
        assert secrets() == [first]
        (listed,) = [t for t in service.json("token", "list") if t["use"] == "login"]
        revoke(service, listed["id"])
        assert log_in(service, "operator", first).status == 401
        _, second = secrets()
        assert log_in(service, "operator", second).status == 200


# --- Restarts -------------------------------------------------------------------------------------


def test_tokens_end_with_a_service_in_memory(tmp_path: Path) -> None:
    """It forgets which were revoked, so a later one in the same folder accepts none of them."""
    (tmp_path / "data").mkdir()
    with ServiceProcess(tmp_path / "data", "--memory") as service:
        token, cookie = create(service), open_session(service)
        assert service.stop()[0] == 0
    with ServiceProcess(tmp_path / "data", "--memory") as service:
        assert api_status(service, token["text"]) == 401
        assert not is_logged_in(service, cookie)
        assert len(service.json("token", "list")) == 1  # the start token


# --- The start token ------------------------------------------------------------------------------


def test_the_start_token_is_short_lived(service: ServiceProcess) -> None:
    """`up --json` prints the one in up.json; it is valid for half a day."""
    assert start_token(service) == service.ready["token"]
    (token,) = service.json("token", "list")
    lifetime = parse_date(token["expires_at"]) - parse_date(token["created_at"])
    assert lifetime == START_TOKEN_SECONDS == 12 * 3600


def test_a_revoked_start_token_is_replaced(service: ServiceProcess) -> None:
    """Commands on this host go on with the new one; the old one is worth nothing."""
    (token,) = service.json("token", "list")
    revoke(service, token["id"])
    assert service.run("token", "list").returncode == 0
    assert start_token(service) != service.ready["token"]
    assert api_status(service, start_token(service)) == 200
    assert api_status(service, service.ready["token"]) == 401
    assert (service.data / "up.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.campaign
def test_a_restarted_worker_renews_the_start_token(tmp_path: Path) -> None:
    """The worker that writes up.json does so after a crash as well."""
    url = database_or_skip()
    with ServiceProcess(tmp_path / "run", "--workers", "2", database=url) as service:
        os.kill(workers(service.process.pid)[0], signal.SIGKILL)
        wait_until(lambda: start_token(service) != service.ready["token"], "a new start token")
        before = start_token(service)
        ids = [t["id"] for t in service.json("token", "list") if t["use"] == "api"]
        revoke(service, *ids)
        wait_until(lambda: start_token(service) != before, "another start token")
        wait_until(lambda: api_status(service, start_token(service)) == 200, "both accept it")


# --- Several processes ----------------------------------------------------------------------------


def test_a_revocation_reaches_every_process(tmp_path: Path) -> None:
    """For a log-out and for tokens of every use; also after a restart."""
    url = database_or_skip()
    with (
        ServiceProcess(tmp_path / "one", database=url) as one,
        ServiceProcess(tmp_path / "two", database=url) as two,
    ):
        api, secret = create(one), create(one, use="login")
        arm = log_in(two, "ann", secret["text"]).json["access_token"]
        cookie, kept = open_session(one), open_session(two)
        assert is_logged_in(two, cookie)
        assert [api_status(two, api["text"]), arm_status(two, arm)] == [200, 200]
        log_out(one, cookie)
        revoke(one, api["id"], secret["id"])
        wait_until(lambda: not is_logged_in(two, cookie), "the end of the session")
        wait_until(lambda: api_status(two, api["text"]) == 401, "the revocation of the token")
        wait_until(lambda: arm_status(two, arm) == 401, "the revocation of the login")
        assert log_in(two, "ann", secret["text"]).status == 401
        assert is_logged_in(one, kept)
    with ServiceProcess(tmp_path / "two", database=url) as two:
        assert not is_logged_in(two, cookie)
        assert [api_status(two, api["text"]), arm_status(two, arm)] == [401, 401]
        assert is_logged_in(two, kept)


# --- Streams end with the token or the session of their client -----------------------------------

LIFETIME_SECONDS = 2
SOON_SECONDS = 8.0  # well below the 15 seconds between two keep-alives of a stream


@contextmanager
def open_stream(service: ServiceProcess, headers: Mapping[str, str]) -> Iterator[HTTPResponse]:
    """Open a stream, and read its first line."""
    url = urlsplit(service.ready["console"])
    connection = HTTPConnection(url.hostname or "", url.port, LIMIT_SECONDS)
    connection.request("GET", "/api/stream", headers=dict(headers))
    response = connection.getresponse()
    assert response.readline() == b"retry: 1000\n"
    yield response
    connection.close()


def bearer(text: str) -> dict[str, str]:
    """The header of a request with this token."""
    return {"Authorization": f"Bearer {text}"}


def test_a_log_out_ends_the_open_streams_of_the_session(service: ServiceProcess) -> None:
    """The page's stream ends cleanly and at once."""
    cookie = open_session(service)
    with open_stream(service, {"Cookie": f"{COOKIE}={cookie}"}) as response:
        log_out(service, cookie)
        response.read()  # until the stream ends


def test_a_stream_ends_when_its_token_expires(service: ServiceProcess) -> None:
    """At that moment, and not with the next keep-alive."""
    settings = {"name": "ann", "role": "reader", "seconds": LIFETIME_SECONDS}
    token = service.ok("POST", "/api/tokens", settings)["token"]
    began = time.monotonic()
    with open_stream(service, bearer(token)) as response:
        response.read()
    assert time.monotonic() - began < LIFETIME_SECONDS + on_this_machine(SOON_SECONDS)


def test_a_revocation_ends_the_streams_of_every_process(tmp_path: Path) -> None:
    """Of the process that revokes the token and of the others; other tokens' streams go on."""
    url = database_or_skip()
    with (
        ServiceProcess(tmp_path / "one", database=url) as one,
        ServiceProcess(tmp_path / "two", database=url) as two,
    ):
        token, other = create(one), create(one)
        with (
            open_stream(one, bearer(token["text"])) as here,
            open_stream(two, bearer(token["text"])) as there,
            open_stream(two, bearer(other["text"])) as kept,
        ):
            one.ok("POST", "/api/tokens/revoke", {"ids": [token["id"]]})
            began = time.monotonic()
            here.read()
            there.read()
            assert time.monotonic() - began < on_this_machine(SOON_SECONDS)
            one.ok("POST", "/api/machines", {"name": "vm"})
            while kept.readline() != b"event: line\n":
                pass
