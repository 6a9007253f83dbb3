"""Tokens in the format of kube-apiserver, and their signing keys."""

from __future__ import annotations

import base64
import hashlib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from kcm.runtime.signing.tokens import KeyUnusableError, SigningKey, read_signing_key, read_verifying_keys

RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
CURVES = {"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1(), "ES512": ec.SECP521R1()}
CLAIMS = {"iss": "kubernetes/serviceaccount", "sub": "system:serviceaccount:default:default"}


def pem(key: Any, form: PrivateFormat = PrivateFormat.PKCS8) -> bytes:
    made: bytes = key.private_bytes(Encoding.PEM, form, NoEncryption())
    return made


def part(token: str, number: int) -> bytes:
    text = token.split(".")[number]
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def test_rsa_key_signs_as_go_jose() -> None:
    token = SigningKey(RSA).sign(CLAIMS)
    public = RSA.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    key_id = base64.urlsafe_b64encode(hashlib.sha256(public).digest()).rstrip(b"=").decode()
    assert part(token, 0) == b'{"alg":"RS256","kid":"' + key_id.encode() + b'"}'
    assert orjson.loads(part(token, 1)) == CLAIMS
    RSA.public_key().verify(part(token, 2), token.rpartition(".")[0].encode(), padding.PKCS1v15(), SHA256())
    assert "=" not in token


@pytest.mark.parametrize("algorithm", CURVES)
def test_algorithm_depends_on_the_curve(algorithm: str) -> None:
    key = SigningKey(ec.generate_private_key(CURVES[algorithm]))
    token = key.sign(CLAIMS)
    assert orjson.loads(part(token, 0))["alg"] == algorithm
    assert len(part(token, 2)) == {"ES256": 64, "ES384": 96, "ES512": 132}[algorithm]
    assert key.claims_of(token) == CLAIMS
    assert key.sign(CLAIMS) == token, "nothing in it is random"


def test_key_verifies_only_its_own_tokens() -> None:
    ours, theirs = (SigningKey(ec.generate_private_key(ec.SECP256R1())) for _ in range(2))
    token = ours.sign(CLAIMS)
    head, body, signature = token.split(".")
    assert SigningKey(RSA).claims_of(SigningKey(RSA).sign(CLAIMS)) == CLAIMS
    none = base64.urlsafe_b64encode(b'{"alg":"none"}').rstrip(b"=").decode()
    other = base64.urlsafe_b64encode(b'{"sub":"root"}').rstrip(b"=").decode()
    for forged in (
        theirs.sign(CLAIMS),
        SigningKey(RSA).sign(CLAIMS),
        f"{none}.{body}.",
        f"{none}.{body}.{signature}",
        f"{head}.{other}.{signature}",
        f"{head}.{body}",
        f"{head}.{body}.{signature[:-4]}",
        f"[].{body}.{signature}",
        f"é.{body}.{signature}",
        "",
    ):
        assert ours.claims_of(forged) is None, forged


@pytest.mark.parametrize(
    "file",
    [
        pem(RSA),
        pem(RSA, PrivateFormat.TraditionalOpenSSL),
        pem(ec.generate_private_key(ec.SECP256R1()), PrivateFormat.TraditionalOpenSSL),
        b"-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n"
        + pem(ec.generate_private_key(ec.SECP384R1())),
        b"some words\n-----BEGIN PRIVATE KEY-----\n!\n-----END PRIVATE KEY-----\n" + pem(RSA).replace(b"\n", b"\r\n"),
    ],
)
def test_the_first_key_of_a_file_signs(tmp_path: Path, file: bytes) -> None:
    (tmp_path / "key").write_bytes(file)
    assert read_signing_key(str(tmp_path / "key")).sign(CLAIMS)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        (b"", "data does not contain a valid RSA or ECDSA private key"),
        (b"x", "data does not contain a valid RSA or ECDSA private key"),
        (pem(ed25519.Ed25519PrivateKey.generate()), "data does not contain a valid RSA or ECDSA private key"),
        (pem(ec.generate_private_key(ec.SECP256K1())), "unknown private key curve, must be 256, 384, or 521"),
    ],
)
def test_file_without_a_key_is_rejected_with_its_name(tmp_path: Path, file: bytes, text: str) -> None:
    (tmp_path / "key").write_bytes(file)
    with pytest.raises(KeyUnusableError, match=text):
        read_signing_key(str(tmp_path / "key"))


def test_missing_file_is_refused_with_the_text_of_go() -> None:
    with pytest.raises(KeyUnusableError, match=r"^open /no/such/file: no such file or directory$"):
        read_signing_key("/no/such/file")


def test_verifying_keys_are_read_from_public_keys_private_keys_and_certificates(tmp_path: Path) -> None:
    signing = ec.generate_private_key(ec.SECP256R1())
    public = RSA.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    path = tmp_path / "keys.pem"
    path.write_bytes(public + pem(signing) + _certificate(RSA) + b"-----BEGIN X-----\nAAAA\n-----END X-----\n")
    found = read_verifying_keys(str(path))
    assert [key.algorithm for key in found] == ["RS256", "ES256", "RS256"]
    assert [key.claims_of(SigningKey(RSA).sign(CLAIMS)) for key in found] == [CLAIMS, None, CLAIMS]


def test_file_without_a_verifying_key_is_unusable(tmp_path: Path) -> None:
    path = tmp_path / "keys.pem"
    path.write_bytes(pem(ed25519.Ed25519PrivateKey.generate()))
    with pytest.raises(KeyUnusableError, match="does not contain any valid RSA or ECDSA public keys"):
        read_verifying_keys(str(path))
    with pytest.raises(KeyUnusableError, match="no such file or directory"):
        read_verifying_keys(str(tmp_path / "missing"))


def _certificate(key: rsa.RSAPrivateKey) -> bytes:
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "signer")])
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, begin, begin + timedelta(days=1))
    return builder.sign(key, SHA256()).public_bytes(Encoding.PEM)
