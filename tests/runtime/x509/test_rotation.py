"""Rotation of a CA: a client with the published bundle trusts every server at every moment."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kcm.runtime.simulation.keys import private_key
from kcm.runtime.x509.certificates import new_key
from kcm.runtime.x509.key_rings import CertificateLives, KeyRing
from kcm.runtime.x509.rotation import (
    RotationStep,
    authorities_in,
    end_of,
    is_trusted,
    is_valid_ring,
    next_ring,
)

HOST = "hooks.shop.svc"
LIVES = CertificateLives(serving=3000.0, authority=9000.0, settle=60.0, overlap=600.0)
START = 1_800_000_000.0


def keys() -> Callable[[], ed25519.Ed25519PrivateKey]:
    numbers = itertools.count()
    return lambda: private_key(f"key {next(numbers)}")


NEW_KEY = keys()


def step(ring: KeyRing | None, now: float, *, published: bool = True, names: tuple[str, ...] = (HOST,)) -> RotationStep:
    return next_ring(ring, names=names, lives=LIVES, now=now, is_published=published, new_key=NEW_KEY)


def test_the_first_ring_is_trusted_by_its_own_bundle() -> None:
    decision = step(None, START)
    assert decision.what == ("created a CA", "issued a serving certificate")
    assert is_valid_ring(decision.ring)
    assert is_trusted(decision.ring.certificate, decision.ring.authorities, host=HOST, now=START) == ""
    assert decision.due == pytest.approx(START + 2000, abs=1)
    assert step(decision.ring, START + 1).ring is decision.ring


def test_keys_of_production_work_as_well() -> None:
    made = next_ring(None, names=(HOST, "10.0.0.1"), lives=LIVES, now=START, is_published=True, new_key=new_key).ring
    for host in (HOST, "10.0.0.1"):
        assert is_trusted(made.certificate, made.authorities, host=host, now=START) == ""


def test_a_serving_certificate_is_renewed_by_the_same_ca() -> None:
    ring = step(None, START).ring
    assert step(ring, START + 1990).what == ()
    renewed = step(ring, START + 2001)
    assert renewed.what == ("issued a serving certificate",)
    assert renewed.ring.authorities == ring.authorities
    assert end_of(renewed.ring.certificate) == pytest.approx(START + 5001, abs=1)


def test_a_new_ca_is_used_only_after_it_was_published_and_settled() -> None:
    ring = step(None, START).ring
    now = START + 6001
    ring = step(ring, now - 10).ring  # its serving certificate is new
    with_new = step(ring, now, published=True)
    assert with_new.what == ("created a CA",)
    assert with_new.ring.certificate == ring.certificate
    assert len(authorities_in(with_new.ring.authorities)) == 2
    assert authorities_in(ring.authorities) < authorities_in(with_new.ring.authorities)
    assert with_new.due == pytest.approx(now + 60, abs=1)
    assert step(with_new.ring, now + 1000, published=False).what == ()
    assert step(with_new.ring, now + 50).what == ()
    in_use = step(with_new.ring, now + 61)
    assert in_use.what == ("issued a serving certificate",)
    assert step(in_use.ring, now + 600).what == ()
    done = step(in_use.ring, now + 662)
    assert done.what == ("removed the previous CA",)
    assert len(authorities_in(done.ring.authorities)) == 1
    assert is_trusted(done.ring.certificate, done.ring.authorities, host=HOST, now=now + 662) == ""


def recent(history: list[tuple[float, bytes]], within: float, now: float) -> set[bytes]:
    """Return the values that were current within the last seconds. history: (since, value)."""
    ends = [since for since, _ in history[1:]] + [now]
    return {value for (_, value), end in zip(history, ends, strict=True) if end > now - within or end == now}


@given(st.lists(st.tuples(st.floats(1, 200), st.booleans()), min_size=20, max_size=150))
def test_lagging_clients_trust_lagging_servers_throughout_all_rotations(steps: list[tuple[float, bool]]) -> None:
    """API servers lag by less than `settle`, servers by less than `overlap`, and publishing may fail at any time."""
    now = START
    ring = step(None, now).ring
    bundles, certificates = [(now, ring.authorities)], [(now, ring.certificate)]
    for seconds, publishing_works in steps:
        now += seconds
        is_published = authorities_in(ring.authorities) <= authorities_in(bundles[-1][1])
        decision = step(ring, now, published=is_published)
        assert decision.due > now
        ring = decision.ring
        if publishing_works:
            bundles.append((now, ring.authorities))
        if ring.certificate != certificates[-1][1]:
            certificates.append((now, ring.certificate))
        for bundle in recent(bundles, LIVES.settle, now):
            for certificate in recent(certificates, LIVES.overlap, now):
                if now < end_of(certificate):
                    assert is_trusted(certificate, bundle, host=HOST, now=now) == ""


@pytest.mark.parametrize("field", KeyRing.__struct_fields__)
@pytest.mark.parametrize("content", [b"", b"text"])
def test_a_malformed_ring_is_replaced(field: str, content: bytes) -> None:
    ring = replace(step(None, START).ring, **{field: content})
    assert not is_valid_ring(ring)
    assert is_valid_ring(step(ring, START).ring)


def test_a_key_that_does_not_belong_to_its_certificate_is_malformed() -> None:
    first, second = step(None, START).ring, step(None, START).ring
    assert not is_valid_ring(replace(first, key=second.key))
    assert not is_valid_ring(replace(first, authority_key=second.authority_key))


def test_a_changed_name_is_issued_at_once() -> None:
    ring = step(None, START).ring
    changed = step(ring, START + 5, names=("other.shop.svc",))
    assert changed.what == ("issued a serving certificate",)
    assert is_trusted(changed.ring.certificate, ring.authorities, host="other.shop.svc", now=START + 5) == ""


def test_an_expired_ca_is_replaced_at_once() -> None:
    ring = step(None, START).ring
    assert step(ring, START + 9001).what == ("created a CA", "issued a serving certificate")


def test_clients_refuse_what_they_cannot_trust() -> None:
    ring, other = step(None, START).ring, step(None, START).ring
    now = START + 1
    assert is_trusted(b"", ring.authorities, host=HOST, now=now) == "the server has no certificate"
    assert "unknown authority" in is_trusted(other.certificate, ring.authorities, host=HOST, now=now)
    assert "expired" in is_trusted(ring.certificate, ring.authorities, host=HOST, now=START + 3001)
    assert "host name" in is_trusted(ring.certificate, ring.authorities, host="other", now=now)
