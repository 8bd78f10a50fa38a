"""A certificate that the operator provides in files, for the console ([console] certificate)."""

import logging
import ssl
import time
from pathlib import Path
from threading import Lock

from fairwarning.core.errors import Refused
from fairwarning.service.health import PartHealth

log = logging.getLogger(__name__)


_RETRY_SECONDS = 1.0  # between two attempts to load new files; each costs a handshake its time


class CertificateFiles:
    """A certificate with its chain, and its key. New connections use files that were replaced."""

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
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
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
