"""Certificates for a control plane on 127.0.0.1: an authority, its server and its administrator."""

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_DAY = timedelta(days=1)


def write_certificates(folder: Path) -> None:
    """Write ca.crt, server.crt, admin.crt, the keys of the last two, and sa.key with sa.pub."""
    authority = _key()
    issuer = _name("authority")
    ca = _certificate(issuer, issuer, authority, authority, None)
    _write(folder, "ca", ca, None)
    for name, subject, usage in (
        ("server", _name("kube-apiserver"), ExtendedKeyUsageOID.SERVER_AUTH),
        ("admin", _name("admin", "system:masters"), ExtendedKeyUsageOID.CLIENT_AUTH),
    ):
        key = _key()
        _write(folder, name, _certificate(subject, issuer, key, authority, usage), key)
    tokens = _key()
    _write(folder, "sa", None, tokens)
    public = tokens.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    (folder / "sa.pub").write_bytes(public)


def _key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _name(name: str, group: str = "") -> x509.Name:
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
    if group:
        parts.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, group))
    return x509.Name(parts)


def _certificate(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    authority: ec.EllipticCurvePrivateKey,
    usage: x509.ObjectIdentifier | None,
) -> x509.Certificate:
    """Return a certificate; without a usage, that of the authority itself."""
    now = datetime.now(UTC)
    loopback = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)
        .not_valid_after(now + _DAY)
        .add_extension(x509.BasicConstraints(ca=usage is None, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key()),
            critical=False,
        )
        .add_extension(_key_usage(is_authority=usage is None), critical=True)
    )
    if usage is not None:
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        builder = builder.add_extension(x509.SubjectAlternativeName([loopback]), critical=False)
    return builder.sign(authority, hashes.SHA256())


def _key_usage(*, is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_authority,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


def _write(
    folder: Path,
    name: str,
    certificate: x509.Certificate | None,
    key: ec.EllipticCurvePrivateKey | None,
) -> None:
    if certificate is not None:
        (folder / f"{name}.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    if key is not None:
        (folder / f"{name}.key").write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.TraditionalOpenSSL,
                serialization.NoEncryption(),
            )
        )
