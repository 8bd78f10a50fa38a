"""A certificate authority for tests, and a server certificate that it signs."""

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAY = timedelta(days=1)

_SIGNS_CERTIFICATES = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=False,
    encipher_only=False,
    decipher_only=False,
)


def authority(folder: Path, host: str, days: int = 1) -> tuple[Path, ssl.SSLContext]:
    """Return the authority's certificate file, and the TLS context of a server at this host.

    With a negative number of days, the server's certificate has expired.
    """
    key, server_key = (
        ec.generate_private_key(ec.SECP256R1()),
        ec.generate_private_key(ec.SECP256R1()),
    )
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "A test")])
    now = datetime.now(UTC)
    root = (
        _builder(name, name, key.public_key(), now - 9 * _DAY, now + 9 * _DAY)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(_SIGNS_CERTIFICATES, critical=True)
        .sign(key, hashes.SHA256())
    )
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "A receiver")])
    try:
        alternative: x509.GeneralName = x509.IPAddress(ip_address(host))
    except ValueError:
        alternative = x509.DNSName(host)
    # Clients of Python 3.13 and newer want the identifiers of the keys, and their use.
    issued_by = x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())
    leaf = (
        _builder(subject, name, server_key.public_key(), now - 8 * _DAY, now + days * _DAY)
        .add_extension(x509.SubjectAlternativeName([alternative]), critical=False)
        .add_extension(issued_by, critical=False)
        .sign(key, hashes.SHA256())
    )
    file, chain = folder / "authority.pem", folder / "server.pem"
    file.write_bytes(root.public_bytes(serialization.Encoding.PEM))
    chain.write_bytes(
        server_key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + leaf.public_bytes(serialization.Encoding.PEM)
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)
    return file, context


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    not_before: datetime,
    not_after: datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(not_before)
        .not_valid_after(not_after)
    )
