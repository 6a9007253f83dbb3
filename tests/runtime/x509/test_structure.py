"""Recognition of certificates and keys: nothing is recognized that the library cryptography would refuse."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import chain

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID

from kcm.runtime.x509.authority import AuthorityError, authority_of
from kcm.runtime.x509.pem import blocks
from kcm.runtime.x509.private_keys import private_key_of_der
from kcm.runtime.x509.requests import UNREADABLE
from kcm.runtime.x509.structure import is_certificate, is_rsa_key, is_rsa_pair

RSA, OTHER = (rsa.generate_private_key(65537, 2048) for _ in range(2))
Key = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


def certificate(key: Key, *, signer: Key | None = None, last: int = 2040, extended: bool = True) -> x509.Certificate:
    subject = x509.Name(
        [x509.NameAttribute(NameOID.COUNTRY_NAME, "CH"), x509.NameAttribute(NameOID.COMMON_NAME, "Grüße")]
    )
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(0x80_1234)
        .not_valid_before(datetime(2026, 2, 28, 23, 59, 59, tzinfo=UTC))
        .not_valid_after(datetime(last, 12, 31, tzinfo=UTC))
    )
    if extended:
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName("a.example")]), critical=False)
    signing = signer or key
    return builder.sign(signing, None if isinstance(signing, ed25519.Ed25519PrivateKey) else hashes.SHA256())


def der(made: x509.Certificate) -> bytes:
    return made.public_bytes(Encoding.DER)


def key_der(key: Key, form: PrivateFormat = PrivateFormat.TraditionalOpenSSL) -> bytes:
    return key.private_bytes(Encoding.DER, form, NoEncryption())


def pem(kind: str, content: bytes, *, line_end: bytes = b"\n", head: bytes = b"") -> bytes:
    lines = base64.encodebytes(content).replace(b"\n", line_end)
    marks = (b"-----%s %s-----" % (mark, kind.encode()) + line_end for mark in (b"BEGIN", b"END"))
    return next(marks) + head + lines + next(marks)


def mutated(content: bytes) -> Iterator[bytes]:
    """Yield the content with each of its octets changed, removed and repeated, and truncated to each length."""
    for at, octet in enumerate(content):
        for changed in (octet ^ 1, octet ^ 0x80, 0, 0xFF, (octet + 1) % 256):
            yield content[:at] + bytes([changed]) + content[at + 1 :]
        yield content[:at] + content[at + 1 :]
        yield content[:at] + content[at : at + 1] + content[at:]
        yield content[:at]


def accepts(load: Callable[[bytes], object], content: bytes) -> bool:
    try:
        load(content)
    except UNREADABLE:
        return False
    return True


@pytest.mark.parametrize(
    "key",
    [RSA, *(ec.generate_private_key(curve()) for curve in (ec.SECP256R1, ec.SECP384R1, ec.SECP521R1))],
    ids=["rsa", "P-256", "P-384", "P-521"],
)
@pytest.mark.parametrize(("last", "extended"), [(2049, True), (2050, False)])
def test_ordinary_certificates_are_recognized(key: Key, last: int, extended: bool) -> None:
    assert is_certificate(der(certificate(key, last=last, extended=extended)))
    assert is_certificate(der(certificate(ed25519.Ed25519PrivateKey.generate(), signer=key)))


@pytest.mark.parametrize(
    "made",
    [certificate(RSA), certificate(ec.generate_private_key(ec.SECP256R1()), last=2050)],
    ids=["rsa", "P-256 until 2050"],
)
def test_changed_certificate_is_recognized_only_if_the_library_accepts_it(made: x509.Certificate) -> None:
    load = x509.load_der_x509_certificate
    recognized = [content for content in chain([der(made)], mutated(der(made))) if is_certificate(content)]
    assert len(recognized) > 100, "many changes are harmless"
    assert [content.hex() for content in recognized if not accepts(load, content)] == []
    for content in recognized:  # what the library reads late is readable as well
        read = load(content)
        _ = read.subject, read.issuer, read.not_valid_before_utc, read.not_valid_after_utc


@pytest.mark.parametrize("form", [PrivateFormat.TraditionalOpenSSL, PrivateFormat.PKCS8])
def test_changed_rsa_key_is_recognized_only_if_the_library_accepts_it(form: PrivateFormat) -> None:
    content = key_der(RSA, form)
    assert is_rsa_key(content)
    recognized = [changed for changed in mutated(content) if is_rsa_key(changed)]
    assert [changed.hex() for changed in recognized if not accepts(private_key_of_der, changed)] == []


def test_other_keys_are_left_to_the_library() -> None:
    assert not is_rsa_key(key_der(rsa.generate_private_key(65537, 1024)))
    assert not is_rsa_key(key_der(ec.generate_private_key(ec.SECP256R1())))
    assert not is_rsa_key(key_der(ed25519.Ed25519PrivateKey.generate(), PrivateFormat.PKCS8))
    assert not is_rsa_key(b"")


@pytest.mark.parametrize("form", [PrivateFormat.TraditionalOpenSSL, PrivateFormat.PKCS8])
@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
def test_pair_is_recognized_if_the_library_accepts_it(form: PrivateFormat, line_end: bytes) -> None:
    kind = "RSA PRIVATE KEY" if form is PrivateFormat.TraditionalOpenSSL else "PRIVATE KEY"
    pair = (
        b"the authority\n" + pem("CERTIFICATE", der(certificate(RSA)), line_end=line_end),
        pem(kind, key_der(RSA, form), line_end=line_end),
    )
    assert is_rsa_pair(*pair)
    assert authority_of(*pair, name="files")


def test_pair_of_different_keys_is_left_to_the_library() -> None:
    ours, key = pem("CERTIFICATE", der(certificate(RSA))), pem("RSA PRIVATE KEY", key_der(RSA))
    curve = ec.generate_private_key(ec.SECP256R1())
    encrypted = RSA.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    pairs = [
        (ours, pem("RSA PRIVATE KEY", key_der(OTHER))),
        (ours, pem("PRIVATE KEY", key_der(RSA))),
        (ours, pem("EC PRIVATE KEY", key_der(RSA))),
        (ours, encrypted),
        (ours, pem("RSA PRIVATE KEY", key_der(RSA), head=b"Proc-Type: 4,ENCRYPTED\n\n")),
        (ours, key.replace(b"KEY-----\n", b"KEY----- \n", 1)),
        (ours, key + key),
        (ours, b""),
        (ours + ours, key),
        (b"", key),
        (key, key),
        (pem("CERTIFICATE", der(certificate(RSA)), head=b"Name: x\n\n"), key),
        (pem("CERTIFICATE", der(certificate(curve))), key),
        (pem("CERTIFICATE", der(certificate(curve))), pem("EC PRIVATE KEY", key_der(curve))),
    ]
    assert [is_rsa_pair(*pair) for pair in pairs] == [False] * len(pairs)


def test_pair_with_damaged_text_is_recognized_only_if_the_library_accepts_it() -> None:
    certificate_pem, key_pem = pem("CERTIFICATE", der(certificate(RSA))), pem("RSA PRIVATE KEY", key_der(RSA))
    assert [block.type for block in blocks(key_pem)] == ["RSA PRIVATE KEY"]
    for changed in mutated(key_pem):
        if is_rsa_pair(certificate_pem, changed):
            try:
                authority_of(certificate_pem, changed, name="files")
            except AuthorityError as err:
                pytest.fail(f"{err}: {changed!r}")
