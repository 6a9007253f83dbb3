"""Certificates of a server that rotates its own CA: clients trust the CAs of a bundle, which is written for them.

No request is refused during a rotation, because each step waits until the previous one is known everywhere:

1. A new CA is added to the bundle. The serving certificate is still of the old CA.
2. Once all clients have the new bundle, a serving certificate of the new CA is used.
3. Once all servers use it, the old CA is removed from the bundle.

Everything is decided from the certificates themselves, so a successor continues where a leader has ended.
"""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TypeAlias

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.x509.oid import ExtendedKeyUsageOID
from msgspec import Struct

from kcm.protocols.addresses import is_address
from kcm.runtime.x509.authority import AuthorityError, load_pair
from kcm.runtime.x509.certificates import BACKDATE, key_usage, subject_name
from kcm.runtime.x509.key_rings import CertificateLives, KeyRing

Key: TypeAlias = "ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey"
MOST_AUTHORITIES = 4  # of a bundle


class RotationStep(Struct, frozen=True, kw_only=True):
    """Next content of the Secret.

    ring: the same as before if nothing is due.
    what: steps that were taken, for logs.
    due: Unix seconds at which the next step may be due.
    """

    ring: KeyRing
    what: tuple[str, ...]
    due: float


def next_ring(
    ring: KeyRing | None,
    *,
    names: Sequence[str],
    lives: CertificateLives,
    now: float,
    is_published: bool,
    new_key: Callable[[], Key],
) -> RotationStep:
    """Take the steps that are due.

    ring: the present content; None if there is none.
    names: DNS names and IP addresses of the server.
    now: Unix seconds.
    is_published: whether all clients were given all CAs of the present bundle.
    """
    state = None if ring is None else _State.of(ring)
    if ring is None or state is None or now >= _end(state.authorities[0]):
        made = _new_ring(names, lives, now, new_key)
        return RotationStep(
            ring=made, what=("created a CA", "issued a serving certificate"), due=_due(made, lives, now)
        )
    what: list[str] = []
    kept = [certificate for certificate in state.authorities if now < _end(certificate)][:MOST_AUTHORITIES]
    newest, key = kept[0], state.authority_key
    if len(kept) == 1 and now >= _renewal(newest):
        newest, key = _new_authority(lives, now, new_key)
        kept.insert(0, newest)
        is_published = False
        what.append("created a CA")
    serving, serving_key = state.certificate, ring.key
    is_current = _is_signed_by(serving, newest)
    is_usable = any(_is_signed_by(serving, authority) for authority in kept) and now < _end(serving)
    is_usable = is_usable and _names_of(serving) == set(names)
    may_use_newest = is_published and now >= _begin(newest) + lives.settle
    if not is_usable or ((not is_current or now >= _renewal(serving)) and (may_use_newest or len(kept) == 1)):
        serving, serving_key = _issue(newest, key, names, lives, now, new_key)
        is_current = True
        what.append("issued a serving certificate")
    elif is_current and len(kept) > 1 and now >= _begin(serving) + lives.overlap:
        kept = [newest]
        what.append("removed the previous CA")
    if len(kept) < len(state.authorities) and "removed the previous CA" not in what:
        what.append("removed expired CAs")
    made = KeyRing(
        authorities=b"".join(map(_pem, kept)), authority_key=_key_pem(key), certificate=_pem(serving), key=serving_key
    )
    if not what:
        made = ring
    return RotationStep(ring=made, what=tuple(what), due=_due(made, lives, now))


def is_valid_ring(ring: KeyRing) -> bool:
    """Report whether certificates and keys can be read and belong together."""
    return _State.of(ring) is not None


def authorities_in(bundle: bytes) -> frozenset[bytes]:
    """Return the certificates of a bundle, in DER; empty if it is malformed."""
    return frozenset(certificate.public_bytes(serialization.Encoding.DER) for certificate in _read_all(bundle))


def end_of(certificate: bytes) -> float:
    """Return the end of a certificate in PEM, in Unix seconds; 0 if it is malformed."""
    found = _read_all(certificate)
    return _end(found[0]) if found else 0.0


def is_trusted(certificate: bytes, bundle: bytes, *, host: str, now: float) -> str:
    """Return why a client with this bundle refuses a server's certificate; "" if it accepts it.

    This is the check of a simulated client; real clients check in their TLS library.
    """
    found = _read_all(certificate)
    if not found:
        return "the server has no certificate"
    serving = found[0]
    issuers = [authority for authority in _read_all(bundle) if _is_signed_by(serving, authority)]
    if not issuers:
        return "certificate signed by unknown authority"
    if not any(_starts(each) <= now < _end(each) for each in issuers) or not _starts(serving) <= now < _end(serving):
        return "certificate has expired or is not yet valid"
    return "" if host in _names_of(serving) else "certificate is not valid for the requested host name"


class _State(Struct, frozen=True):
    """Parsed KeyRing."""

    authorities: list[x509.Certificate]
    authority_key: Key
    certificate: x509.Certificate

    @classmethod
    def of(cls, ring: KeyRing) -> _State | None:
        """Parse a ring; None if it is malformed, or its keys do not belong to its certificates."""
        try:
            authorities = _read_all(ring.authorities)
            _, authority_key = load_pair(ring.authorities, ring.authority_key)
            certificate, _ = load_pair(ring.certificate, ring.key)
        except (AuthorityError, ValueError):
            return None
        if not authorities or not isinstance(authority_key, ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey):
            return None
        return cls(authorities, authority_key, certificate)


def _new_ring(names: Sequence[str], lives: CertificateLives, now: float, new_key: Callable[[], Key]) -> KeyRing:
    authority, key = _new_authority(lives, now, new_key)
    serving, serving_key = _issue(authority, key, names, lives, now, new_key)
    return KeyRing(authorities=_pem(authority), authority_key=_key_pem(key), certificate=_pem(serving), key=serving_key)


def _new_authority(lives: CertificateLives, now: float, new_key: Callable[[], Key]) -> tuple[x509.Certificate, Key]:
    key = new_key()
    # Distinct names, so that clients choose the right CA of a bundle at once.
    name = subject_name(f"webhook-ca@{_fingerprint(key)[:16]}")
    builder = (
        _builder(name, name, key, now=now, life=lives.authority)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(key_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return builder.sign(key, _digest(key)), key


def _issue(
    authority: x509.Certificate,
    authority_key: Key,
    names: Sequence[str],
    lives: CertificateLives,
    now: float,
    new_key: Callable[[], Key],
) -> tuple[x509.Certificate, bytes]:
    key = new_key()
    identifier = authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    alternatives = [
        x509.IPAddress(ipaddress.ip_address(name)) if is_address(name) else x509.DNSName(name) for name in names
    ]
    builder = (
        _builder(subject_name("webhook"), authority.subject, key, now=now, life=lives.serving, last=_end(authority))
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(key_usage(), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False)
    )
    return builder.sign(authority_key, _digest(authority_key)), _key_pem(key)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: Key, *, now: float, life: float, last: float | None = None
) -> x509.CertificateBuilder:
    end = now + life if last is None else min(now + life, last)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        # Derived from the key, which is used for one certificate only; 159 bits, as the standard allows.
        .serial_number(int(_fingerprint(key)[:40], 16) >> 1 or 1)
        .not_valid_before(datetime.fromtimestamp(now, UTC) - BACKDATE)
        .not_valid_after(datetime.fromtimestamp(end, UTC))
    )


def _due(ring: KeyRing, lives: CertificateLives, now: float) -> float:
    """Return when the next step may be due, after `now`."""
    state = _State.of(ring)
    assert state is not None
    newest, serving = state.authorities[0], state.certificate
    times = [_renewal(newest), _renewal(serving), _end(serving), *map(_end, state.authorities)]
    if len(state.authorities) > 1:
        times += [_begin(newest) + lives.settle, _begin(serving) + lives.overlap]
    return min((at for at in times if at > now), default=now + lives.settle)


def _begin(certificate: x509.Certificate) -> float:
    """Return when the certificate was made, in Unix seconds; it is valid from BACKDATE before."""
    return (certificate.not_valid_before_utc + BACKDATE).timestamp()


def _starts(certificate: x509.Certificate) -> float:
    return certificate.not_valid_before_utc.timestamp()


def _end(certificate: x509.Certificate) -> float:
    return certificate.not_valid_after_utc.timestamp()


def _renewal(certificate: x509.Certificate) -> float:
    """Return when to replace the certificate: after two thirds of its life."""
    begin = _begin(certificate)
    return begin + (_end(certificate) - begin) * 2 / 3


def _is_signed_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def _names_of(certificate: x509.Certificate) -> set[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    addresses = map(str, names.get_values_for_type(x509.IPAddress))
    return {*names.get_values_for_type(x509.DNSName), *addresses}


def _read_all(pem: bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError:
        return []


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: Key) -> bytes:
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def _fingerprint(key: Key) -> str:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return hashlib.sha256(key.public_key().public_bytes(serialization.Encoding.DER, form)).hexdigest()


def _digest(key: Key) -> hashes.SHA256 | None:
    return None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
