"""A certificate that the operator provides in files, for the console ([console] certificate)."""

import logging
import ssl
from pathlib import Path
from threading import Lock

from fairwarning.core.errors import Refused

log = logging.getLogger(__name__)


class CertificateFiles:
    """A certificate with its chain, and its key. New connections use files that were replaced."""

    def __init__(self, certificate: Path, key: Path) -> None:
        """Load the files; raise `Refused` if they cannot be used."""
        self._certificate = certificate
        self._key = key
        self._lock = Lock()
        self._state = self._read_state()
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
            state = self._read_state()
            if state != self._state:
                self._state = state
                try:
                    self._active = self._load()
                except Refused as refused:
                    log.error("the old certificate stays in use: %s", refused)  # noqa: TRY400
                else:
                    log.info("the console uses the new certificate in %s", self._certificate)
            connection.context = self._active

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
