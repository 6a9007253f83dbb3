"""The embedded server's certificates: an authority of its own, a serving certificate for loopback, the admin's.

They are kept in a directory and reused while they are valid, so that a kubeconfig stays valid across restarts.
Keys are P-256: a TLS handshake with them costs a tenth of one with RSA 2048.
"""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kcm.protocols.late_methods import dataclass
from kcm.runtime.process.files import write_private
from kcm.runtime.signing.tokens import KeyUnusableError, SigningKey, read_signing_key

AUTHORITY_LIFE = timedelta(days=3650)
LEAF_LIFE = timedelta(days=365)
RENEW_BEFORE = timedelta(days=30)
# A certificate made by a machine whose clock is a little ahead must not be "not yet valid" a second later.
BACKDATE = timedelta(hours=1)

ADMIN = "kubernetes-admin"
ADMIN_GROUP = "system:masters"


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its key, PEM files; the key's has mode 0600."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificates:
    """authority: the CA's own pair, which signed the other two."""

    authority: KeyPair
    serving: KeyPair
    admin: KeyPair


def ensure_certificates(directory: Path, *, now: float) -> Certificates:
    """Returns the certificates in the directory; creates or renews those that are missing, broken, of another authority
    or within RENEW_BEFORE of their end.

    now: Unix seconds. Raises OSError when the directory cannot be written.
    """
    at = datetime.fromtimestamp(now, UTC)
    found = Certificates(
        authority=_pair(directory, "ca"), serving=_pair(directory, "server"), admin=_pair(directory, "admin")
    )
    authority = _load(found.authority)
    if authority is None or not _is_good(authority, issuer=authority.certificate, at=at):
        authority = _make_authority(at)
        _save(authority, found.authority)
    for pair, make in ((found.serving, _make_serving), (found.admin, _make_admin)):
        held = _load(pair)
        if held is None or not _is_good(held, issuer=authority.certificate, at=at):
            _save(make(authority, at), pair)
    return found


def ensure_account_key(path: Path) -> SigningKey:
    """The key that signs tokens of service accounts; created on first use, or where the file holds none.

    Tokens that another key has signed are good no more. Raises OSError when the file cannot be written.
    """
    try:
        return read_signing_key(str(path))
    except KeyUnusableError:
        key = ec.generate_private_key(ec.SECP256R1())
        pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        write_private(path, key.private_bytes(pem, form, serialization.NoEncryption()))
        return SigningKey(key)


@dataclass(frozen=True, slots=True)
class _Identity:
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def _pair(directory: Path, name: str) -> KeyPair:
    return KeyPair(directory / f"{name}.crt", directory / f"{name}.key")


def _load(pair: KeyPair) -> _Identity | None:
    """Returns None if the files are missing, or are no certificate and key."""
    try:
        certificate = x509.load_pem_x509_certificate(pair.certificate.read_bytes())
        key = serialization.load_pem_private_key(pair.key.read_bytes(), password=None)
    except (OSError, ValueError, TypeError):
        return None
    return _Identity(certificate, key) if isinstance(key, ec.EllipticCurvePrivateKey) else None


def _save(identity: _Identity, pair: KeyPair) -> None:
    pem = serialization.Encoding.PEM
    write_private(
        pair.key,
        identity.key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )
    write_private(pair.certificate, identity.certificate.public_bytes(pem))


def _is_good(identity: _Identity, *, issuer: x509.Certificate, at: datetime) -> bool:
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
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("kcm-embedded-ca")
    builder = (
        _builder(name, name, key, at, AUTHORITY_LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return _Identity(builder.sign(key, hashes.SHA256()), key)


def _make_serving(authority: _Identity, at: datetime) -> _Identity:
    names = [
        x509.DNSName("localhost"),
        x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
        x509.IPAddress(ipaddress.ip_address("::1")),
        *(x509.DNSName(f"kubernetes{suffix}") for suffix in ("", ".default", ".default.svc")),
    ]
    return _make_leaf(
        authority, at, _name("kube-apiserver"), ExtendedKeyUsageOID.SERVER_AUTH, x509.SubjectAlternativeName(names)
    )


def _make_admin(authority: _Identity, at: datetime) -> _Identity:
    return _make_leaf(authority, at, _name(ADMIN, ADMIN_GROUP), ExtendedKeyUsageOID.CLIENT_AUTH)


def _make_leaf(
    authority: _Identity,
    at: datetime,
    subject: x509.Name,
    usage: x509.ObjectIdentifier,
    *extensions: x509.ExtensionType,
) -> _Identity:
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = authority.certificate
    identifier = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    builder = (
        _builder(subject, issuer.subject, key, at, LEAF_LIFE)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier),
            critical=False,
        )
    )
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    return _Identity(builder.sign(authority.key, hashes.SHA256()), key)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, at: datetime, life: timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(at - BACKDATE)
        .not_valid_after(at + life)
    )


def _name(common_name: str, organization: str = "") -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    if organization:
        attributes.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    return x509.Name(attributes)


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )
