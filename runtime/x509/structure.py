"""Recognition of ordinary certificates and RSA keys without the library cryptography, whose import takes 10 MB.

The files of flags are checked at the start, and many managers never sign anything afterwards. Each function returns
True only for an encoding that cryptography accepts as well. False means that cryptography must decide, and its error is
the one to report: for other kinds of keys, unusual encodings and malformed files.

Source: RFC 5280 (certificates), RFC 8017 (PKCS #1), RFC 5208 (PKCS #8).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import NamedTuple

from kcm.runtime.x509.pem import Block, blocks

_BOOLEAN, _INTEGER, _BIT_STRING, _OCTET_STRING, _OBJECT_ID = 0x01, 0x02, 0x03, 0x04, 0x06
_UTF8_STRING, _PRINTABLE_STRING, _IA5_STRING, _UTC_TIME, _GENERALIZED_TIME = 0x0C, 0x13, 0x16, 0x17, 0x18
_SEQUENCE, _SET, _VERSION, _EXTENSIONS = 0x30, 0x31, 0xA0, 0xA3

_NULL = bytes.fromhex("0500")
_TRUE = b"\xff"
_V3 = bytes.fromhex("020102")
_RSA = bytes.fromhex("06092a864886f70d010101") + _NULL  # rsaEncryption
# The keys of other certificates are not read: id-ecPublicKey with P-256, P-384 and P-521, and Ed25519.
_OTHER_KEYS = frozenset(
    bytes.fromhex(algorithm)
    for algorithm in (
        "06072a8648ce3d020106082a8648ce3d030107",
        "06072a8648ce3d020106052b81040022",
        "06072a8648ce3d020106052b81040023",
        "06032b6570",
    )
)
# sha256, sha384 and sha512WithRSAEncryption; ecdsa-with-SHA256, SHA384 and SHA512; Ed25519.
_SIGNATURES = frozenset(
    [bytes.fromhex(f"06092a864886f70d0101{number}") + _NULL for number in ("0b", "0c", "0d")]
    + [bytes.fromhex(f"06082a8648ce3d0403{number}") for number in ("02", "03", "04")]
    + [bytes.fromhex("06032b6570")]
)
_PRINTABLE = re.compile(rb"[A-Za-z0-9 '()+,\-./:=?]*")
_PLAIN_PEM = re.compile(rb"-----BEGIN [A-Z ]+-----\r?\n(?:[A-Za-z0-9+/=]+\r?\n)+-----END [A-Z ]+-----")
_MIN_BITS, _MAX_BITS = 2048, 16384
_MAX_SERIAL = 20  # octets


class _Unrecognized(Exception):
    pass


class _PublicKey(NamedTuple):
    modulus: int
    exponent: int


class _Reader:
    """Elements of DER in order. All methods raise _Unrecognized for anything but the expected, minimal encoding."""

    def __init__(self, content: bytes) -> None:
        self._content, self._at = content, 0

    def next_tag(self) -> int | None:
        """Return the tag of the next element; None at the end."""
        return self._content[self._at] if self._at < len(self._content) else None

    def value(self, tag: int) -> bytes:
        """Return the content of the next element, which must have this tag."""
        content, at = self._content, self._at
        if len(content) < at + 2 or content[at] != tag:
            raise _Unrecognized
        length, start = content[at + 1], at + 2
        if length >= 0x80:
            size = length - 0x80
            length = int.from_bytes(content[start : start + size])
            start += size
            if not 1 <= size <= 3 or length < max(0x80, 1 << 8 * (size - 1)):
                raise _Unrecognized
        self._at = start + length
        if self._at > len(content):
            raise _Unrecognized
        return content[start : self._at]

    def inner(self, tag: int) -> _Reader:
        return _Reader(self.value(tag))

    def natural(self) -> int:
        """Return the next element, an INTEGER that is not negative."""
        digits = self.value(_INTEGER)
        if not digits or digits[0] >= 0x80 or (len(digits) > 1 and digits[0] == 0 and digits[1] < 0x80):
            raise _Unrecognized
        return int.from_bytes(digits)

    def octets_of_bits(self) -> bytes:
        """Return the next element, a BIT STRING of whole octets."""
        bits = self.value(_BIT_STRING)
        if not bits or bits[0] != 0:
            raise _Unrecognized
        return bits[1:]

    def object_id(self) -> bytes:
        octets = self.value(_OBJECT_ID)
        if (
            not octets
            or octets[-1] >= 0x80
            or any(octet == 0x80 and (at == 0 or octets[at - 1] < 0x80) for at, octet in enumerate(octets))
        ):
            raise _Unrecognized
        return octets

    def end(self) -> None:
        if self._at != len(self._content):
            raise _Unrecognized


def is_certificate(der: bytes) -> bool:
    """Report whether this is an ordinary certificate of version 3."""
    try:
        _certificate_key(der)
    except _Unrecognized:
        return False
    return True


def is_rsa_key(der: bytes) -> bool:
    """Report whether this is a private RSA key in PKCS #1 or PKCS #8, whose numbers belong together."""
    for read in (_pkcs1_key, _pkcs8_key):
        try:
            read(der)
        except _Unrecognized:
            continue
        return True
    return False


def is_rsa_pair(certificate_pem: bytes, key_pem: bytes) -> bool:
    """Report whether these are one certificate and its private RSA key, both in PEM."""
    certificates, keys = list(blocks(certificate_pem)), list(blocks(key_pem))
    if [block.type for block in certificates] != ["CERTIFICATE"] or certificates[0].has_headers or len(keys) != 1:
        return False
    try:
        return _certificate_key(certificates[0].data) == _key_of_pem(keys[0])
    except _Unrecognized:
        return False


def _key_of_pem(block: Block) -> _PublicKey:
    if block.has_headers or not _PLAIN_PEM.fullmatch(block.pem):
        raise _Unrecognized
    if block.type == "RSA PRIVATE KEY":
        return _pkcs1_key(block.data)
    if block.type == "PRIVATE KEY":
        return _pkcs8_key(block.data)
    raise _Unrecognized


def _pkcs8_key(der: bytes) -> _PublicKey:
    outer = _Reader(der)
    info = outer.inner(_SEQUENCE)
    outer.end()
    if info.natural() != 0 or info.value(_SEQUENCE) != _RSA:
        raise _Unrecognized
    key = info.value(_OCTET_STRING)
    info.end()
    return _pkcs1_key(key)


def _pkcs1_key(der: bytes) -> _PublicKey:
    outer = _Reader(der)
    numbers = outer.inner(_SEQUENCE)
    outer.end()
    version, n, e, d, p, q, dp, dq, inverse = (numbers.natural() for _ in range(9))
    numbers.end()
    belong_together = (
        version == 0
        and min(p, q) > 2
        and p * q == n
        and 1 < d < n
        and (dp, dq) == (d % (p - 1), d % (q - 1))
        and dp * e % (p - 1) == dq * e % (q - 1) == 1
        and inverse < p
        and inverse * q % p == 1
    )
    if not belong_together:
        raise _Unrecognized
    return _checked(_PublicKey(n, e))


def _checked(key: _PublicKey) -> _PublicKey:
    """Check the sizes: Go limits the exponent to 31 bits."""
    usual = _MIN_BITS <= key.modulus.bit_length() <= _MAX_BITS and 3 <= key.exponent < 2**31
    if not usual or key.modulus % 2 == 0 or key.exponent % 2 == 0:
        raise _Unrecognized
    return key


def _certificate_key(der: bytes) -> _PublicKey | None:
    """Return the RSA key of a certificate; None for a key of another kind, which is not checked."""
    outer = _Reader(der)
    certificate = outer.inner(_SEQUENCE)
    outer.end()
    signed = certificate.inner(_SEQUENCE)
    algorithm = certificate.value(_SEQUENCE)
    certificate.octets_of_bits()
    certificate.end()

    if signed.value(_VERSION) != _V3 or not 0 < signed.natural() < 1 << 8 * _MAX_SERIAL - 1:
        raise _Unrecognized
    if signed.value(_SEQUENCE) != algorithm or algorithm not in _SIGNATURES:
        raise _Unrecognized
    _check_name(signed.inner(_SEQUENCE))
    _check_validity(signed.inner(_SEQUENCE))
    _check_name(signed.inner(_SEQUENCE))
    key = _subject_key(signed.inner(_SEQUENCE))
    if signed.next_tag() is not None:
        _check_extensions(signed.inner(_EXTENSIONS))
    signed.end()
    return key


def _subject_key(info: _Reader) -> _PublicKey | None:
    algorithm, content = info.value(_SEQUENCE), info.octets_of_bits()
    info.end()
    if algorithm in _OTHER_KEYS:
        return None
    if algorithm != _RSA:
        raise _Unrecognized
    outer = _Reader(content)
    numbers = outer.inner(_SEQUENCE)
    outer.end()
    key = _PublicKey(numbers.natural(), numbers.natural())
    numbers.end()
    return _checked(key)


def _check_name(name: _Reader) -> None:
    while name.next_tag() is not None:
        attributes = name.inner(_SET)
        attribute = attributes.inner(_SEQUENCE)
        attributes.end()  # several attributes would have an order
        attribute.object_id()
        _check_text(attribute)
        attribute.end()


def _check_text(attribute: _Reader) -> None:
    tag = attribute.next_tag()
    if tag not in (_UTF8_STRING, _PRINTABLE_STRING, _IA5_STRING):
        raise _Unrecognized
    text = attribute.value(tag)
    try:
        text.decode("utf-8" if tag == _UTF8_STRING else "ascii")
    except UnicodeDecodeError as err:
        raise _Unrecognized from err
    if not text or (tag == _PRINTABLE_STRING and not _PRINTABLE.fullmatch(text)):
        raise _Unrecognized


def _check_validity(validity: _Reader) -> None:
    for _ in range(2):
        tag = validity.next_tag()
        if tag not in (_UTC_TIME, _GENERALIZED_TIME):
            raise _Unrecognized
        text = validity.value(tag)
        digits = text[:-1]
        if text[-1:] != b"Z" or not digits.isdigit() or len(digits) != (12 if tag == _UTC_TIME else 14):
            raise _Unrecognized
        year, rest = int(digits[:-10]), digits[-10:]
        if tag == _UTC_TIME:
            year += 1900 if year >= 50 else 2000
        elif year < 2050:  # which must be a UTCTime
            raise _Unrecognized
        month, day, hour, minute, second = (int(rest[at : at + 2]) for at in range(0, 10, 2))
        try:
            datetime(year, month, day, hour, minute, second, tzinfo=UTC)
        except ValueError as err:
            raise _Unrecognized from err
    validity.end()


def _check_extensions(outer: _Reader) -> None:
    extensions = outer.inner(_SEQUENCE)
    outer.end()
    found = set()
    while extensions.next_tag() is not None:
        extension = extensions.inner(_SEQUENCE)
        identifier = extension.object_id()
        if identifier in found:
            raise _Unrecognized
        found.add(identifier)
        if extension.next_tag() == _BOOLEAN and extension.value(_BOOLEAN) != _TRUE:
            raise _Unrecognized
        extension.value(_OCTET_STRING)
        extension.end()
    if not found:
        raise _Unrecognized
