"""The console over TLS, and the clients that must trust its certificate (O13)."""

import ssl
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from http.client import HTTPSConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from cryptography.x509 import Certificate, load_der_x509_certificate

from fairwarning.server.certificates import CertificateFiles
from fairwarning.server.signing import KeyPair, new_authority, new_server
from tests.fixtures.files import no_free_descriptor
from tests.fixtures.http import LOOPBACK, Response, fetch, send
from tests.fixtures.service import FREE_PORTS, ServiceProcess, run_command
from tests.fixtures.waiting import LIMIT_SECONDS, wait_until

pytestmark = pytest.mark.spec("O13")

FLEET = '[[machine]]\nname = "vm"\n'


def fetch_tls(url: str, ca: str, path: str) -> Response:
    """Send a request over TLS to a server that this CA has certified."""
    port = urlsplit(url).port
    context = ssl.create_default_context(cafile=ca)
    connection = HTTPSConnection("localhost", port, timeout=LIMIT_SECONDS, context=context)
    try:
        return send(connection, "GET", path, {})
    finally:
        connection.close()


def at_host(url: str, host: str, scheme: str = "https") -> str:
    """Return the URL with another host."""
    return f"{scheme}://{host}:{urlsplit(url).port}"


class OwnFiles:
    """An authority of the operator's, and the certificate files of a console."""

    def __init__(self, folder: Path) -> None:
        self.now = datetime.now(UTC)
        self.authority = new_authority(self.now)
        self.ca = folder / "own-ca.pem"
        self.ca.write_bytes(self.authority.to_pem())
        self.certificate = folder / "console.pem"
        self.issued = self.issue()

    def issue(self) -> KeyPair:
        """Write a new certificate for localhost, as a renewal does."""
        issued = new_server(self.authority, frozenset({"localhost"}), self.now)
        new = self.certificate.with_suffix(".new")
        new.write_bytes(issued.to_pem())
        new.replace(self.certificate)
        return issued


def test_a_console_with_tls_of_its_own_authority(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All addresses have https, commands on the host just work, and the cookie is for TLS only."""
    with ServiceProcess(tmp_path / "data", "--memory", "--tls", fleet=FLEET) as service:
        console, ca = service.ready["console"], service.ready["ca"]
        assert console.startswith("https://")
        assert service.ready["page"].startswith(console)
        assert service.json("machine", "list")[0]["name"] == "vm"
        assert service.run("healthcheck").returncode == 0
        for port in ("console", "arm"):
            plain = fetch(f"{service.ready[port].replace('https', 'http')}/readyz")
            assert (plain.status, plain.error_code) == (400, "TlsRequired")
            assert "https://" in plain.error_message
        page = fetch_tls(console, ca, service.ready["page"].removeprefix(console))
        assert "; Secure" in page.headers["set-cookie"]
        monkeypatch.setenv("FAIRWARNING_TOKEN", service.ready["token"])
        by_name = at_host(console, "localhost")
        done = run_command("clock", "show", "--server", by_name, "--ca", ca)
        assert (done.returncode, done.stderr) == (0, "")
        unknown = run_command("clock", "show", "--server", by_name)
        assert unknown.returncode == 1
        for part in ("is not valid here", "localhost", "SHA-256 fingerprint", "--ca ca.pem"):
            assert part in unknown.stderr


def test_the_scheme_of_the_other_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client of TLS at a console without it is told to use http."""
    with ServiceProcess(tmp_path / "data", "--memory", fleet=FLEET) as service:
        monkeypatch.setenv("FAIRWARNING_TOKEN", service.ready["token"])
        url = at_host(service.ready["console"], LOOPBACK)
        done = run_command("clock", "show", "--server", url)
    assert done.returncode == 1
    assert "does not use TLS; use http://" in done.stderr


def test_a_certificate_for_another_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says for which names it is, and where to add one."""
    data = tmp_path / "data"
    with ServiceProcess(data, "--memory", "--tls", fleet=FLEET, console="0.0.0.0:0") as service:
        monkeypatch.setenv("FAIRWARNING_TOKEN", service.ready["token"])
        url = at_host(service.ready["console"], "127.0.0.2")
        done = run_command("clock", "show", "--server", url, "--ca", service.ready["ca"])
    assert done.returncode == 1
    assert "not valid for '127.0.0.2'. It is for" in done.stderr
    assert "localhost" in done.stderr
    assert "add this one to [console] hosts" in done.stderr


def test_a_certificate_in_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that trust its authority connect; commands on the host trust the file itself."""
    own = OwnFiles(tmp_path)
    fleet = f'[console]\ncertificate = "{own.certificate}"\n{FLEET}'
    with ServiceProcess(tmp_path / "data", "--memory", fleet=fleet) as service:
        assert service.json("machine", "list")[0]["name"] == "vm"  # by 127.0.0.1
        monkeypatch.setenv("FAIRWARNING_TOKEN", service.ready["token"])
        url = at_host(service.ready["console"], "localhost")
        words = ("clock", "show", "--server", url, "--ca")
        assert run_command(*words, str(own.ca)).returncode == 0
        wrong = run_command(*words, service.ready["ca"])
        assert "it is not from the CA that you trust" in wrong.stderr
        new = own.issue()

        def is_new() -> bool:
            pem = ssl.get_server_certificate((LOOPBACK, urlsplit(url).port or 0))
            return KeyPair.parse(pem.encode(), new.to_pem()) is not None

        wait_until(is_new, "new connections get the new certificate")
        assert service.json("machine", "list")[0]["name"] == "vm"


def test_new_certificate_files_that_cannot_be_opened_for_a_moment(tmp_path: Path) -> None:
    """The old ones stay in use, and health says so; then connections get the new ones (IB5)."""
    own = OwnFiles(tmp_path)
    files = CertificateFiles(own.certificate, own.certificate)
    client = ssl.create_default_context(cafile=own.ca)
    old = own.issued.certificate
    assert served_certificate(files, client) == old  # and everything is imported
    new = own.issue().certificate
    with no_free_descriptor():
        assert files.health().problem
        assert served_certificate(files, client) == old
        assert files.health().problem
    wait_until(lambda: not files.health().problem, "they are tried again")
    assert served_certificate(files, client) == new
    kept = own.certificate.rename(tmp_path / "kept")
    assert files.health().problem  # also without a connection
    assert served_certificate(files, client) == new
    kept.rename(own.certificate)
    assert not files.health().problem
    assert served_certificate(files, client) == new


def served_certificate(files: CertificateFiles, client: ssl.SSLContext) -> Certificate:
    """Return the certificate that a connection gets."""
    sent, received = ssl.MemoryBIO(), ssl.MemoryBIO()
    server_side = files.context().wrap_bio(sent, received, server_side=True)
    client_side = client.wrap_bio(received, sent, server_hostname="localhost")
    for side in (client_side, server_side, client_side):
        with suppress(ssl.SSLWantReadError):
            side.do_handshake()
    return load_der_x509_certificate(client_side.getpeercert(binary_form=True) or b"")


def test_certificate_files_that_do_not_match(tmp_path: Path) -> None:
    """The service does not start, and says what it needs."""
    own = OwnFiles(tmp_path)
    fleet = tmp_path / "fleet.toml"
    fleet.write_text(f'[console]\ncertificate = "{own.certificate}"\nkey = "{own.ca}"\n')
    done = run_command("up", str(fleet), *FREE_PORTS, "--data", str(tmp_path / "data"))
    assert done.returncode == 1
    assert "both must be PEM files that belong together" in done.stderr


def test_an_authority_that_is_not_valid_yet(tmp_path: Path) -> None:
    """The console closes connections at once; it works without a restart once the clock is right.

    Here the authority changes instead of the clock (IB5).
    """
    data = tmp_path / "data"
    data.mkdir(0o700)

    def put_authority(now: datetime) -> None:
        authority = new_authority(now).to_pem()
        (data / "ca.key").write_bytes(authority)
        (data / "ca.key").chmod(0o600)
        (data / "ca.pem").write_bytes(authority[authority.index(b"-----BEGIN CERTIFICATE") :])

    put_authority(datetime.now(UTC) + timedelta(days=2))
    with ServiceProcess(data, "--memory", "--tls", fleet=FLEET) as service:
        assert service.run("healthcheck").returncode == 1
        assert service.get("vm").status == 200
        put_authority(datetime.now(UTC))
        wait_until(lambda: service.run("healthcheck").returncode == 0, "the console works")
        log = service.stop()[1]
    assert log.count("it is not valid before") == 1
    assert "the console port serves connections again" in log
