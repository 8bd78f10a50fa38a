"""Certificates for a control plane on 127.0.0.1: an authority, its server and its administrator."""

from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import ExtendedKeyUsageOID

from tests.fixtures.certificates import certificate, key_pem, named, new_key


def write_certificates(folder: Path) -> None:
    """Write ca.crt, server.crt, admin.crt, the keys of the last two, and sa.key with sa.pub."""
    authority, issuer = new_key(), named("authority")
    (folder / "ca.crt").write_bytes(certificate(issuer, issuer, authority, authority))
    for name, subject, usage in (
        ("server", named("kube-apiserver"), ExtendedKeyUsageOID.SERVER_AUTH),
        ("admin", named("admin", "system:masters"), ExtendedKeyUsageOID.CLIENT_AUTH),
    ):
        key = new_key()
        signed = certificate(subject, issuer, key, authority, usage)
        (folder / f"{name}.crt").write_bytes(signed)
        (folder / f"{name}.key").write_bytes(key_pem(key))
    tokens = new_key()
    (folder / "sa.key").write_bytes(key_pem(tokens))
    public = tokens.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    (folder / "sa.pub").write_bytes(public)
