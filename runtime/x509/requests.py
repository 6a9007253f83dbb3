"""Certificate signing requests (PKCS #10): parsing, and verification of their signature.

Source: kubernetes v1.36 pkg/apis/certificates/helpers.go, ParseCSR; Go's crypto/x509.
"""

from __future__ import annotations

import warnings

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import NameOID
from msgspec import Struct

from kcm.runtime.x509.pem import first_block

UNREADABLE = (ValueError, TypeError, x509.DuplicateExtension, x509.UnsupportedGeneralNameType, UnsupportedAlgorithm)
# RFC 5280 limits names to 64 characters; names of nodes may be longer, and Go has no limit.
warnings.filterwarnings("ignore", message="Attribute's length must be", category=UserWarning)
# Of Go's crypto/x509.
_WRONG_SIGNATURE = (
    (rsa.RSAPublicKey, "crypto/rsa: verification error"),
    (ec.EllipticCurvePublicKey, "x509: ECDSA verification failure"),
    (ed25519.Ed25519PublicKey, "x509: Ed25519 verification failure"),
)
UNKNOWN_ALGORITHM = "x509: cannot verify signature: algorithm unimplemented"


class RequestError(ValueError):
    """The request is malformed, or its signature is wrong."""


class RequestFacts(Struct, frozen=True, kw_only=True):
    """Names in a request, in its order. common_name: the last one, or ""."""

    common_name: str
    organizations: tuple[str, ...]
    dns_names: tuple[str, ...] = ()
    email_addresses: tuple[str, ...] = ()
    ip_addresses: tuple[str, ...] = ()
    uris: tuple[str, ...] = ()


def parse_request(pem: bytes) -> x509.CertificateSigningRequest:
    """Parse the request in the first PEM block. Raises RequestError."""
    block = first_block(pem)
    if block is None or block.type != "CERTIFICATE REQUEST":
        raise RequestError("PEM block type must be CERTIFICATE REQUEST")
    return parse_der_request(block.data)


def parse_der_request(der: bytes) -> x509.CertificateSigningRequest:
    """Parse a request in DER. Raises RequestError."""
    try:
        request = x509.load_der_x509_csr(der)
        request.public_key()
        alternative_names(request)
        _ = request.subject
    except UNREADABLE as err:
        raise RequestError(f"asn1: structure error: {err}") from err
    return request


def facts_of(request: x509.CertificateSigningRequest) -> RequestFacts:
    names = alternative_names(request)
    return RequestFacts(
        common_name=["", *_values(request, NameOID.COMMON_NAME)][-1],
        organizations=tuple(_values(request, NameOID.ORGANIZATION_NAME)),
        dns_names=tuple(name.value for name in names if isinstance(name, x509.DNSName)),
        email_addresses=tuple(name.value for name in names if isinstance(name, x509.RFC822Name)),
        ip_addresses=tuple(str(name.value) for name in names if isinstance(name, x509.IPAddress)),
        uris=tuple(name.value for name in names if isinstance(name, x509.UniformResourceIdentifier)),
    )


def alternative_names(request: x509.CertificateSigningRequest) -> list[x509.GeneralName]:
    """Return the names in the request's subjectAltName extension."""
    try:
        return list(request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except x509.ExtensionNotFound:
        return []


def check_signature(request: x509.CertificateSigningRequest) -> None:
    """Raise RequestError unless the request is signed with its own key."""
    key = request.public_key()
    wrong = next((text for kind, text in _WRONG_SIGNATURE if isinstance(key, kind)), "")
    try:
        is_right = bool(wrong) and request.is_signature_valid
    except (UnsupportedAlgorithm, InvalidSignature, ValueError, TypeError):
        wrong = is_right = False  # type: ignore[assignment]
    if not is_right:
        raise RequestError(wrong or UNKNOWN_ALGORITHM)


def certificate_problem(der: bytes) -> str:
    """Return why a certificate is malformed; "" if it is valid."""
    try:
        x509.load_der_x509_certificate(der)
    except UNREADABLE:
        return "x509: malformed certificate"
    return ""


def _values(request: x509.CertificateSigningRequest, oid: x509.ObjectIdentifier) -> list[str]:
    return [str(attribute.value) for attribute in request.subject.get_attributes_for_oid(oid)]
