"""Authentication of requests: headers of a proxy with a certificate, client certificate, bearer token, anonymous.

Source: kubernetes v1.36 apiserver/pkg/authentication/request (headerrequest, x509, bearertoken, anonymous, union).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol
from urllib.parse import unquote

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from kcm.runtime.metrics.registry import Metrics
from kcm.runtime.serving.access_metrics import CERTIFICATE_SECONDS
from kcm.runtime.serving.application import PageRequest
from kcm.runtime.serving.authorization import ANONYMOUS, PageUser

AUTHENTICATED = "system:authenticated"  # the group of all users except anonymous ones
CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"  # extra attribute of users with a certificate
UID = x509.ObjectIdentifier("1.3.6.1.4.1.57683.2")  # of a certificate's subject
DER = 2  # _ssl.ENCODING_DER


class UnauthorizedError(Exception):
    """The request has credentials, and they are invalid."""


class PageAuthenticator(Protocol):
    async def user(self, request: PageRequest) -> PageUser:
        """Return the user of a request. Raises UnauthorizedError."""


class NobodyKnown:
    """Authenticator that treats every request as anonymous, even with credentials."""

    async def user(self, request: PageRequest) -> PageUser:
        del request
        return ANONYMOUS


class BearerAuthenticator(Protocol):
    async def user(self, token: str) -> PageUser:
        """Return the user of a token. Raises UnauthorizedError."""


class ProxyHeaders(msgspec.Struct, frozen=True, kw_only=True):
    """Names of the headers in which a proxy names its client."""

    # Common names of the certificates of proxies; empty for any.
    names: tuple[str, ...]
    username: tuple[str, ...]
    group: tuple[str, ...]
    uid: tuple[str, ...] = ()
    # Prefixes of headers that contain extra attributes.
    extra: tuple[str, ...] = ()


class CertificateOrToken:
    """Authenticates by certificate, then by bearer token; requests without credentials are anonymous.

    An invalid certificate is an error only if there is no valid token, as in upstream's union of authenticators.
    """

    def __init__(self, certificates: PageAuthenticator, tokens: BearerAuthenticator) -> None:
        self._certificates, self._tokens = certificates, tokens

    async def user(self, request: PageRequest) -> PageUser:
        unfit: UnauthorizedError | None = None
        try:
            user = await self._certificates.user(request)
        except UnauthorizedError as error:
            unfit = error
        else:
            if user is not ANONYMOUS:
                return user
        token = bearer_token(request.header("Authorization"))
        if token:
            return await self._tokens.user(token)
        if unfit is not None:
            raise unfit
        return ANONYMOUS


def bearer_token(header: str) -> str:
    """Return the token of an Authorization header; "" for another scheme, and without a token."""
    parts = header.strip().split(" ", 2)
    return parts[1] if len(parts) > 1 and parts[0].lower() == "bearer" else ""


class ByCertificate:
    """Authenticates clients by certificates of an authority, and clients of authenticated proxies by headers.

    A certificate that no authority has signed already fails the handshake.
    """

    def __init__(
        self,
        *,
        clients: Callable[[], Sequence[x509.Certificate]],
        proxies: Callable[[], Sequence[x509.Certificate]],
        headers: Callable[[], ProxyHeaders],
        now: Callable[[], float],
        metrics: Metrics,
    ) -> None:
        """Create the authenticator. The functions return the current authorities, and the headers of proxies.

        now: Unix seconds.
        """
        self._lifetimes = metrics.histogram(CERTIFICATE_SECONDS)
        self._clients, self._proxies, self._headers, self._now = clients, proxies, headers, now

    async def user(self, request: PageRequest) -> PageUser:
        tls = request.connection.tls
        shown = None if tls is None else tls.getpeercert(binary_form=True)
        if shown is None:
            return ANONYMOUS
        leaf = x509.load_der_x509_certificate(shown)
        self._lifetimes.observe(leaf.not_valid_after_utc.timestamp() - self._now())
        chain, name = verified_chain(tls), _common_name(leaf)
        unfit = False  # one of the two checks has rejected the certificate
        if proxies := self._proxies():
            headers = self._headers()
            if self._is_signed(leaf, chain, proxies) and name in (headers.names or (name,)):
                user = _named_by_proxy(request, headers)
                if user is not None:
                    return user
            else:
                unfit = True
        if clients := self._clients():
            if not self._is_signed(leaf, chain, clients):
                unfit = True
            elif name:
                return _user_of(leaf, name, shown)
        if unfit:
            raise UnauthorizedError("the client certificate is not accepted here")
        return ANONYMOUS

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


def _named_by_proxy(request: PageRequest, headers: ProxyHeaders) -> PageUser | None:
    name = next(filter(None, map(request.header, headers.username)), "")
    if not name:
        return None
    groups = [group for header in headers.group for group in request.header_values(header)]
    extra: dict[str, list[str]] = {}
    for prefix in map(str.lower, headers.extra):
        for header in filter(
            lambda header: header.startswith(prefix), (name.decode("latin-1") for name in request.headers)
        ):
            extra.setdefault(unquote(header[len(prefix) :]), []).extend(request.header_values(header))
    return PageUser(
        name=name,
        groups=tuple(dict.fromkeys([*groups, AUTHENTICATED])),
        uid=next(filter(None, map(request.header, headers.uid)), ""),
        extra=extra,
    )


def _user_of(leaf: x509.Certificate, name: str, der: bytes) -> PageUser:
    """Return the user whom a client certificate names. Raises UnauthorizedError if it has several UIDs."""
    uids = [str(attribute.value) for attribute in leaf.subject.get_attributes_for_oid(UID)]
    if len(uids) > 1:
        raise UnauthorizedError("expected 1 UID, but found multiple")
    return PageUser(
        name=name,
        groups=tuple(dict.fromkeys((*_organizations(leaf), AUTHENTICATED))),
        uid="".join(uids),
        extra={CREDENTIAL_ID: (f"X509SHA256={hashlib.sha256(der).hexdigest()}",)},
    )


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
