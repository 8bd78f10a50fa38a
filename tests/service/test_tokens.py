import base64
import hashlib
import hmac
import json
import os
import secrets
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairwarning.core.errors import Refused
from fairwarning.service.tokens import Principal, Role, Tokens, TokenUse, Unauthorized, signing_key
from tests.fixtures.files import created_modes
from tests.fixtures.tokens import sign_token

KEY = bytes(range(32))
TENANT = "72f988bf-86f1-41af-91ab-2d7cd011db47"
ANNA = Principal(name="anna", role=Role.TENANT, group="shop")
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

names = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=100)
principals = st.builds(Principal, name=names, role=st.sampled_from(Role), group=st.text())


class Clock:
    def __init__(self) -> None:
        self.now = 1_800_000_000.5

    def __call__(self) -> float:
        return self.now


def tokens(clock: Clock | None = None) -> Tokens:
    """Tokens of a service with a clock that stands still unless the test moves it."""
    return Tokens(KEY, TENANT, clock or Clock())


def part(value: object) -> str:
    """Encode a part of a token as in RFC 7515; bytes are not converted to JSON."""
    content = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def signed(payload: object, header: object = None, key: bytes = KEY) -> str:
    """A token signed with the key."""
    text = part(header or b'{"alg":"HS256","typ":"JWT"}') + "." + part(payload)
    return f"{text}.{part(hmac.new(key, text.encode(), hashlib.sha256).digest())}"


def claims(token: str) -> dict[str, Any]:
    """The claims of a token, without verification."""
    payload = token.split(".")[1]
    decoded: dict[str, Any] = json.loads(base64.urlsafe_b64decode(payload + "=="))
    return decoded


def refusal(token: str, maker: Tokens | None = None) -> Unauthorized:
    """The refusal of a token; its text must not contain the token."""
    with pytest.raises(Unauthorized) as caught:
        (maker or tokens()).read(token, TokenUse.API)
    assert len(token) < 20 or token not in str(caught.value)
    return caught.value


# --- Valid tokens -----------------------------------------------------------------------------


@given(principals)
def test_an_access_token_authenticates_its_principal(principal: Principal) -> None:
    """So does a client secret, with the principal's name."""
    assert tokens().read(sign_token(tokens(), principal), TokenUse.API).principal == principal
    secret = sign_token(tokens(), principal, TokenUse.LOGIN)
    assert tokens().log_in(principal.name, secret).principal == principal


def test_tokens_have_the_claims_of_azure() -> None:
    """A token has the claims of Azure's tokens, its lifetime, and a signature by HS256."""
    token = tokens().new(TokenUse.API, ANNA, 60)
    text = tokens().sign(token)
    assert len(token.id) == 16
    assert text == signed(base64.urlsafe_b64decode(text.split(".")[1] + "=="))
    assert claims(text) == {
        "iss": f"https://sts.windows.net/{TENANT}/",
        "aud": "https://management.azure.com/",
        "tid": TENANT,
        "oid": "anna",
        "appid": "anna",
        "sub": "anna",
        "roles": ["tenant"],
        "role": "tenant",
        "group": "shop",
        "use": "api",
        "jti": token.id,
        "parent": "",
        "iat": 1_800_000_000,
        "nbf": 1_800_000_000,
        "exp": 1_800_000_060,
    }


def test_tokens_use_real_time() -> None:
    """By default, tokens use real time."""
    maker = Tokens(KEY, TENANT)
    assert abs(claims(sign_token(maker, ANNA))["iat"] - time.time()) < 60
    assert maker.read(sign_token(maker, ANNA), TokenUse.API).principal == ANNA


# --- Expiry -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "seconds"), [("access", 3600), ("secret", 365 * 24 * 3600)], ids=["access", "secret"]
)
def test_tokens_expire(kind: str, seconds: int) -> None:
    """An access token is valid for an hour, a client secret for a year, and no longer."""
    clock = Clock()
    maker = tokens(clock)
    token = sign_token(maker, ANNA) if kind == "access" else sign_token(maker, ANNA, TokenUse.LOGIN)

    def use() -> Principal:
        if kind == "secret":
            return maker.log_in("anna", token).principal
        return maker.read(token, TokenUse.API).principal

    clock.now += seconds - 1
    assert use() == ANNA
    clock.now += 1
    with pytest.raises(Unauthorized) as caught:
        use()
    assert caught.value.code == "ExpiredAuthenticationToken"


def test_a_clock_that_was_set_back() -> None:
    """A clock may be a little behind; for a token from far in the future the error says how far."""
    clock = Clock()
    maker = tokens(clock)
    token = sign_token(maker, ANNA)
    clock.now -= 5 * 60
    assert maker.read(token, TokenUse.API).principal == ANNA
    clock.now -= 1
    text = "issued 301 seconds in the future by the clock of this service, and at most 300 are"
    assert text in refusal(token, maker).message


# --- Refusals ---------------------------------------------------------------------------------


@pytest.mark.spec("C7")
@pytest.mark.parametrize("use", TokenUse)
@pytest.mark.parametrize("other", TokenUse)
def test_a_token_has_one_use(use: TokenUse, other: TokenUse) -> None:
    """It is refused for every other use."""
    token = sign_token(tokens(), ANNA, use)
    if other is use:
        assert tokens().read(token, other).use is use
    else:
        with pytest.raises(Unauthorized) as caught:
            tokens().read(token, other)
        assert f"not issued for this use ({other})" in caught.value.message


@pytest.mark.spec("C7")
def test_a_revoked_token() -> None:
    """It is refused, and so is a token that was got with it; others are not."""
    maker = tokens()
    secret = maker.new(TokenUse.LOGIN, ANNA)
    child = maker.new(TokenUse.ARM, ANNA, parent=secret)
    other = maker.new(TokenUse.ARM, ANNA)
    maker.revoked = {secret.id}
    for token in (secret, child):
        with pytest.raises(Unauthorized, match="revoked; get a new one"):
            maker.read(maker.sign(token), token.use)
        assert not maker.is_valid(token)
    assert maker.read(maker.sign(other), TokenUse.ARM) == other
    assert maker.is_valid(other)


def test_a_token_expires_no_later_than_its_parent() -> None:
    """A session of a token that lasts a minute lasts a minute."""
    clock = Clock()
    parent = tokens(clock).new(TokenUse.API, ANNA, 60)
    session = tokens(clock).new(TokenUse.PAGE, ANNA, parent=parent)
    assert (session.expires_at, session.parent) == (parent.expires_at, parent.id)
    clock.now += 60
    assert not tokens(clock).is_valid(session)


@pytest.mark.parametrize("client", ["", "Anna", "anna ", "bert", "ann\u0430"])
def test_a_client_secret_of_another_client(client: str) -> None:
    """A client secret is accepted only for the client that it was issued for."""
    with pytest.raises(Unauthorized) as caught:
        tokens().log_in(client, sign_token(tokens(), ANNA, TokenUse.LOGIN))
    assert caught.value.code == "InvalidClient"


def test_a_token_of_another_service() -> None:
    """A token of another key or another tenant is refused."""
    assert refusal(sign_token(Tokens(bytes(32), TENANT, Clock()), ANNA)).status == 401
    assert "tenant" in refusal(sign_token(Tokens(KEY, "other", Clock()), ANNA)).message


@given(st.data())
def test_no_character_can_be_changed(data: st.DataObject) -> None:
    """A token with any change, deletion or addition is refused."""
    token = sign_token(tokens(), ANNA)
    start = data.draw(st.integers(0, len(token)))
    end = data.draw(st.integers(start, min(len(token), start + 4)))
    other = data.draw(st.text(ALPHABET + ".= \n\u00e9", max_size=4))
    changed = token[:start] + other + token[end:]
    if changed == token:
        assert tokens().read(changed, TokenUse.API).principal == ANNA
    else:
        assert refusal(changed).status == 401


def test_a_token_has_one_encoding() -> None:
    """The unused bits of the last character must be as issued."""
    token = sign_token(tokens(), ANNA)
    others = [token[:-1] + letter for letter in ALPHABET if letter != token[-1]]
    equivalents = [
        other
        for other in others
        if base64.urlsafe_b64decode(other.split(".")[2] + "=")
        == base64.urlsafe_b64decode(token.split(".")[2] + "=")
    ]
    assert len(equivalents) == 3
    for other in [*others, f"{token}=", f"{token}\n", f" {token}", f"{token}."]:
        refusal(other)


@given(st.text() | st.text(ALPHABET + ".", max_size=200))
def test_any_text_at_all(text: str) -> None:
    """Any other text is refused with Unauthorized."""
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
    """Another header is refused even with a valid signature; `none` is not accepted."""
    valid = claims(sign_token(tokens(), ANNA))
    token = signed(valid, json.dumps(header).encode())
    refusal(token)
    refusal(token.rpartition(".")[0] + ".")


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("exp", [None, "1900000000", 1.9e9, True, [1_900_000_000]]),
        ("nbf", [None, False]),
        ("sub", [None, "", 7, ["anna"]]),
        ("group", [None, {}]),
        ("role", [None, "", "OPERATOR", "owner", ["operator"], {}]),
        ("use", [None, "Api", ["api"]]),
        ("jti", [None, "", 7]),
        ("parent", [None, []]),
        ("tid", [None, [TENANT]]),
        ("iss", ["https://sts.windows.net/"]),
        ("aud", [["https://management.azure.com/"]]),
    ],
)
def test_invalid_claims(name: str, values: list[object]) -> None:
    """A claim of another type or value is refused even with a valid signature."""
    valid = claims(sign_token(tokens(), ANNA))
    assert tokens().read(signed(valid), TokenUse.API).principal == ANNA
    for value in values:
        refusal(signed({**valid, name: value}))
    del valid[name]
    refusal(signed(valid))


@pytest.mark.parametrize(
    "payload",
    [b"", b"{", b"null", b"[]", b"7", b'"x"', b"\xff", b"[" * 5000, b"9" * 5000],
    ids=lambda payload: repr(payload[:4]),
)
def test_invalid_signed_payloads(payload: bytes) -> None:
    """A payload that cannot be decoded is refused even with a valid signature."""
    refusal(signed(payload))


def test_signed_payloads_have_one_encoding() -> None:
    """A payload in another encoding is refused even with a valid signature."""
    header, payload, _ = sign_token(tokens(), ANNA).split(".")
    for other in [f"{payload}=", f"{payload}\n", f"{payload}.", f"!{payload}", payload + "A" * 3]:
        text = f"{header}.{other}"
        refusal(f"{text}.{part(hmac.new(KEY, text.encode(), hashlib.sha256).digest())}")


def test_a_long_token() -> None:
    """A token that is too long is neither verified nor issued."""
    valid = claims(sign_token(tokens(), ANNA))
    token = signed({**valid, "more": "x" * 8192})
    assert len(token) > 8192
    refusal(token)
    with pytest.raises(Refused):
        sign_token(tokens(), Principal(name="ann", group="x" * 8192, role=Role.READER))


def test_the_key_is_not_shown() -> None:
    """The key does not appear in `repr` or `str`."""
    maker = tokens()
    for text in (repr(maker), str(maker)):
        assert text == f"Tokens(tenant='{TENANT}')"


# --- The key file -----------------------------------------------------------------------------


def test_the_key_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first use creates a key that other users cannot read; later uses return the same."""
    folder = tmp_path / "data"
    mask = os.umask(0)  # the least restrictive
    try:
        with created_modes(monkeypatch) as modes:
            key = signing_key(folder)
    finally:
        os.umask(mask)
    assert modes == [0o600]
    assert len(key) == 32
    assert key == signing_key(folder) == bytes.fromhex((folder / "signing.key").read_text("ascii"))
    assert [path.name for path in folder.iterdir()] == ["signing.key"]
    assert (folder / "signing.key").stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700
    assert key != signing_key(tmp_path / "other")


def test_another_process_creates_the_key_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If another process creates the key at the same time, its key is used."""
    theirs = "ab" * 32

    def token_hex(count: int) -> str:
        if count == 32:
            (tmp_path / "signing.key").touch(0o600)
            (tmp_path / "signing.key").write_text(theirs, "ascii")
        return "cd" * count

    monkeypatch.setattr(secrets, "token_hex", token_hex)
    assert signing_key(tmp_path) == bytes.fromhex(theirs)
    assert [path.name for path in tmp_path.iterdir()] == ["signing.key"]


def key_refusal(folder: Path) -> str:
    """The text with which a folder's key is refused."""
    with pytest.raises(Refused) as caught:
        signing_key(folder)
    return caught.value.message


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o620, 0o777])
def test_a_key_that_other_users_can_read(tmp_path: Path, mode: int) -> None:
    """A key that other users can read or change is refused, and the text says how to fix it."""
    signing_key(tmp_path)
    path = tmp_path / "signing.key"
    path.chmod(mode)
    assert f"chmod 600 {path}" in key_refusal(tmp_path)
    path.chmod(0o600)
    assert len(signing_key(tmp_path)) == 32


@pytest.mark.parametrize(
    "content",
    [b"", b"\n", b"ab" * 31, b"ab" * 33, b"xy" * 32, b"ab " * 32, bytes(32), b"\xff" * 64],
    ids=lambda content: repr(content[:4]),
)
def test_an_invalid_key_file(tmp_path: Path, content: bytes) -> None:
    """A file that is not a key is refused and not changed, and the text says what to do."""
    path = tmp_path / "signing.key"
    path.touch(0o600)
    path.write_bytes(content)
    message = key_refusal(tmp_path)
    assert str(path) in message
    assert "delete it" in message
    assert path.read_bytes() == content


def test_a_folder_that_cannot_hold_a_key(tmp_path: Path) -> None:
    """A folder that cannot hold a key is refused with its path."""
    (tmp_path / "file").touch()
    assert str(tmp_path / "file") in key_refusal(tmp_path / "file" / "data")
    (tmp_path / "signing.key").mkdir(0o700)
    assert key_refusal(tmp_path)
