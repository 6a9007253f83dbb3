"""Proof of possession of the key for a pod's certificate: a signed stub request, or the signed uid of the pod.

Source: kubernetes v1.36 pkg/apis/certificates/validation/validation.go, validateStubPKCS10Request,
validateDeprecatedPKIXPublicKey.
"""

from __future__ import annotations

from typing import NamedTuple

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.serialization import load_der_public_key

from kcm.runtime.x509.requests import RequestError, check_signature, parse_der_request

CURVES = ("secp256r1", "secp384r1", "secp521r1")
MODULI = (3072, 4096)  # bits
UNKNOWN = "unknown public key type; supported types are Ed25519, ECDSA, and RSA"


class FieldProblem(NamedTuple):
    """An invalid field of the spec."""

    field: str
    # The invalid value; None if it is not shown.
    value: str | None
    text: str


def stub_problem(der: bytes) -> FieldProblem | None:
    """Return the problem of spec.stubPKCS10Request; None if it is valid."""
    field = "stubPKCS10Request"
    try:
        request = parse_der_request(der)
    except RequestError:
        return FieldProblem(field, None, "must be a valid PKCS#10 CSR")
    wrong = _key_problem(field, request.public_key(), "elliptic public keys must use curve P256, P384, or P521")
    if wrong is not None:
        return wrong
    try:
        check_signature(request)
    except RequestError:
        return FieldProblem(field, None, "invalid signature")
    return None


def proof_problem(der: bytes, shown: str, proof: bytes, pod_uid: str) -> FieldProblem | None:
    """Return the problem of spec.pkixPublicKey or spec.proofOfPossession. shown: the key as in the spec."""
    field = "pkixPublicKey"
    try:
        key = load_der_public_key(der)
    except (ValueError, UnsupportedAlgorithm):
        return FieldProblem(field, shown, "must be a valid PKIX-serialized public key")
    wrong = _key_problem(field, key, "elliptic public keys must use curve P256 or P384")
    if wrong is not None:
        return wrong if wrong.value is not None else wrong._replace(value=shown)
    uid = pod_uid.encode()
    try:
        if isinstance(key, ed25519.Ed25519PublicKey):
            key.verify(proof, uid)
        elif isinstance(key, ec.EllipticCurvePublicKey):
            key.verify(proof, uid, ec.ECDSA(hashes.SHA256()))
        elif isinstance(key, rsa.RSAPublicKey):
            pss = padding.PSS(padding.MGF1(hashes.SHA256()), padding.PSS.AUTO)
            key.verify(proof, uid, pss, hashes.SHA256())
    except InvalidSignature:
        return FieldProblem("proofOfPossession", None, "could not verify proof-of-possession signature")
    return None


def _key_problem(field: str, key: object, of_curves: str) -> FieldProblem | None:
    if isinstance(key, ec.EllipticCurvePublicKey):
        return None if key.curve.name in CURVES else FieldProblem(field, f"curve {key.curve.name}", of_curves)
    if isinstance(key, rsa.RSAPublicKey):
        bits = (key.key_size + 7) // 8 * 8
        text = "RSA keys must have modulus size 3072 or 4096"
        return None if bits in MODULI else FieldProblem(field, f"{bits}-bit modulus", text)
    return None if isinstance(key, ed25519.Ed25519PublicKey) else FieldProblem(field, None, UNKNOWN)
