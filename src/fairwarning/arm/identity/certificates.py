"""The certificates that Azure's tools check: kept in files, made when missing, renewed in time.

`signing` is imported where something has to be made or read, and so not when a service starts that
has its authority already.
"""

import ipaddress
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

if TYPE_CHECKING:
    from fairwarning.arm.identity.signing import KeyPair

_LOCAL = ("localhost", "127.0.0.1", "::1")
_LABEL = r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = re.compile(rf"(?=.{{1,253}}$)(\*\.)?{_LABEL}(\.{_LABEL})*")
_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\n?", re.DOTALL)
_EVERYBODY = 0o644
_MAKE = """
import sys
from datetime import datetime
from fairwarning.arm.identity.signing import new_authority
sys.stdout.buffer.write(new_authority(datetime.fromisoformat(sys.argv[1])).written())
"""


class Authority:
    """The certificates of one service: its own authority, and a server certificate it signs.

    `ca.key` has a copy of the authority's certificate in it, and the server certificate is in one
    file with its key: whenever we are stopped, what is there fits together.
    """

    def __init__(
        self, folder: Path, hosts: Sequence[str], now: Callable[[], float] = time.time
    ) -> None:
        self.ca = folder / "ca.pem"
        self._key = folder / "ca.key"
        self._server = folder / "server.pem"
        self._hosts = frozenset(map(_host, (*_LOCAL, *hosts)))
        self._clock = now
        self._lock = Lock()
        self._shown: tuple[KeyPair, ssl.SSLContext] | None = None  # to connections from now on
        self._front: ssl.SSLContext | None = None  # what `context` gives

    def prepare(self) -> None:
        """Make the authority at first use; later a look at its files is all."""
        if keyfiles.check(self._key) and self.ca.exists():
            return
        published = self.ca.exists()  # asked before the key, since it comes to be after it
        if not keyfiles.check(self._key):
            if published:
                raise self._unusable("its key is missing", "put ca.key back, or ")
            self._make()
        if not published:
            certificate = _CERTIFICATE.search(keyfiles.read(self._key))
            if certificate is None:
                raise self._unusable("its certificate is missing", "put ca.pem back, or ")
            keyfiles.write(self.ca, certificate.group(), _EVERYBODY)

    def _make(self) -> None:
        """In a process of its own: loading what makes keys costs time and memory that stays."""
        done = subprocess.run(  # noqa: S603  (ourselves)
            [sys.executable, "-c", _MAKE, self._now().isoformat()],
            capture_output=True,
            check=False,
        )
        if done.returncode:
            why = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
            raise self._unusable(f"it cannot be made: {why}", "")
        keyfiles.write_first(self._key, done.stdout)

    def context(self) -> ssl.SSLContext:
        """The server's side of TLS, with a certificate that is not due for renewal.

        It is always the same one, and to be used as it is: what is set in it may not hold for
        connections after a renewal.
        """
        with self._lock:
            context = self._current()
            if self._front is None:
                self._front = context
                self._front.sni_callback = self._show
            return self._front

    def renew(self) -> bool:
        """Renew the server certificate if it is due; connections from now on are shown the new one.

        To be called about once a day, in any thread. If it fails, the old one goes on being shown.
        """
        with self._lock:
            before = self._shown
            return before is not None and self._current() is not before[1]

    def _show(self, connection: ssl.SSLObject, _name: str | None, _front: ssl.SSLContext) -> None:
        # Each certificate has a context of its own: to load one into a context with which another
        # thread is just beginning a connection corrupts memory (OpenSSL takes no lock there).
        assert self._shown is not None
        connection.context = self._shown[1]

    def _current(self) -> ssl.SSLContext:
        """A context with a certificate that is not due."""
        if self._shown is None or self._now() >= self._shown[0].due:
            server = self._server_pair()
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            context.set_alpn_protocols(["http/1.1"])
            context.load_cert_chain(self._server)
            self._shown = server, context
        return self._shown[1]

    def _server_pair(self) -> "KeyPair":
        """The stored server certificate if it is what we would make and not due, or a new one."""
        from fairwarning.arm.identity.signing import KeyPair, new_server  # noqa: PLC0415  (slow to import)

        authority, now = self._authority_pair(), self._now()
        with suppress(FileNotFoundError):
            content = keyfiles.read(self._server)
            stored = KeyPair.read(content, content)
            if (
                stored is not None
                and stored.is_signed_by(authority)
                and stored.hosts == self._hosts
                and stored.begins <= now < stored.due
            ):
                return stored
        made = new_server(authority, self._hosts, now)
        keyfiles.write(self._server, made.written())
        return made

    def _authority_pair(self) -> "KeyPair":
        """The authority, if it can sign."""
        from fairwarning.arm.identity.signing import KeyPair  # noqa: PLC0415  (slow to import)

        self.prepare()
        try:
            pair = KeyPair.read(self.ca.read_bytes(), keyfiles.read(self._key))
        except OSError as error:
            raise self._unusable(f"ca.pem cannot be read ({error.strerror})") from error
        if pair is None:
            raise self._unusable("ca.key and ca.pem do not fit", "put back what was there, or ")
        if self._now() >= pair.ends:
            raise self._unusable(f"it has ended at {pair.ends}")
        if self._now() < pair.begins:
            raise self._unusable(f"it begins at {pair.begins} only", "set the clock right, or ")
        return pair

    def _unusable(self, why: str, mend: str = "") -> Refused:
        text = (
            f"the certificate authority in {self.ca.parent} cannot be used: {why}; {mend}delete"
            " ca.key and ca.pem there to get a new one (clients then need the new ca.pem)"
        )
        return Refused("BadAuthority", text)

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock(), UTC)


def _host(host: str) -> str:
    """A name or an address as certificates have it."""
    with suppress(ValueError):
        return str(ipaddress.ip_address(host.partition("%")[0]))
    name = host.removesuffix(".").lower()
    if not name.isascii():  # only then, since the codec takes its time to load
        with suppress(UnicodeError):
            name = name.encode("idna").decode("ascii")
    if not _NAME.fullmatch(name):
        text = f"{host!r} is neither a host's name nor its address; give what clients connect to"
        raise Refused("BadHost", text)
    return name
