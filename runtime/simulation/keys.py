"""Deterministic keys, certificate requests and CAs for simulations.

Private keys are derived from names, and Ed25519 signatures are deterministic, so all bytes are equal in every run.
cryptography is imported only when a key is needed.
"""

from __future__ import annotations

import hashlib
import ipaddress
import tempfile
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


class PemKeyPair(NamedTuple):
    """Certificate and private key in PEM."""

    certificate: bytes
    key: bytes


def private_key(name: str) -> Ed25519PrivateKey:
    """Return the Ed25519 private key that is derived from a name."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(hashlib.sha256(name.encode()).digest())


def request_pem(
    common_name: str,
    *organizations: str,
    dns_names: Iterable[str] = (),
    ip_addresses: Iterable[str] = (),
    email_addresses: Iterable[str] = (),
    uris: Iterable[str] = (),
) -> bytes:
    """Return a PKCS #10 certificate request in PEM, signed with the key that is derived from its common name."""
    from cryptography.hazmat.primitives.serialization import Encoding

    names = {"dns_names": dns_names, "ip_addresses": ip_addresses, "email_addresses": email_addresses, "uris": uris}
    return _request(common_name, *organizations, **names).public_bytes(Encoding.PEM)


def request_der(common_name: str, *organizations: str) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return _request(common_name, *organizations).public_bytes(Encoding.DER)


def _request(
    common_name: str,
    *organizations: str,
    dns_names: Iterable[str] = (),
    ip_addresses: Iterable[str] = (),
    email_addresses: Iterable[str] = (),
    uris: Iterable[str] = (),
) -> x509.CertificateSigningRequest:
    from cryptography import x509

    names: list[x509.GeneralName] = [
        *map(x509.DNSName, dns_names),
        *(x509.IPAddress(ipaddress.ip_address(address)) for address in ip_addresses),
        *map(x509.RFC822Name, email_addresses),
        *map(x509.UniformResourceIdentifier, uris),
    ]
    builder = x509.CertificateSigningRequestBuilder().subject_name(_name(common_name, *organizations))
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(private_key(common_name), None)


def authority_pair(name: str, *, begin: float, end: float) -> PemKeyPair:
    """Return a self-signed CA certificate and its key. begin, end: bounds of its validity, in Unix seconds."""
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = private_key(name)
    made = (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(_name(name))
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(datetime.fromtimestamp(begin, UTC))
        .not_valid_after(datetime.fromtimestamp(end, UTC))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, None)
    )
    return PemKeyPair(
        made.public_bytes(Encoding.PEM), key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    )


@cache
def _directory() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="kcm-simulated-keys-")


class AuthorityFiles:
    """Key pair of a CA in temporary files, which exist until the process ends.

    certificate, key: paths of the files
    """

    def __init__(self, name: str, pair: PemKeyPair) -> None:
        directory = Path(_directory().name)
        self._certificate, self._key = directory / f"{name}.crt", directory / f"{name}.key"
        self.certificate, self.key = str(self._certificate), str(self._key)
        self.write(pair)

    def write(self, pair: PemKeyPair) -> None:
        self.write_certificate(pair)
        self._key.write_bytes(pair.key)

    def read(self) -> PemKeyPair:
        """Return the content of both files. They do not match between write_certificate and the write of the key."""
        return PemKeyPair(self._certificate.read_bytes(), self._key.read_bytes())

    def write_certificate(self, pair: PemKeyPair) -> None:
        """Replace only the certificate, to simulate a replacement of both files that is not complete yet."""
        self._certificate.write_bytes(pair.certificate)


def _name(common_name: str, *organizations: str) -> x509.Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization) for organization in organizations]
    if common_name:
        parts.append(x509.NameAttribute(NameOID.COMMON_NAME, common_name))
    return x509.Name(parts)
