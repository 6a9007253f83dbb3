"""Certificates that kcm issues for itself: lifetimes, keys, and common extensions.

Certificates for signing requests of a cluster follow upstream's rules instead: see authority.py.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

AUTHORITY_LIFE = timedelta(days=3650)
LEAF_LIFE = timedelta(days=365)
RENEW_BEFORE = timedelta(days=30)
# If this machine's clock is ahead, clients must not reject a new certificate as "not yet valid".
BACKDATE = timedelta(hours=1)


def new_key() -> ec.EllipticCurvePrivateKey:
    """Create a P-256 key: a TLS handshake with it costs a tenth of one with RSA 2048."""
    return ec.generate_private_key(ec.SECP256R1())


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return an unencrypted private key in PEM."""
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def subject_name(common_name: str, organization: str = "") -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    if organization:
        attributes.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    return x509.Name(attributes)


def certificate_builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, *, at: datetime, life: timedelta
) -> x509.CertificateBuilder:
    """Return a builder for a certificate, to which extensions can be added. at: the present time."""
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(at - BACKDATE)
        .not_valid_after(at + life)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def key_usage(*, signs_certificates: bool = False, signs_revocations: bool = False) -> x509.KeyUsage:
    """Return the key usage extension for TLS, and optionally for an authority's signatures."""
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_revocations,
        encipher_only=False,
        decipher_only=False,
    )
