"""HTTP connections to the console of a service, over TLS if its URL says so.

Redirects are not followed, so a token never goes to another host than the user has named.
"""

import hashlib
import http.client
import ipaddress
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from urllib.parse import urlsplit

import click

from fairwarning.cli.connection.target import ConsoleAddress, RemoteService, ServiceTarget
from fairwarning.core.errors import FairwarningError, Refused, Unavailable

_PLAIN_ANSWERS = {"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST"}
_NAME_MISMATCH, _ADDRESS_MISMATCH = 62, 64  # OpenSSL's codes
_PROBE_SECONDS = 10.0


class NotTrusted(FairwarningError):
    """The service could not prove that it is the one that the user has named."""


@contextmanager
def response_to(
    service: ServiceTarget,
    address: ConsoleAddress,
    method: str,
    path: str,
    *,
    body: str | None = None,
    headers: Mapping[str, str] | None = None,
    seconds: float,
) -> Iterator[http.client.HTTPResponse]:
    """Send one request and yield the response; raise an error that says why there is none."""
    connection = _connection(address, seconds)
    bearer = {"Authorization": f"Bearer {address.token}"} if address.token else {}
    if bearer and isinstance(service, RemoteService):
        _warn_if_readable(address.url)
    try:
        connection.request(method, path, body, {**bearer, **(headers or {})})
        response = connection.getresponse()
        _refuse_redirect(address.url, response)
        yield response
    except ssl.SSLError as error:
        raise _tls_error(service, address, error) from error
    except TimeoutError as error:
        text = f"no answer from the service at {address.url} within {seconds:g} s"
        raise Unavailable("NotUp", f"{text}; {service.next_step()}") from error
    except (OSError, ValueError, EOFError, http.client.HTTPException) as error:
        text = f"no answer from the service at {address.url} ({error}); {service.next_step()}"
        raise Unavailable("NotUp", text) from error
    finally:
        connection.close()


def _connection(address: ConsoleAddress, seconds: float) -> http.client.HTTPConnection:
    url = urlsplit(address.url)
    host = url.hostname or ""
    if url.scheme == "http":
        return http.client.HTTPConnection(host, url.port, timeout=seconds)
    context = _tls_context(address.ca, pinned=address.pinned)
    return http.client.HTTPSConnection(host, url.port, timeout=seconds, context=context)


@cache
def _tls_context(ca: str, *, pinned: bool) -> ssl.SSLContext:
    """Return a context that trusts the CA, or else the system's; only itself if it is pinned."""
    try:
        context = ssl.create_default_context(cadata=ca or None)
    except ssl.SSLError as error:
        text = f"the certificates to trust cannot be used: {error.reason or error}"
        raise Refused("BadCertificateFile", f"{text}; give others with --ca FILE") from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if pinned:
        context.check_hostname = False
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


@cache  # once for each service
def _warn_if_readable(url: str) -> None:
    """Warn about a token that others on the network can read."""
    parts = urlsplit(url)
    if parts.scheme == "http" and not _is_loopback(parts.hostname or ""):
        text = f"the token is sent unencrypted to {parts.hostname}, and others on the network can"
        click.echo(f"Warning: {text} read it; use https (see docs/remote.md)", err=True)


def _is_loopback(host: str) -> bool:
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def _refuse_redirect(url: str, response: http.client.HTTPResponse) -> None:
    if response.status in range(300, 400):
        place = response.getheader("Location") or "nowhere"
        text = (
            f"{url} redirects to {place}, and commands follow no redirect, because they would send"
            " the token there; give the URL of the console itself"
        )
        raise NotTrusted("Redirected", text)


# --- TLS errors -----------------------------------------------------------------------------------


def _tls_error(
    service: ServiceTarget, address: ConsoleAddress, error: ssl.SSLError
) -> FairwarningError:
    if not isinstance(error, ssl.SSLCertVerificationError):
        if error.reason in _PLAIN_ANSWERS:
            text = f"the service at {address.url} does not use TLS; use http:// if you trust the"
            return NotTrusted("NoTls", f"{text} network, or start it with TLS (docs/remote.md)")
        text = f"no TLS connection to {address.url} ({error}); {service.next_step()}"
        return Unavailable("NotUp", text)
    which = _describe_certificate(address.url)
    if error.verify_code in {_NAME_MISMATCH, _ADDRESS_MISMATCH}:
        fix = "use one of its names in the URL, or add this one to [console] hosts of the service"
    elif address.pinned:
        fix = "replace the file that [console] certificate of the service names"
    elif address.ca:
        fix = "it is not from the CA that you trust: get the service's ca.pem again, for --ca FILE"
    else:
        fix = "if it is the right one, copy ca.pem from the service's data folder: --ca ca.pem"
    why = error.verify_message.rstrip(".")
    text = f"the certificate of {address.url} is not valid here: {why}. {which}; {fix}"
    return NotTrusted("BadCertificate", text)


def _describe_certificate(url: str) -> str:
    """Return the names, the issuer and the fingerprint of the certificate at a URL."""
    from cryptography import x509  # noqa: PLC0415  (only for this error)

    parts = urlsplit(url)
    place = parts.hostname or "", parts.port or http.client.HTTPS_PORT
    try:
        pem = ssl.get_server_certificate(place, timeout=_PROBE_SECONDS)
        certificate = x509.load_pem_x509_certificate(pem.encode())
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        shown = ", ".join(str(name.value) for name in names)
    except (OSError, ValueError, x509.ExtensionNotFound):
        return "It cannot be described"
    digest = hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem)).hexdigest()
    issuer = certificate.issuer.rfc4514_string()
    return f"It is for {shown}, issued by {issuer}, with the SHA-256 fingerprint {digest}"
