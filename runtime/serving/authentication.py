"""Authentication of requests: by client certificate, or by headers of a proxy that has one; otherwise anonymous.

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
from kcm.runtime.serving.authorization import ANONYMOUS, PageUser

AUTHENTICATED = "system:authenticated"  # the group of all users except anonymous ones
DER = 2  # _ssl.ENCODING_DER


class UnauthorizedError(Exception):
    """The request has credentials, and they are invalid."""


class PageAuthenticator(Protocol):
    def user(self, request: PageRequest) -> PageUser:
        """Return the user of a request. Raises UnauthorizedError."""


class NobodyKnown:
    """Authenticator that treats every request as anonymous, even with credentials."""

    def user(self, request: PageRequest) -> PageUser:
        del request
        return ANONYMOUS


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyHeaders:
    """Names of the headers in which a proxy names its client."""

    # Common names of the certificates of proxies; empty for any.
    names: tuple[str, ...]
    username: tuple[str, ...]
    group: tuple[str, ...]


class ByCertificate:
    """Authenticates clients by certificates of an authority, and clients of authenticated proxies by headers.

    A certificate that no authority has signed already fails the handshake.
    """

    def __init__(
        self,
        *,
        clients: Callable[[], Sequence[x509.Certificate]],
        proxies: Callable[[], Sequence[x509.Certificate]],
        headers: ProxyHeaders,
        now: Callable[[], float],
    ) -> None:
        """Create the authenticator. clients, proxies: return the current authorities of clients and of proxies."""
        self._clients, self._proxies, self._headers, self._now = clients, proxies, headers, now

    def user(self, request: PageRequest) -> PageUser:
        tls = request.connection.tls
        shown = None if tls is None else tls.getpeercert(binary_form=True)
        if shown is None:
            return ANONYMOUS
        leaf = x509.load_der_x509_certificate(shown)
        chain, name = verified_chain(tls), _common_name(leaf)
        unfit = False  # one of the two checks has rejected the certificate
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
                return PageUser(name=name, groups=(*_organizations(leaf), AUTHENTICATED))
        if unfit:
            raise UnauthorizedError("the client certificate is not accepted here")
        return ANONYMOUS

    def _named_by_proxy(self, request: PageRequest) -> PageUser | None:
        name = next(filter(None, map(request.header, self._headers.username)), "")
        if not name:
            return None
        groups = [group for header in self._headers.group for group in request.header_values(header)]
        return PageUser(name=name, groups=tuple(dict.fromkeys([*groups, AUTHENTICATED])))

    def _is_signed(
        self, leaf: x509.Certificate, chain: Sequence[bytes], authorities: Sequence[x509.Certificate]
    ) -> bool:
        """Report whether one of the authorities has signed the certificate.

        Without a chain, as in a resumed session, the authority must have signed the leaf directly, and the leaf must
        still be valid.
        """
        if chain:
            known = {authority.public_bytes(Encoding.DER) for authority in authorities}
            return not known.isdisjoint(chain)
        at = datetime.fromtimestamp(self._now(), tz=UTC)
        valid = leaf.not_valid_before_utc <= at < leaf.not_valid_after_utc
        return valid and any(_has_signed(authority, leaf) for authority in authorities)


def verified_chain(connection: Any) -> list[bytes]:
    """Return the verified certificates in DER, from the peer's to the authority's; empty in a resumed session.

    connection: an ssl.SSLObject.
    """
    public = getattr(connection, "get_verified_chain", None)  # from Python 3.13 on
    if public is not None:
        return list(public())
    hidden = connection._sslobj.get_verified_chain()
    return [certificate.public_bytes(DER) for certificate in hidden or ()]


def _has_signed(authority: x509.Certificate, leaf: x509.Certificate) -> bool:
    try:
        leaf.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _common_name(certificate: x509.Certificate) -> str:
    """Return the last common name, as Go does; "" without one."""
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[-1].value) if names else ""


def _organizations(certificate: x509.Certificate) -> tuple[str, ...]:
    attributes = certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    return tuple(str(attribute.value) for attribute in attributes)
