"""Who sends a request: by client certificate, or as a proxy says that has one; else anonymous.

Source: kubernetes v1.36 apiserver/pkg/authentication/request (headerrequest, x509, anonymous, union).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from kcm.protocols.late_methods import dataclass
from kcm.runtime.serving.application import PageRequest
from kcm.runtime.serving.authorization import ANONYMOUS, User

AUTHENTICATED = "system:authenticated"  # the group of all who are not anonymous
DER = 2  # _ssl.ENCODING_DER


class UnauthorizedError(Exception):
    """The request has credentials, and they are no good."""


class Authenticator(Protocol):
    def user(self, request: PageRequest) -> User:
        """Return the user of a request. Raises UnauthorizedError."""


class NobodyKnown:
    """Knows nobody: all are anonymous, whatever they present."""

    def user(self, request: PageRequest) -> User:
        del request
        return ANONYMOUS


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyHeaders:
    """Where a proxy says who its client is. names: common names of proxies; empty for any."""

    names: tuple[str, ...]
    username: tuple[str, ...]
    group: tuple[str, ...]


class ByCertificate:
    """Knows those whose certificate an authority of clients has signed, and whom a proxy names with one of its own.

    A certificate that nobody here has signed does not come this far: its handshake fails.
    """

    def __init__(
        self,
        *,
        clients: Callable[[], Sequence[x509.Certificate]],
        proxies: Callable[[], Sequence[x509.Certificate]],
        headers: ProxyHeaders,
        now: Callable[[], float],
    ) -> None:
        """clients, proxies: the authorities as they are now."""
        self._clients, self._proxies, self._headers, self._now = clients, proxies, headers, now

    def user(self, request: PageRequest) -> User:
        tls = request.connection.tls
        shown = None if tls is None else tls.getpeercert(binary_form=True)
        if shown is None:
            return ANONYMOUS
        leaf = x509.load_der_x509_certificate(shown)
        chain, name = verified_chain(tls), _common_name(leaf)
        unfit = False  # one of those who look at certificates has refused this one
        if proxies := self._proxies():
            if self._is_signed(leaf, chain, proxies) and name in (self._headers.names or (name,)):
                user = self._named_by_proxy(request)
                if user is not None:
                    return user
            else:
                unfit = True
        if clients := self._clients():
            if not self._is_signed(leaf, chain, clients):
                unfit = True
            elif name:
                return User(name=name, groups=(*_organisations(leaf), AUTHENTICATED))
        if unfit:
            raise UnauthorizedError("a certificate that stands for nobody here")
        return ANONYMOUS

    def _named_by_proxy(self, request: PageRequest) -> User | None:
        name = next(filter(None, map(request.header, self._headers.username)), "")
        if not name:
            return None
        groups = [group for header in self._headers.group for group in request.header_values(header)]
        return User(name=name, groups=tuple(dict.fromkeys([*groups, AUTHENTICATED])))

    def _is_signed(
        self, leaf: x509.Certificate, chain: Sequence[bytes], authorities: Sequence[x509.Certificate]
    ) -> bool:
        """Without a chain, as in a resumed session, the authority itself must have signed it, and it be valid yet."""
        if chain:
            known = {one.public_bytes(Encoding.DER) for one in authorities}
            return not known.isdisjoint(chain)
        at = datetime.fromtimestamp(self._now(), tz=UTC)
        valid = leaf.not_valid_before_utc <= at < leaf.not_valid_after_utc
        return valid and any(_has_signed(one, leaf) for one in authorities)


def verified_chain(connection: Any) -> list[bytes]:
    """The certificates from the peer's to the authority's, DER, as they were verified; empty in a resumed session.

    connection: an ssl.SSLObject.
    """
    public = getattr(connection, "get_verified_chain", None)  # from Python 3.13 on
    if public is not None:
        return list(public())
    hidden = connection._sslobj.get_verified_chain()
    return [one.public_bytes(DER) for one in hidden or ()]


def _has_signed(authority: x509.Certificate, leaf: x509.Certificate) -> bool:
    try:
        leaf.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _common_name(certificate: x509.Certificate) -> str:
    """The last one, as in Go; "" without any."""
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[-1].value) if names else ""


def _organisations(certificate: x509.Certificate) -> tuple[str, ...]:
    return tuple(str(one.value) for one in certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME))
