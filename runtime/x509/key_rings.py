"""Certificates and keys that replicas of a server share, and their lifetimes. rotation.py replaces them."""

from __future__ import annotations

from msgspec import Struct

from kcm.protocols.arguments import check_number

DAY = 86_400.0


class KeyRing(Struct, frozen=True, kw_only=True):
    """CAs and a serving certificate, with keys, all in PEM.

    authorities: CAs that clients trust, the newest first.
    authority_key: key of the newest CA.
    certificate, key: the serving certificate.
    """

    authorities: bytes
    authority_key: bytes
    certificate: bytes
    key: bytes


class CertificateLives(Struct, frozen=True, kw_only=True):
    """Lifetimes of the certificates, in seconds.

    serving: of a serving certificate; it is replaced after two thirds of it.
    authority: of a CA; it is replaced after two thirds of it.
    settle: after a new CA was written to all configurations, before certificates of it are used: API servers learn of a
        configuration by a watch.
    overlap: after a certificate of the new CA is used, before the old CA is removed from the configurations.
    """

    serving: float = 30 * DAY
    authority: float = 365 * DAY
    settle: float = 60.0
    overlap: float = 3600.0

    def __post_init__(self) -> None:
        """Check the values. Raises TypeError and ValueError."""
        for name in self.__struct_fields__:
            check_number(f"{name} of CertificateLives", getattr(self, name), above=0)
        if not self.serving <= self.authority:
            raise ValueError("serving of CertificateLives is at most authority: a CA outlives its certificates")
        if not 3 * (self.settle + self.overlap) <= self.serving:
            raise ValueError("settle and overlap of CertificateLives take at most a third of serving")
