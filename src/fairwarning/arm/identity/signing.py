"""Certificates as such: how they are made, signed, written down and read.

This is the one module that needs `cryptography`, which takes long to import: import it late.
"""

import ipaddress
import secrets
from datetime import datetime, timedelta
from typing import NamedTuple, Self

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_LIFE = timedelta(days=3650)  # its clients are given it by hand: not often
SERVER_LIFE = timedelta(days=90)
SKEW = timedelta(hours=1)  # a client's clock may be behind ours by this


class KeyPair(NamedTuple):
    """A certificate and the private key that belongs to it."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def read(cls, certificate: bytes, key: bytes) -> Self | None:
        """What two texts say (or one with both in it), if they belong together."""
        try:
            known = x509.load_pem_x509_certificate(certificate)
            secret = load_pem_private_key(key, None)
            fits = known.public_key() == secret.public_key()
        except (ValueError, TypeError, UnsupportedAlgorithm):  # TypeError: it wants a password
            return None
        return (
            cls(known, secret) if fits and isinstance(secret, ec.EllipticCurvePrivateKey) else None
        )

    def written(self) -> bytes:
        """Both in one text; a file's mode is what protects it."""
        secret = self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return secret + self.certificate.public_bytes(Encoding.PEM)

    @property
    def begins(self) -> datetime:
        return self.certificate.not_valid_before_utc

    @property
    def ends(self) -> datetime:
        return self.certificate.not_valid_after_utc

    @property
    def due(self) -> datetime:
        """When a third of its life is left."""
        return self.ends - (self.ends - self.begins - SKEW) / 3

    @property
    def hosts(self) -> frozenset[str]:
        """Whom it is for; nobody, if it is not a server's."""
        try:
            found = self.certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        except (ValueError, x509.ExtensionNotFound):
            return frozenset()
        return frozenset(str(name.value) for name in found.value)

    def is_signed_by(self, authority: "KeyPair") -> bool:
        try:
            self.certificate.verify_directly_issued_by(authority.certificate)
        except (ValueError, TypeError, InvalidSignature):
            return False
        return True


def new_authority(now: datetime) -> KeyPair:
    """An authority that signs server certificates and no other authorities."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(f"Fairwarning authority {secrets.token_hex(4)}")
    draft = (
        _draft(key, now, now + AUTHORITY_LIFE)
        .subject_name(name)
        .issuer_name(name)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
    )
    return KeyPair(draft.sign(key, SHA256()), key)


def new_server(authority: KeyPair, hosts: frozenset[str], now: datetime) -> KeyPair:
    """A server certificate for these hosts; it ends no later than its authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    purpose = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    names = x509.SubjectAlternativeName([_alternative(host) for host in sorted(hosts)])
    draft = (
        _draft(key, now, min(now + SERVER_LIFE, authority.ends))
        .subject_name(_name("Fairwarning"))
        .issuer_name(authority.certificate.subject)
        .add_extension(issuer, critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(purpose, critical=False)
        .add_extension(names, critical=False)
    )
    return KeyPair(draft.sign(authority.key, SHA256()), key)


def _draft(
    key: ec.EllipticCurvePrivateKey, now: datetime, ends: datetime
) -> x509.CertificateBuilder:
    public = key.public_key()
    return (
        x509.CertificateBuilder()
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(ends)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    """Of an authority: to sign certificates and their revocation; of a server: its handshakes."""
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )
