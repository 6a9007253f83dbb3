"""Authentication of requests: by client certificate, otherwise by bearer token, otherwise as anonymous.

Source: apiserver pkg/authentication/request/{x509,bearertoken,anonymous,union}, kubernetes
pkg/kubeapiserver/authenticator/config.go (v1.36). Differs: a certificate of an unknown authority
ends the handshake, because the ssl module verifies every certificate that it requests; upstream then uses the token.
"""

from __future__ import annotations

import hashlib
import math
import ssl
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kcm.runtime.apiserver.registry.users import ANONYMOUS, CREDENTIAL_ID, User, known

_UID = "1.3.6.1.4.1.57683.2"  # attribute of a certificate's subject that contains the user's UID


class CertificateUser(NamedTuple):
    """User that a verified client certificate names, until the certificate expires.

    user: ANONYMOUS without a certificate or a common name; None if the certificate is refused
    expires: Unix seconds
    """

    user: User | None
    expires: float = math.inf

    def at(self, now: float) -> User | None:
        """Return the user, or None if the certificate has expired since the connection was opened.

        now: Unix seconds
        """
        return self.user if now <= self.expires else None


NO_CERTIFICATE = CertificateUser(ANONYMOUS)


class ClientIdentity:
    """Authenticated client of one connection.

    certificate: the user that the client certificate names
    authorization: the last Authorization header that contained the token of a permanent user
    user: the user of that token
    """

    __slots__ = ("authorization", "certificate", "user")

    def __init__(self, certificate: CertificateUser) -> None:
        self.certificate = certificate
        self.authorization: bytes | None = None
        self.user: User | None = None


LONGEST_AUTHORIZATION = 16 * 1024  # bytes of the header; tokens of this server have less than a tenth of it


class Authenticator:
    def __init__(self, user_of: Callable[[str], User | None]) -> None:
        """Create an authenticator.

        user_of: returns the user of a token, None if the token is invalid
        """
        self._user_of = user_of

    def by_token(self, authorization: bytes) -> User | None:
        """Return the user of an Authorization header: ANONYMOUS without a bearer token, None for an invalid token."""
        if len(authorization) > LONGEST_AUTHORIZATION:
            return None
        if authorization.startswith(b"Bearer ") and authorization.count(b" ") == 1:
            token = authorization[7:].decode(errors="replace").strip()
            return self._user_of(token) if token else ANONYMOUS
        scheme, *rest = authorization.decode(errors="replace").strip().split(" ", 2)
        if scheme.lower() != "bearer" or not rest or not rest[0]:
            return ANONYMOUS
        return self._user_of(rest[0])


def by_certificate(tls: ssl.SSLObject | None) -> CertificateUser:
    """Return the user of the connection's verified client certificate.

    tls: None for a connection without TLS
    """
    der = None if tls is None else tls.getpeercert(binary_form=True)
    if tls is None or der is None:
        return NO_CERTIFICATE
    return certificate_user(tls.getpeercert() or {}, der)


def certificate_user(fields: Mapping[str, Any], der: bytes) -> CertificateUser:
    """Return the user of a certificate: the common name is the user's name, the organizations are the user's groups.

    fields: the certificate as ssl's getpeercert returns it
    der: the certificate in DER
    """
    subject = [part for several in fields.get("subject", ()) for part in several]
    names = [value for name, value in subject if name == "commonName"]
    if not names or not names[-1]:
        return NO_CERTIFICATE
    uids = [value for name, value in subject if name == _UID]
    expires = float(ssl.cert_time_to_seconds(fields["notAfter"])) if "notAfter" in fields else math.inf
    if len(uids) > 1 or "" in uids:
        return CertificateUser(None, expires)
    user = User(
        names[-1],
        uid="".join(uids),
        groups=tuple(value for name, value in subject if name == "organizationName"),
        extra={CREDENTIAL_ID: (f"X509SHA256={hashlib.sha256(der).hexdigest()}",)},
    )
    return CertificateUser(known(user), expires)
