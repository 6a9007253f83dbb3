"""Metrics of client certificates that exec plugins print."""

from __future__ import annotations

import math
from datetime import UTC, datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from kcm.runtime.client.exec_certificates import ExecCertificates
from kcm.runtime.metrics.families import EXEC_PLUGIN_CERTIFICATE_AGE, EXEC_PLUGIN_TTL
from kcm.runtime.metrics.registry import Metrics
from kcm.runtime.simulation.clock import VirtualClock
from kcm.runtime.x509.certificates import BACKDATE, LEAF_LIFE, certificate_builder, new_key, subject_name

LIFE = LEAF_LIFE.total_seconds()


def certificate(at: float) -> bytes:
    """Return a certificate in PEM that is valid from an hour before `at` (Unix seconds) for a year."""
    key, name = new_key(), subject_name("plugin")
    builder = certificate_builder(name, name, key, at=datetime.fromtimestamp(at, UTC), life=LEAF_LIFE)
    signed: x509.Certificate = builder.sign(key, hashes.SHA256())
    return signed.public_bytes(serialization.Encoding.PEM)


def test_shortest_remaining_lifetime_of_all_plugins_is_shown() -> None:
    metrics, clock = Metrics(), VirtualClock()
    ttl = metrics.gauge(EXEC_PLUGIN_TTL)
    plugins = [ExecCertificates(metrics, clock) for _ in range(3)]
    assert ttl.value == math.inf, "no plugin has printed a certificate"
    now = float(int(clock.now()))
    plugins[0].loaded(certificate(now + 600.0))
    plugins[1].loaded(certificate(now))
    plugins[2].loaded(b"")
    assert ttl.value == now + LIFE - clock.now()
    plugins[1].loaded(certificate(now + 7200.0))
    assert ttl.value == now + 600.0 + LIFE - clock.now()


def test_replaced_certificate_is_observed_with_its_age() -> None:
    metrics, clock = Metrics(), VirtualClock()
    ages = metrics.histogram(EXEC_PLUGIN_CERTIFICATE_AGE)
    plugin = ExecCertificates(metrics, clock)
    now = float(int(clock.now()))
    first = certificate(now)
    for pem in (b"", b"malformed", first, first):
        plugin.loaded(pem)
    assert sum(ages.counts) == 0
    plugin.loaded(certificate(now + 1.0))
    assert (sum(ages.counts), ages.sum) == (1, clock.now() - now + BACKDATE.total_seconds())
