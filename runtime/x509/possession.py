"""Who asks for a pod's certificate has its key: a stub request that the key signed, or the pod's uid that it signed.

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


class Problem(NamedTuple):
    """field: of the spec. value: that is wrong; None where it is not shown."""

    field: str
    value: str | None
    text: str


def stub_problem(der: bytes) -> Problem | None:
    """What is wrong with spec.stubPKCS10Request."""
    field = "stubPKCS10Request"
    try:
        request = parse_der_request(der)
    except RequestError:
        return Problem(field, None, "must be a valid PKCS#10 CSR")
    wrong = _key_problem(field, request.public_key(), "elliptic public keys must use curve P256, P384, or P521")
    if wrong is not None:
        return wrong
    try:
        check_signature(request)
    except RequestError:
        return Problem(field, None, "invalid signature")
    return None


def proof_problem(der: bytes, shown: str, proof: bytes, pod_uid: str) -> Problem | None:
    """What is wrong with spec.pkixPublicKey and spec.proofOfPossession. shown: the key as it stands in the spec."""
    field = "pkixPublicKey"
    try:
        key = load_der_public_key(der)
    except (ValueError, UnsupportedAlgorithm):
        return Problem(field, shown, "must be a valid PKIX-serialized public key")
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
        return Problem("proofOfPossession", None, "could not verify proof-of-possession signature")
    return None


def _key_problem(field: str, key: object, of_curves: str) -> Problem | None:
    if isinstance(key, ec.EllipticCurvePublicKey):
        return None if key.curve.name in CURVES else Problem(field, f"curve {key.curve.name}", of_curves)
    if isinstance(key, rsa.RSAPublicKey):
        bits = (key.key_size + 7) // 8 * 8
        text = "RSA keys must have modulus size 3072 or 4096"
        return None if bits in MODULI else Problem(field, f"{bits}-bit modulus", text)
    return None if isinstance(key, ed25519.Ed25519PublicKey) else Problem(field, None, UNKNOWN)
