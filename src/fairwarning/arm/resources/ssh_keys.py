"""Key pairs for SSH. `cryptography` is slow to import: import this module lazily."""

from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric import ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

_RSA_BITS = 3072
_PUBLIC_EXPONENT = 65_537


@dataclass(frozen=True)
class SshKeyPair:
    """A key pair as OpenSSH reads it."""

    public: str
    private: str


def generate(kind: str) -> SshKeyPair:
    """Return a new key pair of the type "RSA" or "Ed25519"."""
    key: rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey
    if kind == "RSA":
        key = rsa.generate_private_key(_PUBLIC_EXPONENT, _RSA_BITS)
        form = PrivateFormat.TraditionalOpenSSL
    else:
        key = ed25519.Ed25519PrivateKey.generate()
        form = PrivateFormat.OpenSSH
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    private = key.private_bytes(Encoding.PEM, form, NoEncryption())
    return SshKeyPair(f"{public.decode()} generated-by-fairwarning", private.decode())
