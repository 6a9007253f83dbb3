"""JSON Web Tokens of service accounts, signed like those of kube-apiserver and kube-controller-manager.

Implements only the necessary parts of RFC 7515 and 7518: the compact form, RS256, and ES256, ES384 or ES512 by the
key's curve. ECDSA signatures are deterministic (RFC 6979), so that equal claims have equal tokens, and no source of
randomness is required.

Source: kubernetes v1.36 pkg/serviceaccount/jwt.go, client-go/util/keyutil/key.go.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from kcm.runtime.x509.pem import Block, blocks

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey

_PRIVATE = frozenset({"EC PRIVATE KEY", "RSA PRIVATE KEY", "PRIVATE KEY"})
_PUBLIC = frozenset({"PUBLIC KEY", "RSA PUBLIC KEY"})
_OF_CURVE = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}


class KeyUnusableError(Exception):
    """A file contains no usable signing key. One line that names the file."""


class VerifyingKey:
    """Public key that verifies tokens."""

    def __init__(self, key: RSAPublicKey | EllipticCurvePublicKey) -> None:
        """Raise KeyUnusableError for an unsupported curve."""
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

        self._rsa = key if isinstance(key, RSAPublicKey) else None
        self._ec = None if isinstance(key, RSAPublicKey) else key
        self.algorithm = "RS256"
        if self._ec is not None:
            if self._ec.curve.name not in _OF_CURVE:
                raise KeyUnusableError("unknown private key curve, must be 256, 384, or 521")
            self.algorithm = _OF_CURVE[self._ec.curve.name]

    @cached_property
    def key_id(self) -> str:
        """Return a digest of the public key, which reveals nothing of the private key."""
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        public = self._rsa if self._rsa is not None else self._curve_key
        return _encoded(hashlib.sha256(public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).digest())

    def public_jwk(self) -> dict[str, str]:
        """Return the public key as a JSON Web Key (RFC 7517)."""
        head = {"use": "sig", "kid": self.key_id, "alg": self.algorithm}
        if self._rsa is not None:
            rsa = self._rsa.public_numbers()
            size = (self._rsa.key_size + 7) // 8
            return {**head, "kty": "RSA", "n": _encoded(rsa.n.to_bytes(size, "big")), "e": _encoded(_shortest(rsa.e))}
        point, size = self._curve_key.public_numbers(), self._coordinate
        x, y = (_encoded(number.to_bytes(size, "big")) for number in (point.x, point.y))
        return {**head, "kty": "EC", "crv": f"P-{self._curve_key.key_size}", "x": x, "y": y}

    def claims_of(self, token: str) -> dict[str, Any] | None:
        """Return the claims of a token, or None if this key has not signed it."""
        head, _, rest = token.partition(".")
        body, _, signature = rest.partition(".")
        try:
            if orjson.loads(_decoded(head)).get("alg") != self.algorithm:
                return None
            if not self._is_ours(f"{head}.{body}".encode(), _decoded(signature)):
                return None
            claims = orjson.loads(_decoded(body))
        except (ValueError, AttributeError, binascii.Error):
            return None
        return claims if isinstance(claims, dict) else None

    @property
    def _curve_key(self) -> EllipticCurvePublicKey:
        assert self._ec is not None
        return self._ec

    def _is_ours(self, content: bytes, signature: bytes) -> bool:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric import ec, padding
        from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
        from cryptography.hazmat.primitives.hashes import SHA256

        try:
            if self._rsa is not None:
                self._rsa.verify(signature, content, padding.PKCS1v15(), SHA256())
                return True
            size = self._coordinate
            if len(signature) != 2 * size:
                return False
            r, s = (int.from_bytes(part, "big") for part in (signature[:size], signature[size:]))
            self._curve_key.verify(encode_dss_signature(r, s), content, ec.ECDSA(self._hash()))
        except InvalidSignature:
            return False
        return True

    @property
    def _coordinate(self) -> int:
        """Return the number of bytes of each half of a signature."""
        return (self._curve_key.key_size + 7) // 8

    def _hash(self) -> Any:
        from cryptography.hazmat.primitives import hashes

        hashing: dict[str, Callable[[], hashes.HashAlgorithm]] = {
            "ES256": hashes.SHA256,
            "ES384": hashes.SHA384,
            "ES512": hashes.SHA512,
        }
        return hashing[self.algorithm]()


class SigningKey(VerifyingKey):
    """Key that signs and verifies tokens."""

    def __init__(self, key: RSAPrivateKey | EllipticCurvePrivateKey) -> None:
        """Raise KeyUnusableError for an unsupported curve."""
        super().__init__(key.public_key())
        self._private = key

    def sign(self, claims: Mapping[str, Any]) -> str:
        """Return a token with these claims."""
        head = _encoded(orjson.dumps({"alg": self.algorithm, "kid": self.key_id}))
        content = f"{head}.{_encoded(orjson.dumps(claims))}"
        return f"{content}.{_encoded(self._signature(content.encode()))}"

    def _signature(self, content: bytes) -> bytes:
        from cryptography.hazmat.primitives.asymmetric import ec, padding
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
        from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
        from cryptography.hazmat.primitives.hashes import SHA256

        if isinstance(self._private, RSAPrivateKey):
            return self._private.sign(content, padding.PKCS1v15(), SHA256())
        size = self._coordinate
        made = self._private.sign(content, ec.ECDSA(self._hash(), deterministic_signing=True))
        return b"".join(number.to_bytes(size, "big") for number in decode_dss_signature(made))


def read_signing_key(path: str) -> SigningKey:
    """Read the first unencrypted RSA or EC key of a PEM file (PKCS #1, PKCS #8 or SEC 1). Raises KeyUnusableError."""
    try:
        pem = Path(path).read_bytes()
    except OSError as err:
        raise KeyUnusableError(f"open {path}: {(err.strerror or str(err)).lower()}") from err
    key = private_key(pem)
    if key is None:
        raise KeyUnusableError(
            f"error reading private key file {path}: data does not contain a valid RSA or ECDSA private key"
        )
    return SigningKey(key)


def read_verifying_keys(path: str) -> list[VerifyingKey]:
    """Read the keys of a PEM file that verify tokens: public keys, private keys and certificates.

    Blocks of other types are ignored. Raises KeyUnusableError without any usable key.

    Source: kubernetes v1.36 client-go/util/keyutil/key.go, ParsePublicKeysPEM.
    """
    try:
        pem = Path(path).read_bytes()
    except OSError as err:
        raise KeyUnusableError(f"open {path}: {(err.strerror or str(err)).lower()}") from err
    keys = [VerifyingKey(key) for block in blocks(pem) if (key := _public_key(block)) is not None]
    if not keys:
        raise KeyUnusableError(f"{path}: data does not contain any valid RSA or ECDSA public keys")
    return keys


def _public_key(block: Block) -> RSAPublicKey | EllipticCurvePublicKey | None:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
    from cryptography.hazmat.primitives.serialization import load_der_public_key
    from cryptography.x509 import load_der_x509_certificate

    from kcm.runtime.x509.private_keys import private_key_of_der  # heavy: cryptography

    found: Any = None
    try:
        if block.type in _PRIVATE:
            found = private_key_of_der(block.data).public_key()
        elif block.type in _PUBLIC:
            found = load_der_public_key(block.data)
        elif block.type == "CERTIFICATE":
            found = load_der_x509_certificate(block.data).public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None
    return found if isinstance(found, RSAPublicKey | EllipticCurvePublicKey) else None


def private_key(pem: bytes) -> RSAPrivateKey | EllipticCurvePrivateKey | None:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

    from kcm.runtime.x509.private_keys import private_key_of_der  # heavy: cryptography

    for block in blocks(pem):
        if block.type not in _PRIVATE:
            continue
        try:
            key = private_key_of_der(block.data)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            continue
        if isinstance(key, RSAPrivateKey | EllipticCurvePrivateKey):
            return key
    return None


def _shortest(number: int) -> bytes:
    return number.to_bytes((number.bit_length() + 7) // 8, "big")


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    """Decode base64url. Raises binascii.Error or ValueError."""
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
