"""Certificates of the embedded server: its own CA, a serving certificate for loopback, and a client certificate.

The client certificate is that of the administrator. All are stored in a directory and reused until shortly before they
expire, so that a kubeconfig stays valid across restarts.
"""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID
from msgspec import Struct

from kcm.runtime.process.files import write_private
from kcm.runtime.signing.tokens import KeyUnusableError, SigningKey, read_signing_key
from kcm.runtime.x509.certificates import (
    AUTHORITY_LIFE,
    LEAF_LIFE,
    RENEW_BEFORE,
    certificate_builder,
    key_pem,
    key_usage,
    new_key,
    subject_name,
)

ADMIN = "kubernetes-admin"
ADMIN_GROUP = "system:masters"


class KeyPair(Struct, frozen=True):
    """PEM files of a certificate and its private key. The key file has mode 0600."""

    certificate: Path
    key: Path


class Certificates(Struct, frozen=True, kw_only=True):
    """Files of the CA, and of the certificates that it has signed."""

    authority: KeyPair
    serving: KeyPair  # for the server's TLS connections
    admin: KeyPair  # client certificate of the administrator


def ensure_certificates(directory: Path, *, now: float) -> Certificates:
    """Return the certificates in a directory, after creating or renewing some if necessary.

    A certificate is created again if it is missing or invalid, if another CA has signed it, or if it expires within
    RENEW_BEFORE.

    now: current time in Unix seconds

    Raises OSError if the directory cannot be written.
    """
    at = datetime.fromtimestamp(now, UTC)
    found = Certificates(
        authority=_pair(directory, "ca"), serving=_pair(directory, "server"), admin=_pair(directory, "admin")
    )
    authority = _load(found.authority)
    if authority is None or not _is_valid(authority, issuer=authority.certificate, at=at):
        authority = _make_authority(at)
        _save(authority, found.authority)
    for pair, make in ((found.serving, _make_serving), (found.admin, _make_admin)):
        identity = _load(pair)
        if identity is None or not _is_valid(identity, issuer=authority.certificate, at=at):
            _save(make(authority, at), pair)
    return found


def ensure_account_key(path: Path) -> SigningKey:
    """Return the key in a file, which signs service account tokens. Creates a key if the file is missing or invalid.

    Tokens signed with an earlier key become invalid. Raises OSError if the file cannot be written.
    """
    try:
        return read_signing_key(str(path))
    except KeyUnusableError:
        key = new_key()
        write_private(path, key_pem(key))
        return SigningKey(key)


class _Identity(Struct, frozen=True):
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def _pair(directory: Path, name: str) -> KeyPair:
    return KeyPair(directory / f"{name}.crt", directory / f"{name}.key")


def _load(pair: KeyPair) -> _Identity | None:
    """Read a certificate and its key; return None if a file is missing or invalid."""
    try:
        certificate = x509.load_pem_x509_certificate(pair.certificate.read_bytes())
        key = serialization.load_pem_private_key(pair.key.read_bytes(), password=None)
    except (OSError, ValueError, TypeError):
        return None
    return _Identity(certificate, key) if isinstance(key, ec.EllipticCurvePrivateKey) else None


def _save(identity: _Identity, pair: KeyPair) -> None:
    write_private(pair.key, key_pem(identity.key))
    write_private(pair.certificate, identity.certificate.public_bytes(serialization.Encoding.PEM))


def _is_valid(identity: _Identity, *, issuer: x509.Certificate, at: datetime) -> bool:
    certificate = identity.certificate
    if not certificate.not_valid_before_utc <= at < certificate.not_valid_after_utc - RENEW_BEFORE:
        return False
    if certificate.public_key() != identity.key.public_key():
        return False
    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _make_authority(at: datetime) -> _Identity:
    key, name = new_key(), subject_name("kcm-embedded-ca")
    builder = (
        certificate_builder(name, name, key, at=at, life=AUTHORITY_LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(key_usage(signs_certificates=True, signs_revocations=True), critical=True)
    )
    return _Identity(builder.sign(key, hashes.SHA256()), key)


def _make_serving(authority: _Identity, at: datetime) -> _Identity:
    names = [
        x509.DNSName("localhost"),
        x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
        x509.IPAddress(ipaddress.ip_address("::1")),
        *(x509.DNSName(f"kubernetes{suffix}") for suffix in ("", ".default", ".default.svc")),
    ]
    subject, usage = subject_name("kube-apiserver"), ExtendedKeyUsageOID.SERVER_AUTH
    return _make_leaf(authority, at, subject, usage, x509.SubjectAlternativeName(names))


def _make_admin(authority: _Identity, at: datetime) -> _Identity:
    return _make_leaf(authority, at, subject_name(ADMIN, ADMIN_GROUP), ExtendedKeyUsageOID.CLIENT_AUTH)


def _make_leaf(
    authority: _Identity,
    at: datetime,
    subject: x509.Name,
    usage: x509.ObjectIdentifier,
    *extensions: x509.ExtensionType,
) -> _Identity:
    key = new_key()
    issuer = authority.certificate
    identifier = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    builder = (
        certificate_builder(subject, issuer.subject, key, at=at, life=LEAF_LIFE)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(key_usage(), critical=True)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier),
            critical=False,
        )
    )
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    return _Identity(builder.sign(authority.key, hashes.SHA256()), key)
