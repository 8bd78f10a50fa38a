import os
import ssl
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from fairwarning.core.errors import Refused
from fairwarning.server import certificates, signing
from fairwarning.server.certificates import Authority
from tests.fixtures.files import created_modes
from tests.fixtures.programs import run_at_once, run_python

DAY = 24 * 3600
STRICT = ssl.VerifyFlags.VERIFY_X509_STRICT | ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN


class Clock:
    """A clock that starts in the past, because OpenSSL compares with the real time."""

    def __init__(self, days_ago: float = 0) -> None:
        self.now = time.time() - days_ago * DAY

    def __call__(self) -> float:
        return self.now

    def advance_days(self, days: float) -> None:
        self.now += days * DAY


def client(authority: Authority) -> ssl.SSLContext:
    """Return a client context that trusts only this authority, with Python 3.13's strict checks."""
    authority.prepare()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(authority.ca)
    context.verify_flags |= STRICT
    return context


def handshake(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> ssl.SSLObject:
    """Complete a TLS handshake in memory, and return the client's side."""
    (to_server, to_client) = (ssl.MemoryBIO(), ssl.MemoryBIO())
    client_side = client.wrap_bio(to_client, to_server, server_hostname=host)
    server_side = server.wrap_bio(to_server, to_client, server_side=True)
    pending = [client_side, server_side]
    while pending:
        side = pending.pop(0)
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            pending.append(side)
    return client_side


def serial(connection: ssl.SSLObject) -> int:
    """Return the serial number of the server certificate of a connection."""
    certificate = connection.getpeercert(binary_form=True)
    assert certificate is not None
    return x509.load_der_x509_certificate(certificate).serial_number


def presented_serial(authority: Authority, host: str = "localhost") -> int:
    """Return the serial number of the certificate that a new client gets."""
    return serial(handshake(authority.context(), client(authority), host))


def refusal(call: Callable[[], object]) -> str:
    """Return the error message of a refused call."""
    with pytest.raises(Refused) as caught:
        call()
    return caught.value.message


def modes(folder: Path) -> dict[str, int]:
    """Return the file modes of a directory."""
    return {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}


# --- Verification by clients ------------------------------------------------------------------


def test_an_authority_that_takes_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The start fails with a sentence, and does not wait for ever (IB6)."""
    monkeypatch.delitem(sys.modules, signing.__name__)
    monkeypatch.setattr(certificates, "_CREATE_SECONDS", 0.0)
    with pytest.raises(Refused, match="not created in 0 s"):
        Authority(tmp_path, ()).prepare()
    assert not (tmp_path / "ca.key").exists()


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "127.0.0.1",
        "::1",
        "arm.example.com",
        "10.0.0.4",
        "fd00::4",
        "b\u00fccher.example",
    ],
)
def test_a_strict_client_accepts_the_certificate(tmp_path: Path, host: str) -> None:
    """It is valid for this machine and each configured host."""
    hosts = ["ARM.example.com.", "10.0.0.4", "fd00:0::4%eth0", "b\u00fccher.example"]
    authority = Authority(tmp_path, hosts)
    connection = handshake(authority.context(), client(authority), host)
    assert connection.version() == "TLSv1.3"


@pytest.mark.parametrize("host", ["example.com", "x.arm.example.com", "10.0.0.5", "127.0.0.2"])
def test_another_host(tmp_path: Path, host: str) -> None:
    """The certificate is not valid for it, until the same authority signs one that is."""
    authority = Authority(tmp_path / "ours", ["arm.example.com", "10.0.0.4"])
    client_context = client(authority)
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(authority.context(), client_context, host)
    changed = Authority(tmp_path / "ours", [host]).context()
    handshake(changed, client_context, host)
    for context, name in (
        (client_context, "arm.example.com"),
        (client(Authority(tmp_path, [])), host),
    ):
        with pytest.raises(ssl.SSLCertVerificationError):  # of another host, or authority
            handshake(changed, context, name)


def test_the_minimum_tls_version(tmp_path: Path) -> None:
    """The minimum is TLS 1.2, with HTTP/1.1 in ALPN."""
    authority = Authority(tmp_path, [])
    old = client(authority)
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    old.set_alpn_protocols(["h2", "http/1.1"])
    connection = handshake(authority.context(), old, "localhost")
    assert connection.version() == "TLSv1.2"
    assert connection.selected_alpn_protocol() == "http/1.1"
    assert authority.context().minimum_version == ssl.TLSVersion.TLSv1_2


def test_the_extensions_of_the_certificates(tmp_path: Path) -> None:
    """The authority may only sign certificates, and the server certificate may only serve."""
    clock = Clock()
    authority = Authority(tmp_path, [], clock)
    authority.context()
    ca = x509.load_pem_x509_certificate(authority.ca.read_bytes())
    server = x509.load_pem_x509_certificate((tmp_path / "server.pem").read_bytes())
    assert ca.subject.rfc4514_string().startswith("CN=Fairwarning authority ")
    limits = ca.extensions.get_extension_for_class(x509.BasicConstraints)
    assert (limits.critical, limits.value.ca, limits.value.path_length) == (True, True, 0)
    usage = ca.extensions.get_extension_for_class(x509.KeyUsage).value
    assert (usage.key_cert_sign, usage.crl_sign, usage.digital_signature) == (True, True, False)
    usage = server.extensions.get_extension_for_class(x509.KeyUsage).value
    assert (usage.key_cert_sign, usage.crl_sign, usage.digital_signature) == (False, False, True)
    purposes = server.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(purposes) == [ExtendedKeyUsageOID.SERVER_AUTH]
    for certificate, days in ((ca, 3650), (server, 90)):
        assert certificate.not_valid_before_utc.timestamp() == int(clock.now) - 3600
        assert certificate.not_valid_after_utc.timestamp() == int(clock.now) + days * DAY


@pytest.mark.parametrize(
    "host", ["", " ", "a b", "http://x", "x:443", ".x", "a..b", "x" * 64, "\n"]
)
def test_an_invalid_host(tmp_path: Path, host: str) -> None:
    """An invalid host is refused before any file is created."""
    assert repr(host) in refusal(lambda: Authority(tmp_path / "arm", [host]))
    assert not (tmp_path / "arm").exists()


# --- Files ------------------------------------------------------------------------------------


def test_file_modes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the owner can read the keys, from their creation on; everyone can read ca.pem."""
    mask = os.umask(0o077)
    try:
        with created_modes(monkeypatch) as created:
            Authority(tmp_path / "arm", []).context()
    finally:
        os.umask(mask)
    assert created == [0o600] * 3
    assert modes(tmp_path / "arm") == {"ca.pem": 0o644, "ca.key": 0o600, "server.pem": 0o600}
    assert b"PRIVATE" not in (tmp_path / "arm" / "ca.pem").read_bytes()


def test_a_start_imports_nothing_slow(tmp_path: Path) -> None:
    """Neither the module nor a later `prepare` imports `cryptography`."""
    Authority(tmp_path, []).prepare()
    program = (
        "import sys; from pathlib import Path\n"
        "from fairwarning.server.certificates import Authority\n"
        "Authority(Path(sys.argv[1]), ['arm.example.com']).prepare()\n"
        "print('cryptography' in sys.modules)"
    )
    assert run_python(program, tmp_path, check=True).stdout == "False\n"


def test_an_interrupted_creation(tmp_path: Path) -> None:
    """A start after an interruption completes the authority and does not replace it."""
    Authority(tmp_path, []).prepare()
    published = (tmp_path / "ca.pem").read_bytes()
    (tmp_path / "ca.pem").unlink()
    Authority(tmp_path, []).prepare()
    assert (tmp_path / "ca.pem").read_bytes() == published
    assert modes(tmp_path) == {"ca.pem": 0o644, "ca.key": 0o600}


def test_another_process_creates_the_authority_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If another process creates the authority meanwhile, both use that authority."""
    new_authority = signing.new_authority

    def slow(now: datetime) -> signing.KeyPair:
        monkeypatch.setattr(signing, "new_authority", new_authority)
        Authority(tmp_path, []).prepare()
        return new_authority(now)

    monkeypatch.setattr(signing, "new_authority", slow)
    Authority(tmp_path, []).prepare()
    assert (tmp_path / "ca.pem").read_bytes() in (tmp_path / "ca.key").read_bytes()
    assert presented_serial(Authority(tmp_path, []))


def test_processes_agree(tmp_path: Path) -> None:
    """Processes that prepare at the same time get the same authority."""
    program = (
        "import sys; from pathlib import Path\n"
        "from fairwarning.server import certificates, signing\n"
        "print('ready', flush=True); sys.stdin.read()\n"
        "authority = certificates.Authority(Path(sys.argv[1]), [])\n"
        "authority.prepare(); print(authority.ca.read_text('ascii'))"
    )
    published = set(run_at_once(4, program, tmp_path))
    assert published == {(tmp_path / "ca.pem").read_text("ascii").strip()}


@pytest.mark.parametrize("name", ["ca.key", "server.pem"])
def test_a_key_that_others_can_read(tmp_path: Path, name: str) -> None:
    """It is refused, and the error echo how to fix the mode."""
    before = presented_serial(Authority(tmp_path, []))
    (tmp_path / name).chmod(0o640)
    assert f"chmod 600 {tmp_path / name}" in refusal(Authority(tmp_path, []).context)
    if name == "ca.key":
        refusal(Authority(tmp_path, []).prepare)
    (tmp_path / name).chmod(0o600)
    assert presented_serial(Authority(tmp_path, [])) == before


@pytest.mark.parametrize("name", ["ca.key", "ca.pem"])
@pytest.mark.parametrize("damage", ["other", "empty", "nonsense", "cut", "folder"])
def test_an_unusable_authority(tmp_path: Path, name: str, damage: str) -> None:
    """It is refused and not changed; the error names the files to delete."""
    Authority(tmp_path, []).prepare()
    Authority(tmp_path / "other", []).prepare()
    path = tmp_path / name
    mode = path.stat().st_mode
    content = {
        "other": (tmp_path / "other" / name).read_bytes(),
        "empty": b"",
        "nonsense": b"\xff" * 1000,
        "cut": path.read_bytes()[:100],
        "folder": None,
    }[damage]
    path.unlink()
    if content is None:
        path.mkdir(0o700)
    else:
        path.touch(mode)
        path.write_bytes(content)
    text = refusal(Authority(tmp_path, []).context)
    if (name, damage) == ("ca.key", "folder"):
        assert str(path) in text
        return
    assert "delete ca.key and ca.pem" in text
    assert content is None or path.read_bytes() == content
    for file in (tmp_path / "ca.key", tmp_path / "ca.pem"):
        file.rmdir() if file.is_dir() else file.unlink()
    assert presented_serial(Authority(tmp_path, []))


@pytest.mark.parametrize(("lost", "left"), [("ca.key", b""), ("ca.pem", b"nonsense")])
def test_a_missing_file(tmp_path: Path, lost: str, left: bytes) -> None:
    """An authority that clients trust is never replaced, nor used without its certificate."""
    Authority(tmp_path, []).prepare()
    (tmp_path / lost).unlink()
    if left:
        (tmp_path / "ca.key").write_bytes(left)
    files = sorted(tmp_path.iterdir())
    assert f"restore {lost}" in refusal(Authority(tmp_path, []).prepare)
    assert sorted(tmp_path.iterdir()) == files


@pytest.mark.parametrize(("days", "message"), [(3650.1, "expired"), (-1, "set the clock")])
def test_an_authority_that_is_not_valid_now(tmp_path: Path, days: float, message: str) -> None:
    """An expired or future authority is refused, and the error echo what to do."""
    clock = Clock()
    Authority(tmp_path, [], clock).prepare()
    clock.advance_days(days)
    text = refusal(Authority(tmp_path, [], clock).context)
    assert message in text
    assert "delete ca.key and ca.pem" in text


# --- The server certificate and its renewal ---------------------------------------------------


@pytest.mark.parametrize("damage", ["empty", "nonsense", "mixed", "authority", "other"])
def test_a_damaged_server_certificate(tmp_path: Path, damage: str) -> None:
    """It is replaced, because no client depends on it."""
    before = presented_serial(Authority(tmp_path, []))
    path = tmp_path / "server.pem"
    other = tmp_path / "other"
    Authority(other, []).context()
    of_other = (other / "server.pem").read_bytes()
    key_of_other = of_other.partition(b"-----BEGIN CERT")[0]
    _, begin, rest = path.read_bytes().partition(b"-----BEGIN CERT")
    contents = {
        "empty": b"",
        "nonsense": b"\xff\x00" * 99,
        "mixed": key_of_other + begin + rest,
        "authority": (tmp_path / "ca.key").read_bytes(),
        "other": of_other,
    }
    path.write_bytes(contents[damage])
    assert presented_serial(Authority(tmp_path, [])) != before


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_it_is_renewed_when_a_third_is_left(
    tmp_path: Path, host: str, version: ssl.TLSVersion
) -> None:
    """Once, after 60 of its 90 days; every client gets the new one, with and without SNI."""
    clock = Clock(days_ago=61)
    authority = Authority(tmp_path / "arm", [], clock)
    assert not authority.renew()  # nothing is created before the first connection
    assert not (tmp_path / "arm").exists()
    client_context = client(authority)
    client_context.minimum_version = client_context.maximum_version = version
    context = authority.context()

    def presented() -> int:
        return serial(handshake(context, client_context, host))

    before = presented()
    clock.advance_days(59.9)
    assert not authority.renew()
    assert presented() == before
    clock.advance_days(0.2)
    assert authority.renew()
    after = presented()
    assert after != before
    assert not authority.renew()
    assert presented_serial(Authority(tmp_path / "arm", [], clock)) == after


@pytest.mark.parametrize("days", [10, -90])
def test_a_start_with_a_certificate_that_is_not_valid_now(tmp_path: Path, days: float) -> None:
    """One that has expired, or is not valid yet because the clock was set back, is replaced."""
    clock = Clock(days_ago=95)
    Authority(tmp_path, [], clock).prepare()
    clock.advance_days(95 + days)
    Authority(tmp_path, [], clock).context()
    clock.advance_days(-days)
    assert presented_serial(Authority(tmp_path, [], clock))


def test_a_renewal_that_fails(tmp_path: Path) -> None:
    """The old certificate stays in use, and the next attempt can succeed."""
    clock = Clock(days_ago=61)
    authority = Authority(tmp_path, [], clock)
    context = authority.context()
    client_context = client(authority)
    before = serial(handshake(context, client_context, "localhost"))
    clock.advance_days(61)
    (tmp_path / "ca.key").chmod(0o644)
    assert "chmod 600" in refusal(authority.renew)
    assert serial(handshake(context, client_context, "localhost")) == before
    (tmp_path / "ca.key").chmod(0o600)
    assert authority.renew()
    assert serial(handshake(context, client_context, "localhost")) != before


def test_the_last_certificate(tmp_path: Path) -> None:
    """A server certificate expires no later than its authority."""
    clock = Clock(days_ago=3640)
    Authority(tmp_path, [], clock).prepare()
    clock.advance_days(3640)
    authority = Authority(tmp_path, [], clock)
    assert presented_serial(authority)
    ca = x509.load_pem_x509_certificate(authority.ca.read_bytes())
    server = x509.load_pem_x509_certificate((tmp_path / "server.pem").read_bytes())
    assert server.not_valid_after_utc == ca.not_valid_after_utc


def test_renewals_during_handshakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Renewals in one thread do not disturb handshakes in another."""
    monkeypatch.setattr(signing, "SERVER_LIFETIME", timedelta(minutes=1))
    clock = Clock(days_ago=-1 / 1440)  # the certificates of the next hour are valid now
    authority = Authority(tmp_path, [], clock)
    context, client_context = authority.context(), client(authority)

    def renew_often() -> None:
        for _ in range(50):
            clock.now += 45
            assert authority.renew()

    with ThreadPoolExecutor(1) as pool:
        renewing = pool.submit(renew_often)
        serials = {serial(handshake(context, client_context, "localhost"))}
        while not renewing.done():
            serials.add(serial(handshake(context, client_context, "localhost")))
        renewing.result()
    assert len(serials) > 1
