"""Authorities that sign certificate signing requests.

Source: kubernetes v1.36 pkg/controller/certificates/authority/{authority,policies}.go,
pkg/controller/certificates/signer/ca_provider.go; Go's crypto/x509, CreateCertificate.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import NameOID
from msgspec import Struct

from kcm.runtime.x509.pem import blocks
from kcm.runtime.x509.private_keys import private_key_of_pem
from kcm.runtime.x509.requests import (
    UNREADABLE,
    RequestError,
    alternative_names,
    check_signature,
    parse_request,
)
from kcm.runtime.x509.usages import EXTENDED_KEY_USAGES, KEY_USAGES

PrivateKey: TypeAlias = "rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey"

BACKDATE = timedelta(minutes=5)  # for clients whose clocks are behind
SHORT = timedelta(hours=8)  # backdating does not shorten certificates with a shorter life

_KEY_TYPES = ("EC PRIVATE KEY", "RSA PRIVATE KEY", "PRIVATE KEY")
_KEY_USAGE = x509.ObjectIdentifier("2.5.29.15")
# Attributes of a subject that are kept, in the order of Go's pkix.Name.
_SUBJECT = (
    NameOID.COUNTRY_NAME,
    NameOID.ORGANIZATION_NAME,
    NameOID.ORGANIZATIONAL_UNIT_NAME,
    NameOID.LOCALITY_NAME,
    NameOID.STATE_OR_PROVINCE_NAME,
    NameOID.STREET_ADDRESS,
    NameOID.POSTAL_CODE,
)
_SINGLE = (NameOID.COMMON_NAME, NameOID.SERIAL_NUMBER)  # the last one counts
_ALTERNATIVE_NAMES = (x509.DNSName, x509.RFC822Name, x509.IPAddress, x509.UniformResourceIdentifier)


class AuthorityError(ValueError):
    """The files are not a certificate with its key, or the authority cannot sign."""


class Authority(Struct, frozen=True):
    certificate: x509.Certificate
    key: PrivateKey

    def sign(self, request_pem: bytes, *, usages: Iterable[str], seconds: float, now: float) -> bytes:
        """Return a certificate for a request, in PEM.

        The serial number is derived from the arguments and the key, so that a signature that is repeated after a lost
        outcome yields the same certificate. Without the key it cannot be distinguished from a random number.

        seconds: how long the certificate is valid.
        now: Unix seconds.
        Raises RequestError for a malformed or incorrectly signed request, AuthorityError if the authority has expired
        or a usage is unknown.
        """
        request = parse_request(request_pem)
        try:
            check_signature(request)
        except RequestError as err:
            raise RequestError(f"unable to verify certificate request signature: {err}") from err
        usages = tuple(usages)
        begin, end = self._validity(datetime.fromtimestamp(now, UTC), timedelta(seconds=seconds))
        builder = (
            x509.CertificateBuilder()
            .serial_number(self._serial(request_pem, usages, seconds, now))
            .issuer_name(self.certificate.subject)
            .subject_name(_subject(request.subject))
            .public_key(request.public_key())
            .not_valid_before(begin)
            .not_valid_after(end)
        )
        for extension, critical in self._extensions(request, usages):
            builder = builder.add_extension(extension, critical=critical)
        try:
            made = builder.sign(self.key, _digest(self.key))
        except (ValueError, TypeError) as err:
            raise AuthorityError(f"failed to sign certificate: {err}") from err
        return made.public_bytes(serialization.Encoding.PEM)

    def _serial(self, *about: object) -> int:
        """Return a number of 128 bits."""
        der = serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        secret = hashlib.sha256(b"serial numbers" + self.key.private_bytes(*der)).digest()
        return int.from_bytes(hmac.digest(secret, repr(about).encode(), "sha256")[:16]) or 1

    def _validity(self, now: datetime, life: timedelta) -> tuple[datetime, datetime]:
        last = self.certificate.not_valid_after_utc
        begin = now - BACKDATE
        end = min(now + life if life < SHORT else now + life - BACKDATE, last)
        if begin >= last:
            raise AuthorityError(f"the signer has expired: NotAfter={_shown(last)}")
        if now >= last:
            raise AuthorityError(f"refusing to sign a certificate that expired in the past: NotAfter={_shown(last)}")
        return begin.replace(microsecond=0), end.replace(microsecond=0)

    def _extensions(
        self, request: x509.CertificateSigningRequest, usages: Sequence[str]
    ) -> Iterable[tuple[x509.ExtensionType, bool]]:
        """Return the extensions of the certificate, and whether they are critical. Those of the request are ignored."""
        unknown = [usage for usage in usages if usage not in KEY_USAGES and usage not in EXTENDED_KEY_USAGES]
        if unknown:
            shown = " ".join(f'"{usage}"' for usage in unknown)
            raise AuthorityError(f"unrecognized usage values: [{shown}]")
        bits = {KEY_USAGES[usage] for usage in usages if usage in KEY_USAGES}
        if bits:
            yield x509.UnrecognizedExtension(_KEY_USAGE, _bit_string(bits)), True
        wanted = {EXTENDED_KEY_USAGES[usage] for usage in usages if usage in EXTENDED_KEY_USAGES}
        if wanted:
            ordered = [oid for oid in dict.fromkeys(EXTENDED_KEY_USAGES.values()) if oid in wanted]
            yield x509.ExtendedKeyUsage([x509.ObjectIdentifier(oid) for oid in ordered]), False
        yield x509.BasicConstraints(ca=False, path_length=None), True
        identifier = self._identifier()
        if identifier is not None:
            yield x509.AuthorityKeyIdentifier(identifier, None, None), False
        names = alternative_names(request)
        kept = [name for kind in _ALTERNATIVE_NAMES for name in names if isinstance(name, kind)]
        if kept:
            yield x509.SubjectAlternativeName(kept), not list(_subject(request.subject))

    def _identifier(self) -> bytes | None:
        try:
            found = self.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier)
        except x509.ExtensionNotFound:
            return None
        return found.value.digest


def load_pair(certificate_pem: bytes, key_pem: bytes) -> tuple[x509.Certificate, PrivateKey]:
    """Return the first certificate and its key. Raises AuthorityError, with the texts of Go's crypto/tls."""
    found = [block for block in blocks(certificate_pem) if block.type == "CERTIFICATE"]
    if not found:
        _refuse_without("certificate", certificate_pem, '"CERTIFICATE" PEM block')
    try:
        certificate = x509.load_der_x509_certificate(found[0].data)
        public = certificate.public_key()
    except UNREADABLE as err:
        raise AuthorityError(f"x509: malformed certificate: {err}") from err
    key = _private_key(key_pem)
    if type(key.public_key()) is not type(public):
        raise AuthorityError("tls: private key type does not match public key type")
    if key.public_key() != public:
        raise AuthorityError("tls: private key does not match public key")
    return certificate, key


def authority_of(certificate_pem: bytes, key_pem: bytes, *, name: str) -> Authority:
    """Return an authority. name: for errors. Raises AuthorityError unless there is exactly one certificate."""
    certificate, key = load_pair(certificate_pem, key_pem)
    count = sum(block.type == "CERTIFICATE" and not block.has_headers for block in blocks(certificate_pem))
    if count != 1:
        raise AuthorityError(f'error reading CA cert file "{name}": expected 1 certificate, found {count}')
    return Authority(certificate, key)


def end_of_certificate(pem: bytes) -> float | None:
    """Return the end of the certificate in the first PEM block, in Unix seconds; None if it is malformed or missing."""
    block = next(blocks(pem), None)
    if block is None:
        return None
    try:
        return x509.load_der_x509_certificate(block.data).not_valid_after_utc.timestamp()
    except UNREADABLE:
        return None


def _private_key(pem: bytes) -> PrivateKey:
    found = [block for block in blocks(pem) if block.type in _KEY_TYPES or block.type.endswith(" PRIVATE KEY")]
    if not found:
        _refuse_without("key", pem, 'PEM block with type ending in "PRIVATE KEY"')
    try:
        key = private_key_of_pem(found[0].pem)
    except UNREADABLE as err:
        raise AuthorityError("tls: failed to parse private key") from err
    if not isinstance(key, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey):
        raise AuthorityError("tls: found unknown private key type in PKCS#8 wrapping")
    return key


def _refuse_without(what: str, pem: bytes, wanted: str) -> None:
    types = [block.type for block in blocks(pem)]
    if not types:
        raise AuthorityError(f"tls: failed to find any PEM data in {what} input")
    passed = " ".join(types)
    raise AuthorityError(
        f"tls: failed to find {wanted} in {what} input after skipping PEM blocks of the following types: [{passed}]"
    )


def _subject(name: x509.Name) -> x509.Name:
    """Return the attributes that Go's pkix.Name has, grouped by type."""
    parts = [list(dict.fromkeys(name.get_attributes_for_oid(oid))) for oid in _SUBJECT]
    parts += [name.get_attributes_for_oid(oid)[-1:] for oid in _SINGLE]
    return x509.Name([x509.RelativeDistinguishedName(part) for part in parts if part])


def _bit_string(bits: Iterable[int]) -> bytes:
    """Return the DER of an ASN.1 BIT STRING with these bits, numbered from 0."""
    highest = max(bits)
    octets = bytearray(highest // 8 + 1)
    for bit in bits:
        octets[bit // 8] |= 0x80 >> bit % 8
    return bytes([3, len(octets) + 1, 7 - highest % 8]) + bytes(octets)


def _digest(key: PrivateKey) -> hashes.SHA256 | hashes.SHA384 | hashes.SHA512 | None:
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return None
    if isinstance(key, ec.EllipticCurvePrivateKey) and key.curve.key_size > 256:
        return hashes.SHA384() if key.curve.key_size == 384 else hashes.SHA512()
    return hashes.SHA256()


def _shown(moment: datetime) -> str:
    """Format a time as Go does."""
    return f"{moment:%Y-%m-%d %H:%M:%S} +0000 UTC"


__all__ = ["Authority", "AuthorityError", "RequestError", "authority_of", "end_of_certificate", "load_pair"]
