"""Signing: the fields of a certificate that come from its request and from its authority.

Cases of kubernetes v1.36 pkg/controller/certificates/authority/{authority,policies}_test.go.
"""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kcm.runtime.simulation.keys import PemKeyPair, authority_pair, request_pem
from kcm.runtime.x509.authority import AuthorityError, authority_of, end_of_certificate
from kcm.runtime.x509.requests import RequestError, check_signature, facts_of, parse_request

NOW = 1_800_000_000.0  # 2027-01-15T08:00:00Z
HOUR, DAY = 3600.0, 86400.0
NETSCAPE = x509.ObjectIdentifier("2.16.840.1.113730.4.1")
PAIR = authority_pair("ca", begin=NOW - DAY, end=NOW + DAY)


def signed(
    request: bytes = request_pem("jane"),
    *,
    usages: Sequence[str] = ("client auth",),
    seconds: float = HOUR,
    now: float = NOW,
    pair: PemKeyPair = PAIR,
) -> x509.Certificate:
    made = authority_of(*pair, name="files").sign(request, usages=usages, seconds=seconds, now=now)
    return x509.load_pem_x509_certificate(made)


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def test_certificate_has_names_and_key_of_its_request() -> None:
    request = request_pem(
        "system:node:n1",
        "system:nodes",
        "more",
        dns_names=["n1.example.com"],
        ip_addresses=["10.0.0.1", "fd00::1"],
        email_addresses=["n1@example.com"],
        uris=["spiffe://example.com/n1"],
    )
    made = signed(request, usages=["digital signature", "key encipherment", "server auth", "client auth"])
    asked = parse_request(request)
    assert made.subject.rfc4514_string() == "CN=system:node:n1,O=more+O=system:nodes"
    assert made.public_key() == asked.public_key()
    assert made.issuer.rfc4514_string() == "CN=ca"
    made.verify_directly_issued_by(x509.load_pem_x509_certificate(PAIR.certificate))
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    assert not names.critical
    assert names.value.get_values_for_type(x509.DNSName) == ["n1.example.com"]
    assert names.value.get_values_for_type(x509.IPAddress) == [
        ipaddress.ip_address("10.0.0.1"),
        ipaddress.ip_address("fd00::1"),
    ]
    assert names.value.get_values_for_type(x509.RFC822Name) == ["n1@example.com"]
    assert names.value.get_values_for_type(x509.UniformResourceIdentifier) == ["spiffe://example.com/n1"]


def test_certificate_is_not_an_authority_and_names_the_signing_key() -> None:
    made = signed()
    constraints = made.extensions.get_extension_for_class(x509.BasicConstraints)
    assert (constraints.critical, constraints.value) == (True, x509.BasicConstraints(ca=False, path_length=None))
    ours = x509.load_pem_x509_certificate(PAIR.certificate).extensions
    identifier = made.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value.key_identifier
    assert identifier == ours.get_extension_for_class(x509.SubjectKeyIdentifier).value.digest
    assert [extension.oid.dotted_string for extension in made.extensions] == ["2.5.29.37", "2.5.29.19", "2.5.29.35"]


def test_extensions_of_the_request_are_left_out() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "evil")])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    made = signed(builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM))
    assert not made.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


@pytest.mark.parametrize(
    ("usages", "bits"),
    [
        (["signing"], {"digital_signature"}),
        (["digital signature", "signing"], {"digital_signature"}),
        (["content commitment"], {"content_commitment"}),
        (["key encipherment", "data encipherment"], {"key_encipherment", "data_encipherment"}),
        (["key agreement", "encipher only"], {"key_agreement", "encipher_only"}),
        (["key agreement", "decipher only"], {"key_agreement", "decipher_only"}),
        (["cert sign", "crl sign"], {"key_cert_sign", "crl_sign"}),
    ],
)
def test_key_usages_are_set(usages: list[str], bits: set[str]) -> None:
    found = signed(usages=usages).extensions.get_extension_for_class(x509.KeyUsage)
    names = {
        "digital_signature",
        "content_commitment",
        "key_encipherment",
        "data_encipherment",
        "key_agreement",
        "key_cert_sign",
        "crl_sign",
    }
    if found.value.key_agreement:
        names |= {"encipher_only", "decipher_only"}
    assert found.critical
    assert {name for name in names if getattr(found.value, name)} == bits


@pytest.mark.parametrize(
    ("usages", "oids"),
    [
        (["client auth", "server auth"], [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
        (["s/mime", "email protection"], [ExtendedKeyUsageOID.EMAIL_PROTECTION]),
        (
            ["netscape sgc", "any"],
            [ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE, x509.ObjectIdentifier("2.16.840.1.113730.4.1")],
        ),
    ],
)
def test_extended_usages_in_upstreams_order(usages: list[str], oids: list[x509.ObjectIdentifier]) -> None:
    assert list(signed(usages=usages).extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == oids


@pytest.mark.parametrize(
    ("seconds", "begin", "end"),
    [
        (HOUR, NOW - 300, NOW + HOUR),
        (600.0, NOW - 300, NOW + 600),
        (8 * HOUR - 1, NOW - 300, NOW + 8 * HOUR - 1),
        (8 * HOUR, NOW - 300, NOW + 8 * HOUR - 300),
        (10 * HOUR, NOW - 300, NOW + 10 * HOUR - 300),
        (2 * DAY, NOW - 300, NOW + DAY),  # limited by its authority
    ],
)
def test_validity_is_rounded_backdated_and_limited_by_the_authority(seconds: float, begin: float, end: float) -> None:
    made = signed(seconds=seconds, now=NOW + 0.9)
    assert (made.not_valid_before_utc, made.not_valid_after_utc) == (at(begin), at(end))


@pytest.mark.parametrize(
    ("now", "why"),
    [
        (NOW + DAY + 300, "the signer has expired: NotAfter=2027-01-16 08:00:00 +0000 UTC"),
        (NOW + DAY, "refusing to sign a certificate that expired in the past: NotAfter=2027-01-16 08:00:00 +0000 UTC"),
    ],
)
def test_expired_authority_signs_nothing(now: float, why: str) -> None:
    with pytest.raises(AuthorityError) as refused:
        signed(now=now)
    assert str(refused.value) == why


def test_unknown_usages_are_refused() -> None:
    with pytest.raises(AuthorityError, match=r'unrecognized usage values: \["a" "b"\]'):
        signed(usages=["a", "client auth", "b"])


def test_serial_numbers_are_large_and_equal_for_the_same_signature() -> None:
    numbers = [signed(now=now).serial_number for now in (NOW, NOW, NOW + 1, NOW + 2)]
    assert numbers[0] == numbers[1]
    assert len(set(numbers)) == 3
    assert all(2**64 < number < 2**128 for number in numbers)
    other = authority_pair("other", begin=NOW - DAY, end=NOW + DAY)
    assert signed(pair=other).serial_number not in numbers


def test_request_must_be_signed_with_its_key() -> None:
    forged = x509.load_pem_x509_csr(request_pem("jane")).public_bytes(Encoding.DER)
    pem = b"-----BEGIN CERTIFICATE REQUEST-----\n%s\n-----END CERTIFICATE REQUEST-----\n"
    request = pem % base64.b64encode(forged[:-1] + bytes([forged[-1] ^ 1]))
    with pytest.raises(RequestError, match="x509: Ed25519 verification failure"):
        signed(request)
    check_signature(parse_request(request_pem("jane")))


def test_malformed_request_is_refused() -> None:
    with pytest.raises(RequestError, match="PEM block type must be CERTIFICATE REQUEST"):
        parse_request(PAIR.certificate)
    with pytest.raises(RequestError, match="asn1: structure error"):
        parse_request(b"-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n")


@pytest.mark.filterwarnings("ignore:Attribute's length must be")
def test_long_name_is_not_truncated() -> None:
    name = "system:node:" + "n" * 200
    key = ec.generate_private_key(ec.SECP256R1())
    attribute = x509.NameAttribute(NameOID.COMMON_NAME, name, _validate=False)
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([attribute]))
    made = signed(builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM))
    assert made.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value == name


def test_alternative_names_are_critical_without_a_subject() -> None:
    made = signed(request_pem("", dns_names=["a.example.com"]))
    assert made.extensions.get_extension_for_class(x509.SubjectAlternativeName).critical
    assert facts_of(parse_request(request_pem(""))).common_name == ""


@pytest.mark.parametrize("kind", ["rsa", "P-384", "P-521"])
def test_authority_may_have_other_kinds_of_keys(kind: str) -> None:
    key = (
        rsa.generate_private_key(65537, 2048)
        if kind == "rsa"
        else ec.generate_private_key(ec.SECP384R1() if kind == "P-384" else ec.SECP521R1())
    )
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, kind)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(at(NOW - DAY))
        .not_valid_after(at(NOW + DAY))
        .sign(key, hashes.SHA256())
    )
    pem = Encoding.PEM
    pair = PemKeyPair(
        certificate.public_bytes(pem), key.private_bytes(pem, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    )
    made = signed(pair=pair)
    made.verify_directly_issued_by(certificate)
    assert made.signature_hash_algorithm is not None
    assert made.signature_hash_algorithm.name == {"rsa": "sha256", "P-384": "sha384", "P-521": "sha512"}[kind]


PASSED = " after skipping PEM blocks of the following types: [{}]"
OTHER = authority_pair("other", begin=NOW, end=NOW + DAY)


@pytest.mark.parametrize(
    ("certificate", "key", "why"),
    [
        (b"", PAIR.key, "tls: failed to find any PEM data in certificate input"),
        (
            PAIR.key,
            PAIR.key,
            'tls: failed to find "CERTIFICATE" PEM block in certificate input' + PASSED.format("PRIVATE KEY"),
        ),
        (PAIR.certificate, b"x", "tls: failed to find any PEM data in key input"),
        (
            PAIR.certificate,
            PAIR.certificate,
            'tls: failed to find PEM block with type ending in "PRIVATE KEY" in key input'
            + PASSED.format("CERTIFICATE"),
        ),
        (
            PAIR.certificate,
            b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
            "tls: failed to parse private key",
        ),
        (PAIR.certificate, OTHER.key, "tls: private key does not match public key"),
        (
            PAIR.certificate + OTHER.certificate,
            PAIR.key,
            'error reading CA cert file "csr-controller": expected 1 certificate, found 2',
        ),
    ],
)
def test_unusable_authority_files_are_refused(certificate: bytes, key: bytes, why: str) -> None:
    with pytest.raises(AuthorityError) as refused:
        authority_of(certificate, key, name="csr-controller")
    assert str(refused.value) == why


def test_end_of_a_certificate_is_read() -> None:
    assert end_of_certificate(PAIR.certificate) == NOW + DAY
    assert end_of_certificate(b"garbage") is None
    assert end_of_certificate(PAIR.key) is None
