"""Metrics of the client certificates that exec credential plugins print.

Source: kubernetes v1.36 client-go/plugin/pkg/client/auth/exec/{exec,metrics}.go.
"""

from __future__ import annotations

import math

from kcm.runtime.metrics.families import EXEC_PLUGIN_CERTIFICATE_AGE, EXEC_PLUGIN_TTL
from kcm.runtime.metrics.registry import Metrics
from kcm.runtime.scheduling.clock import Clock


class ExecCertificates:
    """Client certificates of one exec plugin, one after the other.

    The gauge of their remaining lifetime shows the shortest one of all plugins.
    """

    def __init__(self, metrics: Metrics, clock: Clock) -> None:
        self._clock = clock
        self._pem = b""
        self._begin, self._end = math.nan, math.inf  # Unix seconds
        self._ages = metrics.histogram(EXEC_PLUGIN_CERTIFICATE_AGE)
        metrics.gauge(EXEC_PLUGIN_TTL).read_least(lambda: self._end - self._clock.now())

    def loaded(self, pem: bytes) -> None:
        """Take the certificate that the plugin has just printed, b"" if none; observe the age of the one it replaces.

        A malformed certificate counts as none.
        """
        if pem == self._pem:
            return
        if not math.isnan(self._begin):
            self._ages.observe(self._clock.now() - self._begin)
        self._pem, (self._begin, self._end) = pem, _validity(pem)


def _validity(pem: bytes) -> tuple[float, float]:
    """Return the begin and the end of a certificate's validity in Unix seconds; NaN and infinity without one."""
    if not pem:
        return math.nan, math.inf
    from cryptography import x509

    try:
        leaf = x509.load_pem_x509_certificate(pem)
    except ValueError:
        return math.nan, math.inf
    return leaf.not_valid_before_utc.timestamp(), leaf.not_valid_after_utc.timestamp()
