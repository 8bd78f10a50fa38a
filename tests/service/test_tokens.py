import base64
import hashlib
import hmac
import json
import os
import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairwarning.core.errors import Refused
from fairwarning.service.tokens import (
    Forbidden,
    Principal,
    Role,
    Tokens,
    Unauthorized,
    key_of,
)
from tests.fixtures.programs import run_at_once, run_python

KEY = bytes(range(32))
TENANT = "72f988bf-86f1-41af-91ab-2d7cd011db47"
ANNA = Principal(name="anna", role=Role.TENANT, group="shop")
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

names = st.text(min_size=1, max_size=100)
principals = st.builds(Principal, name=names, role=st.sampled_from(Role), group=st.text())


class Clock:
    def __init__(self) -> None:
        self.now = 1_800_000_000.5

    def __call__(self) -> float:
        return self.now


def tokens(clock: Clock | None = None) -> Tokens:
    """Of a service whose clock stands still unless the test has it."""
    return Tokens(KEY, TENANT, clock or Clock())


def part(value: object) -> str:
    """A part of a token, as RFC 7515 has it; text is taken as it is."""
    content = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def signed(payload: object, header: object = None, key: bytes = KEY) -> str:
    """A token that somebody made who has the key."""
    text = part(header or b'{"alg":"HS256","typ":"JWT"}') + "." + part(payload)
    return f"{text}.{part(hmac.new(key, text.encode(), hashlib.sha256).digest())}"


def claims(token: str) -> dict[str, Any]:
    """What a client that checks nothing finds in a token."""
    payload = token.split(".")[1]
    found: dict[str, Any] = json.loads(base64.urlsafe_b64decode(payload + "=="))
    return found


def refusal(token: str, maker: Tokens | None = None) -> Unauthorized:
    """Why a token is refused, in a text that does not give it away."""
    with pytest.raises(Unauthorized) as caught:
        (maker or tokens()).read(token)
    assert len(token) < 20 or token not in str(caught.value)
    return caught.value


# --- What is promised of a good token ---------------------------------------------------------


@given(principals)
def test_a_token_says_whose_it_is(principal: Principal) -> None:
    """Whoever an access token was made for is who asks with it."""
    assert tokens().read(tokens().access(principal)) == principal


@given(principals)
def test_a_client_secret_says_who_logs_in(principal: Principal) -> None:
    """Whoever a client secret was made for can log in with it."""
    assert tokens().log_in(principal.name, tokens().secret(principal)) == principal


def test_azure_clients_find_what_they_look_for() -> None:
    """Inside stand the claims of Azure's tokens, and how long it is good."""
    found = claims(tokens().access(ANNA, seconds=60))
    assert found == {
        "iss": f"https://sts.windows.net/{TENANT}/",
        "aud": "https://management.azure.com/",
        "tid": TENANT,
        "oid": "anna",
        "appid": "anna",
        "sub": "anna",
        "roles": ["tenant"],
        "role": "tenant",
        "group": "shop",
        "use": "access",
        "iat": 1_800_000_000,
        "nbf": 1_800_000_000,
        "exp": 1_800_000_060,
    }


def test_the_signature_is_the_standards() -> None:
    """Another implementation of HS256 with the same key comes to the same signature."""
    token = tokens().access(ANNA)
    assert token == signed(base64.urlsafe_b64decode(token.split(".")[1] + "=="))


def test_it_lives_in_real_time() -> None:
    """Unless a test says otherwise, the time is the real one."""
    maker = Tokens(KEY, TENANT)
    assert abs(claims(maker.access(ANNA))["iat"] - time.time()) < 60
    assert maker.read(maker.access(ANNA)) == ANNA


# --- When it ends -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "seconds"), [("access", 3600), ("secret", 365 * 24 * 3600)], ids=["access", "secret"]
)
def test_how_long_it_is_good(kind: str, seconds: int) -> None:
    """An access token is good for an hour, a client secret for a year, and not a second longer."""
    clock = Clock()
    maker = tokens(clock)
    token = maker.access(ANNA) if kind == "access" else maker.secret(ANNA)

    def use() -> Principal:
        return maker.read(token) if kind == "access" else maker.log_in("anna", token)

    clock.now += seconds - 1
    assert use() == ANNA
    clock.now += 1
    with pytest.raises(Unauthorized) as caught:
        use()
    assert caught.value.code == "ExpiredAuthenticationToken"


def test_a_clock_that_was_set_back() -> None:
    """A clock may be set back a little; a token from far in the future is refused."""
    clock = Clock()
    maker = tokens(clock)
    token = maker.access(ANNA)
    clock.now -= 5 * 60
    assert maker.read(token) == ANNA
    clock.now -= 1
    assert "clock" in refusal(token, maker).message


# --- What is refused --------------------------------------------------------------------------


def test_a_client_secret_is_no_bearer_token() -> None:
    """Nothing can be asked with a client secret, and nobody logs in with an access token."""
    assert refusal(tokens().secret(ANNA)).status == 401
    with pytest.raises(Unauthorized):
        tokens().log_in("anna", tokens().access(ANNA))


@pytest.mark.parametrize("client", ["", "Anna", "anna ", "bert", "ann\u0430"])
def test_a_client_secret_of_another(client: str) -> None:
    """A client secret is good for the very client it was made for."""
    with pytest.raises(Unauthorized) as caught:
        tokens().log_in(client, tokens().secret(ANNA))
    assert caught.value.code == "InvalidClient"


def test_another_service() -> None:
    """A token of another key or another tenant is none of ours."""
    assert refusal(Tokens(bytes(32), TENANT, Clock()).access(ANNA)).status == 401
    assert "tenant" in refusal(Tokens(KEY, "other", Clock()).access(ANNA)).message


@given(st.data())
def test_no_letter_can_be_changed(data: st.DataObject) -> None:
    """A token in which anything was replaced, left out or added is refused."""
    token = tokens().access(ANNA)
    start = data.draw(st.integers(0, len(token)))
    end = data.draw(st.integers(start, min(len(token), start + 4)))
    other = data.draw(st.text(ALPHABET + ".= \n\u00e9", max_size=4))
    changed = token[:start] + other + token[end:]
    if changed == token:
        assert tokens().read(changed) == ANNA
    else:
        assert refusal(changed).status == 401


def test_a_token_has_one_spelling() -> None:
    """The bits of the last letter that mean nothing have to be as we write them."""
    token = tokens().access(ANNA)
    others = [token[:-1] + letter for letter in ALPHABET if letter != token[-1]]
    twins = [
        other
        for other in others
        if base64.urlsafe_b64decode(other.split(".")[2] + "=")
        == base64.urlsafe_b64decode(token.split(".")[2] + "=")
    ]
    assert len(twins) == 3
    for other in [*others, f"{token}=", f"{token}\n", f" {token}", f"{token}."]:
        refusal(other)


@given(st.text() | st.text(ALPHABET + ".", max_size=200))
def test_any_text_at_all(text: str) -> None:
    """Whatever is sent is refused, and nothing else happens."""
    refusal(text)
    with pytest.raises(Unauthorized):
        tokens().log_in(text, text)


@pytest.mark.parametrize(
    "header",
    [
        {"alg": "none", "typ": "JWT"},
        {"alg": "none"},
        {"alg": "HS512", "typ": "JWT"},
        {"alg": "RS256", "typ": "JWT"},
        {"typ": "JWT", "alg": "HS256"},
        {"alg": "HS256", "typ": "JWT", "kid": "x"},
        {},
        [],
    ],
    ids=str,
)
def test_another_header(header: object) -> None:
    """A token has the header that we write, even if its signature is right; `none` is no way in."""
    good = claims(tokens().access(ANNA))
    token = signed(good, json.dumps(header).encode())
    refusal(token)
    refusal(token.rpartition(".")[0] + ".")


@pytest.mark.parametrize(
    "changes",
    [
        {"exp": None},
        {"exp": "1900000000"},
        {"exp": 1.9e9},
        {"exp": True},
        {"exp": [1_900_000_000]},
        {"nbf": None},
        {"nbf": False},
        {"sub": None},
        {"sub": ""},
        {"sub": 7},
        {"sub": ["anna"]},
        {"group": None},
        {"group": {}},
        {"role": None},
        {"role": ""},
        {"role": "OPERATOR"},
        {"role": "owner"},
        {"role": ["operator"]},
        {"role": {}},
        {"use": None},
        {"use": "Access"},
        {"use": ["access"]},
        {"tid": None},
        {"tid": [TENANT]},
        {"iss": "https://sts.windows.net/"},
        {"aud": ["https://management.azure.com/"]},
    ],
    ids=str,
)
def test_claims_that_we_would_not_write(changes: dict[str, object]) -> None:
    """A claim of another type or value is refused even with the right signature."""
    good = claims(tokens().access(ANNA))
    assert tokens().read(signed(good)) == ANNA
    refusal(signed({**good, **changes}))
    (name,) = changes
    del good[name]
    refusal(signed(good))


@pytest.mark.parametrize(
    "payload",
    [b"", b"{", b"null", b"[]", b"7", b'"x"', b"\xff", b"[" * 5000, b"9" * 5000],
    ids=lambda payload: repr(payload[:4]),
)
def test_signed_nonsense(payload: bytes) -> None:
    """What cannot be read is refused even with the right signature."""
    refusal(signed(payload))


def test_signed_spellings() -> None:
    """A payload that is not spelled in the one right way is refused even so."""
    header, payload, _ = tokens().access(ANNA).split(".")
    for other in [f"{payload}=", f"{payload}\n", f"{payload}.", f"!{payload}", payload + "A" * 3]:
        text = f"{header}.{other}"
        refusal(f"{text}.{part(hmac.new(KEY, text.encode(), hashlib.sha256).digest())}")


def test_a_long_token() -> None:
    """What is longer than any token of ours is not even looked at, nor made."""
    good = claims(tokens().access(ANNA))
    token = signed({**good, "more": "x" * 8192})
    assert len(token) > 8192
    refusal(token)
    for name in ("x" * 8192, ""):
        with pytest.raises(Refused):
            tokens().access(Principal(name=name, role=Role.READER))


def test_the_errors_say_what_to_do() -> None:
    """A refusal has a status, Azure's code, and a text that says what to do next."""
    error = refusal("x.y.z")
    assert (error.status, error.code) == (401, "InvalidAuthenticationToken")
    assert "get a new one" in error.message
    assert Forbidden("AuthorizationFailed", "ask an operator").status == 403


def test_the_key_is_not_shown() -> None:
    """Neither the key nor anything of it is in what a log would show."""
    maker = tokens()
    for text in (repr(maker), str(maker)):
        assert text == f"Tokens(tenant='{TENANT}')"


# --- The key's file ---------------------------------------------------------------------------


def test_the_key_is_made_once(tmp_path: Path) -> None:
    """The first use makes a key that nobody else can read; later uses get the same."""
    folder = tmp_path / "data"
    mask = os.umask(0)  # the most careless one
    try:
        key = key_of(folder)
    finally:
        os.umask(mask)
    assert len(key) == 32
    assert key == key_of(folder) == bytes.fromhex((folder / "signing.key").read_text("ascii"))
    assert [path.name for path in folder.iterdir()] == ["signing.key"]
    assert (folder / "signing.key").stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700
    assert key != key_of(tmp_path / "other")


def test_the_key_is_private_from_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No file that has ever held the key could be read by others for an instant."""
    seen: list[int] = []

    def record_open(path: Path, flags: int, mode: int = 0o777, **more: Any) -> int:  # noqa: ANN401
        handle = real(path, flags, mode, **more)
        if flags & os.O_CREAT:
            seen.append(os.fstat(handle).st_mode & 0o777)
        return handle

    real = os.open
    monkeypatch.setattr(os, "open", record_open)
    mask = os.umask(0)
    try:
        key_of(tmp_path)
    finally:
        os.umask(mask)
    assert seen == [0o600]


def test_somebody_else_is_faster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If another process makes the key while we draw ours, theirs is everybody's."""
    theirs = "ab" * 32

    def draw(count: int) -> str:
        if count == 32:
            (tmp_path / "signing.key").touch(0o600)
            (tmp_path / "signing.key").write_text(theirs, "ascii")
        return "cd" * count

    monkeypatch.setattr(secrets, "token_hex", draw)
    assert key_of(tmp_path) == bytes.fromhex(theirs)
    assert [path.name for path in tmp_path.iterdir()] == ["signing.key"]


def test_threads_agree_on_the_key(tmp_path: Path) -> None:
    """Threads that ask at once get one key."""
    for attempt in range(20):
        barrier = Barrier(8)

        def ask(folder: Path = tmp_path / str(attempt), barrier: Barrier = barrier) -> bytes:
            barrier.wait()
            return key_of(folder)

        with ThreadPoolExecutor(8) as pool:
            keys = {future.result() for future in [pool.submit(ask) for _ in range(8)]}
        assert len(keys) == 1


def test_processes_agree_on_the_key(tmp_path: Path) -> None:
    """Processes that ask at once get one key."""
    program = (
        "import sys; from pathlib import Path; from fairwarning.service.tokens import key_of\n"
        "print('ready', flush=True); sys.stdin.read()\n"
        "print(key_of(Path(sys.argv[1])).hex())"
    )
    keys = set(run_at_once(6, program, tmp_path))
    assert keys == {key_of(tmp_path).hex()}


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o620, 0o777])
def test_a_key_that_others_can_read(tmp_path: Path, mode: int) -> None:
    """A key that others can read or change is refused, and the text says how to mend it."""
    key_of(tmp_path)
    path = tmp_path / "signing.key"
    path.chmod(mode)
    with pytest.raises(Refused) as caught:
        key_of(tmp_path)
    assert f"chmod 600 {path}" in caught.value.message
    path.chmod(0o600)
    assert len(key_of(tmp_path)) == 32


@pytest.mark.parametrize(
    "content",
    [b"", b"\n", b"ab" * 31, b"ab" * 33, b"xy" * 32, b"ab " * 32, bytes(32), b"\xff" * 64],
    ids=lambda content: repr(content[:4]),
)
def test_a_key_that_is_none(tmp_path: Path, content: bytes) -> None:
    """A file that is not a key is refused and left alone, and the text says what to do."""
    path = tmp_path / "signing.key"
    path.touch(0o600)
    path.write_bytes(content)
    with pytest.raises(Refused) as caught:
        key_of(tmp_path)
    assert str(path) in caught.value.message
    assert "delete it" in caught.value.message
    assert path.read_bytes() == content


def test_a_folder_that_cannot_be_one(tmp_path: Path) -> None:
    """A place where no key can be kept is refused with its name."""
    (tmp_path / "file").touch()
    with pytest.raises(Refused) as caught:
        key_of(tmp_path / "file" / "data")
    assert str(tmp_path / "file") in caught.value.message
    (tmp_path / "signing.key").mkdir(0o700)
    with pytest.raises(Refused):
        key_of(tmp_path)


def test_it_is_quick_to_import() -> None:
    """Tokens need the standard library only: a service that starts pays for nothing else."""
    program = "import sys, fairwarning.service.tokens; print('cryptography' in sys.modules)"
    assert run_python(program, check=True).stdout == "False\n"
