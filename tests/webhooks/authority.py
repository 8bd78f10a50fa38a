"""A certificate authority for tests, and a server certificate that it signs."""

import ssl
from pathlib import Path

from cryptography.x509.oid import ExtendedKeyUsageOID

from tests.fixtures.certificates import certificate, key_pem, named, new_key


def authority(folder: Path, host: str, days: int = 1) -> tuple[Path, ssl.SSLContext]:
    """Return the authority's certificate file, and the TLS context of a server at this host.

    With a negative number of days, the server's certificate has expired.
    """
    key, server_key, issuer = new_key(), new_key(), named("A test")
    file, chain = folder / "authority.pem", folder / "server.pem"
    file.write_bytes(certificate(issuer, issuer, key, key))
    signed = certificate(
        named("A receiver"),
        issuer,
        server_key,
        key,
        ExtendedKeyUsageOID.SERVER_AUTH,
        host=host,
        days=days,
    )
    chain.write_bytes(key_pem(server_key) + signed)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)
    return file, context
