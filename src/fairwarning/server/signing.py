"""X.509 certificates: creating, signing, encoding and parsing them.

It needs `cryptography`, which is slow to import: import this module lazily.
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

AUTHORITY_LIFETIME = timedelta(days=3650)  # long: clients install the authority by hand
SERVER_LIFETIME = timedelta(days=90)
SKEW = timedelta(hours=1)  # how far a client's clock may be behind ours


class KeyPair(NamedTuple):
    """A certificate and its private key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def parse(cls, certificate: bytes, key: bytes) -> Self | None:
        """Parse a PEM certificate and a PEM key; return None unless they match.

        Both arguments may be the same text with both in it.
        """
        try:
            parsed = x509.load_pem_x509_certificate(certificate)
            private = load_pem_private_key(key, None)
            matches = parsed.public_key() == private.public_key()
        except (ValueError, TypeError, UnsupportedAlgorithm):  # TypeError: the key is encrypted
            return None
        if not matches or not isinstance(private, ec.EllipticCurvePrivateKey):
            return None
        return cls(parsed, private)

    def to_pem(self) -> bytes:
        """Return key and certificate as PEM, unencrypted; the file mode has to protect it."""
        private = self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return private + self.certificate.public_bytes(Encoding.PEM)

    @property
    def not_before(self) -> datetime:
        return self.certificate.not_valid_before_utc

    @property
    def not_after(self) -> datetime:
        return self.certificate.not_valid_after_utc

    @property
    def renew_at(self) -> datetime:
        """The time when a third of the lifetime is left."""
        return self.not_after - (self.not_after - self.not_before - SKEW) / 3

    @property
    def hosts(self) -> frozenset[str]:
        """The hosts of a server certificate; empty for another certificate."""
        try:
            names = self.certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        except (ValueError, x509.ExtensionNotFound):
            return frozenset()
        return frozenset(str(name.value) for name in names.value)

    def is_signed_by(self, authority: "KeyPair") -> bool:
        try:
            self.certificate.verify_directly_issued_by(authority.certificate)
        except (ValueError, TypeError, InvalidSignature):
            return False
        return True


def new_authority(now: datetime) -> KeyPair:
    """Create an authority that may sign server certificates and no other authorities."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(f"Fairwarning authority {secrets.token_hex(4)}")
    builder = (
        _builder(key, now, now + AUTHORITY_LIFETIME)
        .subject_name(name)
        .issuer_name(name)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
    )
    return KeyPair(builder.sign(key, SHA256()), key)


def new_server(authority: KeyPair, hosts: frozenset[str], now: datetime) -> KeyPair:
    """Create a server certificate for these hosts; it expires no later than its authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    purpose = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    names = x509.SubjectAlternativeName([_alternative(host) for host in sorted(hosts)])
    builder = (
        _builder(key, now, min(now + SERVER_LIFETIME, authority.not_after))
        .subject_name(_name("Fairwarning"))
        .issuer_name(authority.certificate.subject)
        .add_extension(issuer, critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(purpose, critical=False)
        .add_extension(names, critical=False)
    )
    return KeyPair(builder.sign(authority.key, SHA256()), key)


def _builder(
    key: ec.EllipticCurvePrivateKey, now: datetime, not_after: datetime
) -> x509.CertificateBuilder:
    public = key.public_key()
    return (
        x509.CertificateBuilder()
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(not_after)
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
    """Return the key usage: an authority signs certificates and CRLs, a server handshakes."""
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
