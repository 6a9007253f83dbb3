"""An authority that signs requests: its certificate and key, and what its certificates are like.

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

from kcm.protocols.late_methods import dataclass
from kcm.runtime.x509.pem import blocks
from kcm.runtime.x509.requests import (
    UNREADABLE,
    RequestError,
    alternative_names,
    check_signature,
    parse_request,
)
from kcm.runtime.x509.usages import EXTENDED_KEY_USAGES, KEY_USAGES

PrivateKey: TypeAlias = "rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey"

BACKDATE = timedelta(minutes=5)  # for those whose clock is behind
SHORT = timedelta(hours=8)  # a certificate that lives shorter is not shortened by the backdating

_KEY_TYPES = ("EC PRIVATE KEY", "RSA PRIVATE KEY", "PRIVATE KEY")
_KEY_USAGE = x509.ObjectIdentifier("2.5.29.15")
# The parts of a subject that are kept, in the order in which Go's pkix.Name writes them.
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
    """Files that are no certificate and key, or an authority that cannot sign."""


@dataclass(frozen=True, slots=True)
class Authority:
    certificate: x509.Certificate
    key: PrivateKey

    def sign(self, request_pem: bytes, *, usages: Iterable[str], seconds: float, now: float) -> bytes:
        """A certificate for this request, in PEM. seconds: how long it is valid. now: Unix seconds.

        Its serial number is the same if all of this is: nobody without the key can tell it from one drawn at random,
        and a signature that is repeated, since its outcome was lost, counts as one.

        Raises RequestError on a request that cannot be read or is not signed by who asks, AuthorityError where the
        authority has expired and on usages that are none.
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
        """128 bits."""
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
        """Those of the certificate, and whether they are critical. The request's own are left out."""
        unknown = [one for one in usages if one not in KEY_USAGES and one not in EXTENDED_KEY_USAGES]
        if unknown:
            shown = " ".join(f'"{one}"' for one in unknown)
            raise AuthorityError(f"unrecognized usage values: [{shown}]")
        bits = {KEY_USAGES[one] for one in usages if one in KEY_USAGES}
        if bits:
            yield x509.UnrecognizedExtension(_KEY_USAGE, _bit_string(bits)), True
        wanted = {EXTENDED_KEY_USAGES[one] for one in usages if one in EXTENDED_KEY_USAGES}
        if wanted:
            ordered = [one for one in dict.fromkeys(EXTENDED_KEY_USAGES.values()) if one in wanted]
            yield x509.ExtendedKeyUsage([x509.ObjectIdentifier(one) for one in ordered]), False
        yield x509.BasicConstraints(ca=False, path_length=None), True
        identifier = self._identifier()
        if identifier is not None:
            yield x509.AuthorityKeyIdentifier(identifier, None, None), False
        names = alternative_names(request)
        kept = [one for kind in _ALTERNATIVE_NAMES for one in names if isinstance(one, kind)]
        if kept:
            yield x509.SubjectAlternativeName(kept), not list(_subject(request.subject))

    def _identifier(self) -> bytes | None:
        try:
            found = self.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier)
        except x509.ExtensionNotFound:
            return None
        return found.value.digest


def load_pair(certificate_pem: bytes, key_pem: bytes) -> tuple[x509.Certificate, PrivateKey]:
    """The first certificate and the key that belongs to it. Raises AuthorityError, in the words of Go's crypto/tls."""
    found = [one for one in blocks(certificate_pem) if one.type == "CERTIFICATE"]
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
    """name: what the files are called in errors. Raises AuthorityError where there is not exactly one certificate."""
    certificate, key = load_pair(certificate_pem, key_pem)
    count = sum(one.type == "CERTIFICATE" and not one.has_headers for one in blocks(certificate_pem))
    if count != 1:
        raise AuthorityError(f'error reading CA cert file "{name}": expected 1 certificate, found {count}')
    return Authority(certificate, key)


def end_of_certificate(pem: bytes) -> float | None:
    """When the certificate in the first PEM block ends, in Unix seconds; None if that is no certificate."""
    block = next(blocks(pem), None)
    if block is None:
        return None
    try:
        return x509.load_der_x509_certificate(block.data).not_valid_after_utc.timestamp()
    except UNREADABLE:
        return None


def _private_key(pem: bytes) -> PrivateKey:
    found = [one for one in blocks(pem) if one.type in _KEY_TYPES or one.type.endswith(" PRIVATE KEY")]
    if not found:
        _refuse_without("key", pem, 'PEM block with type ending in "PRIVATE KEY"')
    try:
        key = serialization.load_pem_private_key(found[0].pem, password=None)
    except UNREADABLE as err:
        raise AuthorityError("tls: failed to parse private key") from err
    if not isinstance(key, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey):
        raise AuthorityError("tls: found unknown private key type in PKCS#8 wrapping")
    return key


def _refuse_without(what: str, pem: bytes, wanted: str) -> None:
    types = [one.type for one in blocks(pem)]
    if not types:
        raise AuthorityError(f"tls: failed to find any PEM data in {what} input")
    passed = " ".join(types)
    raise AuthorityError(
        f"tls: failed to find {wanted} in {what} input after skipping PEM blocks of the following types: [{passed}]"
    )


def _subject(name: x509.Name) -> x509.Name:
    """The parts that Go knows, those of one kind together."""
    parts = [list(dict.fromkeys(name.get_attributes_for_oid(oid))) for oid in _SUBJECT]
    parts += [name.get_attributes_for_oid(oid)[-1:] for oid in _SINGLE]
    return x509.Name([x509.RelativeDistinguishedName(part) for part in parts if part])


def _bit_string(bits: Iterable[int]) -> bytes:
    """The DER of an ASN.1 BIT STRING with these bits, the first of which is 0."""
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
    """As Go shows a time."""
    return f"{moment:%Y-%m-%d %H:%M:%S} +0000 UTC"


__all__ = ["Authority", "AuthorityError", "RequestError", "authority_of", "end_of_certificate", "load_pair"]
