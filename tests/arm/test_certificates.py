import asyncio
import os
import shutil
import ssl
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path
from threading import Barrier

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from fairwarning.arm.identity import signing
from fairwarning.arm.identity.certificates import Authority
from fairwarning.core.errors import Refused
from tests.campaigns import split
from tests.fixtures.files import created_modes
from tests.fixtures.programs import run_at_once, run_python

DAY = 24 * 3600
STRICT = ssl.VerifyFlags.VERIFY_X509_STRICT | ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN


class Clock:
    """Begins some days before the present, since OpenSSL checks against the real time."""

    def __init__(self, days_ago: float = 0) -> None:
        self.now = time.time() - days_ago * DAY

    def __call__(self) -> float:
        return self.now

    def pass_days(self, days: float) -> None:
        self.now += days * DAY


def client(authority: Authority) -> ssl.SSLContext:
    """A client that trusts this authority alone and checks as strictly as Python 3.13."""
    authority.prepare()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(authority.ca)
    context.verify_flags |= STRICT
    return context


def shake(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> ssl.SSLObject:
    """The client's end of a connection that both sides agree on."""
    (at_server, at_client) = (ssl.MemoryBIO(), ssl.MemoryBIO())
    near = client.wrap_bio(at_client, at_server, server_hostname=host)
    far = server.wrap_bio(at_server, at_client, server_side=True)
    waiting = [near, far]
    while waiting:
        end = waiting.pop(0)
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            waiting.append(end)
    return near


def serial(connection: ssl.SSLObject) -> int:
    """Which certificate a client was shown."""
    shown = connection.getpeercert(binary_form=True)
    assert shown is not None
    return x509.load_der_x509_certificate(shown).serial_number


def shown(authority: Authority, host: str = "localhost") -> int:
    """Which certificate a new client is shown."""
    return serial(shake(authority.context(), client(authority), host))


def refusal(do: Callable[[], object]) -> str:
    """Why it is refused."""
    with pytest.raises(Refused) as caught:
        do()
    return caught.value.message


def modes(folder: Path) -> dict[str, int]:
    """Who can read what is in a folder."""
    return {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}


# --- Whom clients believe ---------------------------------------------------------------------


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
def test_a_strict_client_is_content(tmp_path: Path, host: str) -> None:
    """The service is believed to be this machine, and each host that it was given."""
    hosts = ["ARM.example.com.", "10.0.0.4", "fd00:0::4%eth0", "b\u00fccher.example"]
    authority = Authority(tmp_path, hosts)
    connection = shake(authority.context(), client(authority), host)
    assert connection.version() == "TLSv1.3"


@pytest.mark.parametrize("host", ["example.com", "x.arm.example.com", "10.0.0.5", "127.0.0.2"])
def test_another_host(tmp_path: Path, host: str) -> None:
    """The service is not believed to be any other."""
    authority = Authority(tmp_path, ["arm.example.com", "10.0.0.4"])
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(authority.context(), client(authority), host)


def test_another_authority(tmp_path: Path) -> None:
    """Who trusts another service's authority does not trust this one."""
    ours, theirs = Authority(tmp_path / "ours", []), Authority(tmp_path / "theirs", [])
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(ours.context(), client(theirs), "localhost")


def test_the_oldest_tls(tmp_path: Path) -> None:
    """TLS 1.2 is spoken, nothing older, and HTTP/1.1 in it."""
    authority = Authority(tmp_path, [])
    old = client(authority)
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    old.set_alpn_protocols(["h2", "http/1.1"])
    connection = shake(authority.context(), old, "localhost")
    assert connection.version() == "TLSv1.2"
    assert connection.selected_alpn_protocol() == "http/1.1"
    assert authority.context().minimum_version == ssl.TLSVersion.TLSv1_2


def test_what_the_certificates_say(tmp_path: Path) -> None:
    """The authority signs and does nothing else; the server serves and does nothing else."""
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
def test_a_host_that_is_none(tmp_path: Path, host: str) -> None:
    """What cannot be a host is refused before anything is made."""
    assert repr(host) in refusal(lambda: Authority(tmp_path / "arm", [host]))
    assert not (tmp_path / "arm").exists()


# --- Its files --------------------------------------------------------------------------------


def test_who_can_read_what(tmp_path: Path) -> None:
    """The keys are their owner's alone; what clients are given is everybody's."""
    mask = os.umask(0o077)
    try:
        Authority(tmp_path / "arm", []).context()
    finally:
        os.umask(mask)
    assert modes(tmp_path / "arm") == {"ca.pem": 0o644, "ca.key": 0o600, "server.pem": 0o600}
    assert b"PRIVATE" not in (tmp_path / "arm" / "ca.pem").read_bytes()


def test_keys_are_private_from_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No file of ours could be read by others before it was meant to be."""
    with created_modes(monkeypatch) as modes:
        Authority(tmp_path, []).context()
    assert modes == [0o600] * 3


def test_a_restart(tmp_path: Path) -> None:
    """Clients that were given the authority once believe every later run, with one certificate."""
    first = Authority(tmp_path, ["arm.example.com"])
    trusting = client(first)
    before = serial(shake(first.context(), trusting, "localhost"))
    second = Authority(tmp_path, ["arm.example.com"])
    second.prepare()
    assert serial(shake(second.context(), trusting, "localhost")) == before


def test_a_start_imports_nothing_slow(tmp_path: Path) -> None:
    """Neither the module nor a later `prepare` imports what only making certificates needs."""
    Authority(tmp_path, []).prepare()
    program = (
        "import sys; from pathlib import Path\n"
        "from fairwarning.arm.identity.certificates import Authority\n"
        "Authority(Path(sys.argv[1]), ['arm.example.com']).prepare()\n"
        "print('cryptography' in sys.modules)"
    )
    assert run_python(program, tmp_path, check=True).stdout == "False\n"


def test_stopped_halfway(tmp_path: Path) -> None:
    """Stopped between its two files, the authority is finished at the next start, not replaced."""
    Authority(tmp_path, []).prepare()
    published = (tmp_path / "ca.pem").read_bytes()
    (tmp_path / "ca.pem").unlink()
    Authority(tmp_path, []).prepare()
    assert (tmp_path / "ca.pem").read_bytes() == published
    assert modes(tmp_path) == {"ca.pem": 0o644, "ca.key": 0o600}


def test_somebody_else_is_faster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If another process makes the authority while we make ours, theirs is everybody's."""
    made = signing.new_authority

    def slow(now: datetime) -> signing.KeyPair:
        monkeypatch.setattr(signing, "new_authority", made)
        Authority(tmp_path, []).prepare()
        return made(now)

    monkeypatch.setattr(signing, "new_authority", slow)
    Authority(tmp_path, []).prepare()
    assert (tmp_path / "ca.pem").read_bytes() in (tmp_path / "ca.key").read_bytes()
    assert shown(Authority(tmp_path, []))


@pytest.mark.parametrize("attempt", split(range(10), 1))
def test_threads_agree(tmp_path: Path, attempt: int) -> None:
    """Threads that prepare at once end with one authority, whose files fit."""
    barrier = Barrier(6)

    def prepare() -> bytes:
        barrier.wait()
        Authority(tmp_path, []).prepare()
        return (tmp_path / "ca.pem").read_bytes()

    with ThreadPoolExecutor(6) as pool:
        published = {future.result() for future in [pool.submit(prepare) for _ in range(6)]}
    assert len(published) == 1
    assert modes(tmp_path) == {"ca.pem": 0o644, "ca.key": 0o600}
    assert shown(Authority(tmp_path, []))


def test_processes_agree(tmp_path: Path) -> None:
    """Processes that prepare at once end with one authority."""
    program = (
        "import sys; from pathlib import Path\n"
        "from fairwarning.arm.identity import certificates, signing\n"
        "print('ready', flush=True); sys.stdin.read()\n"
        "authority = certificates.Authority(Path(sys.argv[1]), [])\n"
        "authority.prepare(); print(authority.ca.read_text('ascii'))"
    )
    published = set(run_at_once(4, program, tmp_path))
    assert published == {(tmp_path / "ca.pem").read_text("ascii").strip()}


@pytest.mark.parametrize("name", ["ca.key", "server.pem"])
def test_a_key_that_others_can_read(tmp_path: Path, name: str) -> None:
    """A key that others can read is refused, and the text says how to mend it."""
    before = shown(Authority(tmp_path, []))
    (tmp_path / name).chmod(0o640)
    assert f"chmod 600 {tmp_path / name}" in refusal(Authority(tmp_path, []).context)
    if name == "ca.key":
        refusal(Authority(tmp_path, []).prepare)
    (tmp_path / name).chmod(0o600)
    assert shown(Authority(tmp_path, [])) == before


@pytest.mark.parametrize("name", ["ca.key", "ca.pem"])
@pytest.mark.parametrize("spoil", ["other", "empty", "nonsense", "cut", "folder"])
def test_an_authority_that_does_not_fit(tmp_path: Path, name: str, spoil: str) -> None:
    """An authority that cannot be used is refused and left alone; the text says what to delete."""
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
    }[spoil]
    path.unlink()
    if content is None:
        path.mkdir(0o700)
    else:
        path.touch(mode)
        path.write_bytes(content)
    text = refusal(Authority(tmp_path, []).context)
    if (name, spoil) == ("ca.key", "folder"):
        assert str(path) in text
        return
    assert "delete ca.key and ca.pem" in text
    assert content is None or path.read_bytes() == content
    for each in (tmp_path / "ca.key", tmp_path / "ca.pem"):
        each.rmdir() if each.is_dir() else each.unlink()
    assert shown(Authority(tmp_path, []))


def test_a_key_that_is_missing(tmp_path: Path) -> None:
    """The authority that clients were given is never replaced by itself."""
    Authority(tmp_path, []).prepare()
    (tmp_path / "ca.key").unlink()
    assert "restore ca.key" in refusal(Authority(tmp_path, []).prepare)
    assert modes(tmp_path) == {"ca.pem": 0o644}


def test_a_certificate_that_cannot_be_restored(tmp_path: Path) -> None:
    """A key alone, without the copy of its certificate, is no authority."""
    Authority(tmp_path, []).prepare()
    (tmp_path / "ca.pem").unlink()
    (tmp_path / "ca.key").write_bytes(b"nonsense")
    assert "restore ca.pem" in refusal(Authority(tmp_path, []).prepare)


@pytest.mark.parametrize(("days", "why"), [(3650.1, "expired"), (-1, "set the clock")])
def test_an_authority_out_of_its_time(tmp_path: Path, days: float, why: str) -> None:
    """An authority that has ended, or has not begun, is refused with what to do."""
    clock = Clock()
    Authority(tmp_path, [], clock).prepare()
    clock.pass_days(days)
    text = refusal(Authority(tmp_path, [], clock).context)
    assert why in text
    assert "delete ca.key and ca.pem" in text


# --- The server certificate and its renewal ---------------------------------------------------


def test_other_hosts(tmp_path: Path) -> None:
    """A service that is given other hosts has a certificate for these, from the same authority."""
    first = Authority(tmp_path, ["one.example"])
    trusting = client(first)
    shake(first.context(), trusting, "one.example")
    second = Authority(tmp_path, ["two.example"])
    shake(second.context(), trusting, "two.example")
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(second.context(), trusting, "one.example")


def test_a_server_certificate_of_another_authority(tmp_path: Path) -> None:
    """What the present authority has not signed is made anew."""
    authority = Authority(tmp_path / "one", [])
    before = shown(authority)
    Authority(tmp_path / "two", []).context()
    shutil.copy(tmp_path / "two" / "server.pem", tmp_path / "one" / "server.pem")
    assert shown(Authority(tmp_path / "one", [])) != before


@pytest.mark.parametrize("spoil", ["empty", "nonsense", "mixed", "authority"])
def test_a_server_certificate_that_is_spoiled(tmp_path: Path, spoil: str) -> None:
    """A server certificate that cannot be used is made anew: nobody but us depends on it."""
    before = shown(Authority(tmp_path, []))
    path = tmp_path / "server.pem"
    other = tmp_path / "other"
    Authority(other, []).context()
    key_of_other = (other / "server.pem").read_bytes().partition(b"-----BEGIN CERT")[0]
    _, begin, rest = path.read_bytes().partition(b"-----BEGIN CERT")
    contents = {
        "empty": b"",
        "nonsense": b"\xff\x00" * 99,
        "mixed": key_of_other + begin + rest,
        "authority": (tmp_path / "ca.key").read_bytes(),
    }
    path.write_bytes(contents[spoil])
    assert shown(Authority(tmp_path, [])) != before


def test_it_is_renewed_when_a_third_is_left(tmp_path: Path) -> None:
    """After sixty of its ninety days the certificate is renewed, once; before that it is not."""
    clock = Clock(days_ago=61)
    authority = Authority(tmp_path, [], clock)
    before = shown(authority)
    clock.pass_days(59.9)
    assert not authority.renew()
    assert shown(authority) == before
    clock.pass_days(0.2)
    assert authority.renew()
    after = shown(authority)
    assert after != before
    assert not authority.renew()
    assert shown(Authority(tmp_path, [], clock)) == after


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_every_client_is_shown_the_new_one(
    tmp_path: Path, host: str, version: ssl.TLSVersion
) -> None:
    """Whatever a client speaks and whether or not it says whom it wants, it sees the renewal."""
    clock = Clock(days_ago=61)
    authority = Authority(tmp_path, [], clock)
    trusting = client(authority)
    trusting.minimum_version = trusting.maximum_version = version
    context = authority.context()
    before = serial(shake(context, trusting, host))
    clock.pass_days(61)
    assert authority.renew()
    assert serial(shake(context, trusting, host)) != before


def test_a_late_start(tmp_path: Path) -> None:
    """A service that starts with a certificate that is due, or has ended, has a new one at once."""
    clock = Clock(days_ago=100)
    Authority(tmp_path, [], clock).context()
    clock.pass_days(100)
    assert shown(Authority(tmp_path, [], clock))


def test_nothing_to_renew_before_the_first_connection(tmp_path: Path) -> None:
    """Where nobody has connected yet, nothing is made."""
    authority = Authority(tmp_path / "arm", [])
    assert not authority.renew()
    assert not (tmp_path / "arm").exists()


def test_a_context_that_is_asked_for_late(tmp_path: Path) -> None:
    """Also where `renew` is not called, whoever asks for the context gets what is not due."""
    clock = Clock(days_ago=61)
    authority = Authority(tmp_path, [], clock)
    before = shown(authority)
    clock.pass_days(61)
    assert shown(authority) != before
    assert not authority.renew()


def test_a_clock_that_was_set_back(tmp_path: Path) -> None:
    """A certificate that has not begun yet is not shown."""
    clock = Clock(days_ago=1)
    Authority(tmp_path, [], clock).prepare()
    clock.pass_days(10)
    Authority(tmp_path, [], clock).context()
    clock.pass_days(-9)
    assert shown(Authority(tmp_path, [], clock))


def test_a_renewal_that_fails(tmp_path: Path) -> None:
    """If renewing fails, what there is goes on being shown, and the next attempt is a new one."""
    clock = Clock(days_ago=61)
    authority = Authority(tmp_path, [], clock)
    context = authority.context()
    trusting = client(authority)
    before = serial(shake(context, trusting, "localhost"))
    clock.pass_days(61)
    (tmp_path / "ca.key").chmod(0o644)
    assert "chmod 600" in refusal(authority.renew)
    assert serial(shake(context, trusting, "localhost")) == before
    (tmp_path / "ca.key").chmod(0o600)
    assert authority.renew()
    assert serial(shake(context, trusting, "localhost")) != before


def test_the_last_certificate(tmp_path: Path) -> None:
    """A server certificate does not outlive its authority."""
    clock = Clock(days_ago=3640)
    Authority(tmp_path, [], clock).prepare()
    clock.pass_days(3640)
    authority = Authority(tmp_path, [], clock)
    assert shown(authority)
    ca = x509.load_pem_x509_certificate(authority.ca.read_bytes())
    server = x509.load_pem_x509_certificate((tmp_path / "server.pem").read_bytes())
    assert server.not_valid_after_utc == ca.not_valid_after_utc


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while line := await reader.readline():
        writer.write(line)
    writer.close()
    await writer.wait_closed()


class Caller:
    """A connection over the loopback interface."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.serial = serial(writer.get_extra_info("ssl_object"))

    async def says(self, line: bytes) -> bytes:
        self._writer.write(line)
        return await self._reader.readline()

    async def hang_up(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


def test_a_renewal_while_serving(tmp_path: Path) -> None:
    """A new connection is shown the new certificate while the old connection goes on."""

    async def scene() -> None:
        clock = Clock(days_ago=61)
        authority = Authority(tmp_path, [], clock)
        server = await asyncio.start_server(_echo, "127.0.0.1", 0, ssl=authority.context())
        port = server.sockets[0].getsockname()[1]
        trusting = client(authority)

        async def call() -> Caller:
            streams = await asyncio.open_connection("127.0.0.1", port, ssl=trusting)
            return Caller(*streams)

        async with server:
            old = await call()
            assert await old.says(b"before\n") == b"before\n"
            clock.pass_days(61)
            assert await asyncio.to_thread(authority.renew)
            new = await call()
            assert new.serial != old.serial
            assert await old.says(b"still there\n") == b"still there\n"
            assert await new.says(b"hello\n") == b"hello\n"
            await old.hang_up()
            await new.hang_up()

    asyncio.run(scene())


def test_renewals_during_handshakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Renewing in one thread disturbs no handshake in another, however often."""
    monkeypatch.setattr(signing, "SERVER_LIFETIME", timedelta(minutes=1))
    clock = Clock(days_ago=-1 / 1440)  # good at the real time as well, for the next hour's renewals
    authority = Authority(tmp_path, [], clock)
    context, trusting = authority.context(), client(authority)

    def renew_often() -> None:
        for _ in range(50):
            clock.now += 45
            assert authority.renew()

    with ThreadPoolExecutor(1) as pool:
        renewing = pool.submit(renew_often)
        serials = {serial(shake(context, trusting, "localhost"))}
        while not renewing.done():
            serials.add(serial(shake(context, trusting, "localhost")))
        renewing.result()
    assert len(serials) > 1
