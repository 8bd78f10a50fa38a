"""The certificates of the TLS ports: of the service's own authority, or files of the operator.

Those of the authority are created on first use and renewed in time.
`signing` is imported only to create or parse a certificate, so a service that already has its
authority starts without it.
"""

import ipaddress
import logging
import re
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from fairwarning.core.errors import Refused
from fairwarning.service import keyfiles
from fairwarning.service.health import PartHealth

if TYPE_CHECKING:
    from fairwarning.server.signing import KeyPair

log = logging.getLogger(__name__)

_LOCAL = ("localhost", "127.0.0.1", "::1")
_LABEL = r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = re.compile(rf"(?=.{{1,253}}$)(\*\.)?{_LABEL}(\.{_LABEL})*")
_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\n?", re.DOTALL)
_WORLD_READABLE = 0o644
_SIGNING = "fairwarning.server.signing"
_CREATE_SECONDS = 60.0
_RETRY_SECONDS = 1.0  # between two attempts to load new files; each costs a handshake its time
_CREATE_SCRIPT = """
import sys
from datetime import datetime
from fairwarning.server.signing import new_authority
sys.stdout.buffer.write(new_authority(datetime.fromisoformat(sys.argv[1])).to_pem())
"""


class Authority:
    """The certificates of a service: its own authority, and the server certificate that it signs.

    `ca.key` contains a copy of the authority's certificate, and `server.pem` contains the server
    certificate and its key, so a crash at any time leaves files that match.
    """

    def __init__(
        self, folder: Path, hosts: Sequence[str], now: Callable[[], float] = time.time
    ) -> None:
        self.ca = folder / "ca.pem"
        self._key = folder / "ca.key"
        self._server = folder / "server.pem"
        self._hosts = frozenset(map(_normalize_host, (*_LOCAL, *hosts)))
        self._clock = now
        self._lock = Lock()
        self._active: tuple[KeyPair, ssl.SSLContext] | None = None  # for new connections
        self._listener_context: ssl.SSLContext | None = None  # the result of `context`

    def prepare(self) -> None:
        """Create the authority on first use; after that, only check its files."""
        if keyfiles.check(self._key) and self.ca.exists():
            return
        published = self.ca.exists()  # check it before the key: the key is written first
        if not keyfiles.check(self._key):
            if published:
                raise self._unusable("its key is missing", "restore ca.key, or ")
            self._create()
        if not published:
            certificate = _CERTIFICATE.search(keyfiles.read(self._key))
            if certificate is None:
                raise self._unusable("its certificate is missing", "restore ca.pem, or ")
            keyfiles.write(self.ca, certificate.group(), _WORLD_READABLE)

    def _create(self) -> None:
        """Create the authority, in a child process if `cryptography` is not yet in memory here."""
        if _SIGNING in sys.modules:
            authority = sys.modules[_SIGNING].new_authority(self._now())
            keyfiles.write_first(self._key, authority.to_pem())
            return
        try:
            done = subprocess.run(  # noqa: S603  (our own interpreter and script)
                [sys.executable, "-c", _CREATE_SCRIPT, self._now().isoformat()],
                capture_output=True,
                check=False,
                timeout=_CREATE_SECONDS,
            )
        except subprocess.TimeoutExpired as error:
            raise self._unusable(f"it was not created in {_CREATE_SECONDS:g} s", "") from error
        if done.returncode:
            reason = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
            raise self._unusable(f"it cannot be created: {reason}", "")
        keyfiles.write_first(self._key, done.stdout)

    def context(self) -> ssl.SSLContext:
        """Return the TLS context of the server, with a certificate that is not due for renewal.

        It is always the same object. Do not configure it: connections after a renewal use another.
        """
        with self._lock:
            context = self._current_context()
            if self._listener_context is None:
                self._listener_context = context
                self._listener_context.sni_callback = self._select_context
            return self._listener_context

    def renew(self) -> bool:
        """Renew the server certificate if it is due; new connections then use the new one.

        Call it every few minutes, in any thread. If it fails, the old certificate stays in use.
        """
        with self._lock:
            before = self._active
            return before is not None and self._current_context() is not before[1]

    def _select_context(
        self, connection: ssl.SSLObject, _name: str | None, _: ssl.SSLContext
    ) -> None:
        # Each certificate has its own context: loading a certificate into a context while another
        # thread starts a connection with it corrupts memory (OpenSSL does not lock the context).
        assert self._active is not None
        connection.context = self._active[1]

    def _current_context(self) -> ssl.SSLContext:
        """Return a context with a certificate that is not due for renewal."""
        if self._active is None or self._now() >= self._active[0].renew_at:
            server = self._load_server()
            context = _new_context()
            context.load_cert_chain(self._server)
            self._active = server, context
        return self._active[1]

    def _load_server(self) -> "KeyPair":
        """Return the stored server certificate, or a new one if it does not match or is due."""
        from fairwarning.server.signing import KeyPair, new_server  # noqa: PLC0415  (slow to import)

        authority, now = self._load_authority(), self._now()
        with suppress(FileNotFoundError):
            content = keyfiles.read(self._server)
            stored = KeyPair.parse(content, content)
            if (
                stored is not None
                and stored.is_signed_by(authority)
                and stored.hosts == self._hosts
                and stored.not_before <= now < stored.renew_at
            ):
                return stored
        server = new_server(authority, self._hosts, now)
        keyfiles.write(self._server, server.to_pem())
        return server

    def _load_authority(self) -> "KeyPair":
        """Return the authority; raise if it cannot sign."""
        from fairwarning.server.signing import KeyPair  # noqa: PLC0415  (slow to import)

        self.prepare()
        try:
            pair = KeyPair.parse(self.ca.read_bytes(), keyfiles.read(self._key))
        except OSError as error:
            raise self._unusable(f"ca.pem cannot be read ({error.strerror})") from error
        if pair is None:
            raise self._unusable("ca.key and ca.pem do not match", "restore both files, or ")
        if self._now() >= pair.not_after:
            raise self._unusable(f"it expired at {pair.not_after}")
        if self._now() < pair.not_before:
            raise self._unusable(f"it is not valid before {pair.not_before}", "set the clock, or ")
        return pair

    def _unusable(self, reason: str, fix: str = "") -> Refused:
        text = (
            f"the certificate authority in {self.ca.parent} cannot be used: {reason}; {fix}delete"
            " ca.key and ca.pem there to create a new one (clients then need the new ca.pem)"
        )
        return Refused("BadAuthority", text)

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock(), UTC)


def _new_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context


def _normalize_host(host: str) -> str:
    """Return a host name or an address in the form that certificates use."""
    with suppress(ValueError):
        return str(ipaddress.ip_address(host.partition("%")[0]))
    name = host.removesuffix(".").lower()
    if not name.isascii():  # checked first because the codec is slow to load
        with suppress(UnicodeError):
            name = name.encode("idna").decode("ascii")
    if not _NAME.fullmatch(name):
        text = f"{host!r} is not a host name or an IP address; use the one that clients connect to"
        raise Refused("BadHost", text)
    return name


class CertificateFiles:
    """A certificate with its chain, and its key, in files ([console] certificate).

    New connections use files that were replaced.
    """

    _reason = ""  # why the files in use are not the current ones

    def __init__(self, certificate: Path, key: Path) -> None:
        """Load the files; raise `Refused` if they cannot be used."""
        self._certificate = certificate
        self._key = key
        self._lock = Lock()
        self._state = self._read_state()  # of the files in use
        self._retry_at = 0.0
        self._active = self._listener_context = self._load()
        self._listener_context.sni_callback = self._select_context

    def context(self) -> ssl.SSLContext:
        """Return the TLS context of the server, always the same."""
        return self._listener_context

    def _load(self) -> ssl.SSLContext:
        context = _new_context()
        try:
            # An encrypted key would make OpenSSL ask for its password on the terminal.
            context.load_cert_chain(self._certificate, self._key, password=lambda: "")
        except (OSError, ValueError) as error:
            text = (
                f"cannot use the certificate of the console, {self._certificate} with the key"
                f" {self._key}: {error}; both must be PEM files that belong together, and the key"
                " must have no password"
            )
            raise Refused("BadCertificate", text) from error
        return context

    def _select_context(
        self, connection: ssl.SSLObject, _name: str | None, _: ssl.SSLContext
    ) -> None:
        """Use a new context for files that were replaced: the old one is in use by connections."""
        with self._lock:
            self._check()
            connection.context = self._active

    def _check(self) -> None:
        """Use new files if there are any."""
        state = self._read_state()
        if state == self._state:
            self._reason = ""
        elif time.monotonic() >= self._retry_at:
            self._replace(state)

    def _replace(self, state: list[tuple[int, int, int]]) -> None:
        """Load the new files. What prevents it may pass, such as a process without descriptors."""
        try:
            self._active = self._load()
        except Refused as refused:
            self._retry_at = time.monotonic() + _RETRY_SECONDS
            if refused.message != self._reason:
                self._reason = refused.message
                log.error("the old certificate stays in use: %s", refused)  # noqa: TRY400
        else:
            self._state, self._reason = state, ""
            log.info("the console uses the new certificate in %s", self._certificate)

    def health(self) -> PartHealth:
        """Whether connections get the certificate that is in the files."""
        problem = "cannot use the new files; the old ones stay in use; see the log"
        with self._lock:
            self._check()  # there may be no new connection for long
            return PartHealth(name="certificate", problem=problem if self._reason else "")

    def _read_state(self) -> list[tuple[int, int, int]]:
        """Return what changes when a file is replaced."""
        states = []
        for path in (self._certificate, self._key):
            try:
                status = path.stat()
            except OSError:
                states.append((0, 0, 0))
            else:
                states.append((status.st_ino, status.st_size, status.st_mtime_ns))
        return states
