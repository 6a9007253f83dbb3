"""TLS versions, ciphers and certificates at the handshake, by flags and current files."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import LogCapture

from kcm.runtime.serving.tls import NamedPair, ServingTls, TlsSettings
from kcm.runtime.serving.tls_names import SUITES, TlsError
from tests.runtime.serving.conftest import FixedClock
from tests.support.certificates import Authority, Pair, client_context, handshake, served_subject


class Today(FixedClock):
    """Clock with the real time, which OpenSSL uses to verify certificates, plus a number of days."""

    def __init__(self) -> None:
        self.later = timedelta()

    def now(self) -> float:
        return (datetime.now(UTC) + self.later).timestamp()


@dataclass(frozen=True, slots=True)
class Rig:
    authority: Authority
    clock: Today
    build: Callable[..., ServingTls]
    logged: LogCapture

    def logged_as(self, event: str) -> list[dict[str, Any]]:
        return [dict(entry) for entry in self.logged.entries if entry["event"] == event]


@pytest.fixture
def rig(tmp_path: Path, log: Any, logged: LogCapture) -> Rig:
    clock = Today()

    def build(**settings: Any) -> ServingTls:
        return ServingTls(TlsSettings(**settings), clock=clock, log=log)

    return Rig(Authority(tmp_path), clock, build, logged)


def files(pair: Pair) -> dict[str, str]:
    return {"certificate": str(pair.certificate), "key": str(pair.key)}


def replace(pair: Pair, by: Pair) -> None:
    os.replace(by.certificate, pair.certificate)
    os.replace(by.key, pair.key)


def version_limited(version: ssl.TLSVersion) -> ssl.SSLContext:
    context = client_context()
    context.maximum_version = version
    return context


def offering(suite: str) -> ssl.SSLContext:
    context = version_limited(ssl.TLSVersion.TLSv1_2)
    context.set_ciphers(f"{suite}:@SECLEVEL=0")
    return context


@pytest.mark.parametrize("min_version, refused", [("VersionTLS13", True), ("VersionTLS12", False), ("", False)])
def test_older_versions_of_tls_are_rejected(rig: Rig, min_version: str, refused: bool) -> None:
    context = rig.build(min_version=min_version).context
    handshake(context, client_context())
    if refused:
        with pytest.raises(ssl.SSLError, match="unsupported protocol"):
            handshake(context, version_limited(ssl.TLSVersion.TLSv1_2))
    else:
        handshake(context, version_limited(ssl.TLSVersion.TLSv1_2))


def test_only_configured_suites_are_offered(rig: Rig) -> None:
    asked = ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "TLS_AES_128_GCM_SHA256")
    context = rig.build(cipher_suites=asked).context
    chosen = handshake(context, version_limited(ssl.TLSVersion.TLSv1_2))[0].cipher()
    assert chosen is not None
    assert chosen[0] == "ECDHE-ECDSA-AES256-GCM-SHA384"
    with pytest.raises(ssl.SSLError):
        handshake(context, offering("ECDHE-ECDSA-AES128-GCM-SHA256"))
    assert handshake(context, client_context())[0].version() == "TLSv1.3"


def test_suites_of_tls_1_3_only_disable_older_versions(rig: Rig) -> None:
    context = rig.build(cipher_suites=("TLS_AES_256_GCM_SHA384",)).context
    with pytest.raises(ssl.SSLError):
        handshake(context, version_limited(ssl.TLSVersion.TLSv1_2))
    handshake(context, client_context())


@pytest.mark.parametrize("suite", sorted(SUITES))
def test_suite_is_offered_or_rejected_by_name(rig: Rig, suite: str) -> None:
    strong = "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"
    if "RC4" in suite or "3DES" in suite:  # removed from OpenSSL
        with pytest.raises(TlsError, match=f"does not offer {suite}$"):
            rig.build(cipher_suites=(strong, suite))
        return
    context = rig.build(cipher_suites=(strong, suite)).context
    offered = {cipher["name"] for cipher in context.get_ciphers() if not cipher["name"].startswith("TLS_")}
    assert offered == {SUITES[strong], SUITES[suite]}


def test_unknown_suite_is_rejected_as_upstream(rig: Rig) -> None:
    with pytest.raises(TlsError, match=r"^Cipher suite TLS_NULL not supported or doesn't exist$"):
        rig.build(cipher_suites=("TLS_NULL",))


def with_curve(name: str) -> ssl.SSLContext:
    context = client_context()
    context.set_ecdh_curve(name)
    return context


def test_only_the_configured_key_exchange_is_offered(rig: Rig) -> None:
    context = rig.build(curves=(24,)).context
    handshake(context, with_curve("secp384r1"))
    with pytest.raises(ssl.SSLError):
        handshake(context, with_curve("prime256v1"))


@pytest.mark.parametrize(
    "curves, fault",
    [
        ((1,), "curve preference 1 is not supported by OpenSSL"),
        ((0,), "curve preference 0 is out of range"),
        ((70000,), "curve preference 70000 is out of range"),
        ((29, 29), "duplicate curve preference 29"),
    ],
)
def test_unknown_key_exchange_is_refused(rig: Rig, curves: tuple[int, ...], fault: str) -> None:
    with pytest.raises(TlsError, match=fault):
        rig.build(curves=curves)


@pytest.mark.skipif(hasattr(ssl.SSLContext, "set_groups"), reason="this Python can offer several")
def test_several_key_exchanges_are_refused_where_python_cannot_offer_them(rig: Rig) -> None:
    with pytest.raises(TlsError, match="--tls-curve-preferences: Python's TLS can offer all key exchanges or a single"):
        rig.build(curves=(29, 23))


def test_a_new_certificate_is_served_at_the_next_handshake(rig: Rig) -> None:
    pair = rig.authority.issue("first", names=("localhost",))
    context = rig.build(**files(pair)).context
    assert served_subject(context) == "first"
    replace(pair, rig.authority.issue("second", names=("localhost",)))
    assert served_subject(context) == "second"
    assert served_subject(context, None) == "second"
    assert len(rig.logged_as("TLS files reloaded")) == 1


def test_incomplete_change_keeps_the_previous_files_and_is_logged_once(rig: Rig) -> None:
    pair = rig.authority.issue("first", names=("localhost",))
    context = rig.build(**files(pair)).context
    second = rig.authority.issue("second", names=("localhost",))
    os.replace(second.certificate, pair.certificate)
    for _ in range(3):
        assert served_subject(context) == "first"
    assert len(rig.logged_as("TLS files not reloaded")) == 1
    os.replace(second.key, pair.key)
    assert served_subject(context) == "second"
    pair.key.unlink()
    assert served_subject(context) == "second"
    (_, missing) = rig.logged_as("TLS files not reloaded")
    assert missing["error"] == f"{pair.key}: No such file or directory"


def test_self_signed_certificate_is_renewed_while_serving(rig: Rig, tmp_path: Path) -> None:
    for settings in ({}, {"directory": str(tmp_path / "kept")}):
        rig.clock.later = timedelta()
        context = rig.build(**settings).context
        first = served_subject(context)
        rig.clock.later = timedelta(days=334)
        assert served_subject(context) == first
        rig.clock.later = timedelta(days=336)
        assert served_subject(context) != first


def test_expired_certificate_is_logged(rig: Rig) -> None:
    ended = rig.authority.issue("old", names=("localhost",), end=datetime.now(UTC) - timedelta(days=1))
    rig.build(**files(ended))
    (entry,) = rig.logged_as("serving certificate has expired")
    assert entry["subject"] == "CN=old"


@pytest.mark.parametrize(
    "server_name, served",
    [
        ("a.example", "exact"),
        ("A.Example.", "exact"),
        ("b.example", "wild"),
        ("c.b.example", "default"),
        ("of-its-own.example", "unnamed"),
        ("unnamed", "unnamed"),
        ("taken.example", "exact"),
        ("localhost", "default"),
        (None, "default"),
    ],
)
def test_pair_is_chosen_by_the_server_name_of_the_client(rig: Rig, server_name: str | None, served: str) -> None:
    def named(common_name: str, *names: str, of_certificate: str = "any.example") -> NamedPair:
        return NamedPair(**files(rig.authority.issue(common_name, names=(of_certificate,))), names=names)

    context = rig.build(
        **files(rig.authority.issue("default", names=("localhost",))),
        named=(
            named("unnamed", of_certificate="of-its-own.example"),
            named("wild", "*.example"),
            named("exact", "a.example", "taken.example"),
            named("late", "a.example"),
        ),
    ).context
    assert served_subject(context, server_name) == served


def test_address_as_sni_name_is_an_error(rig: Rig) -> None:
    pair = rig.authority.issue("some", names=("some",))
    with pytest.raises(TlsError, match=r"--tls-sni-cert-key: 10\.0\.0\.1 is an address"):
        rig.build(named=(NamedPair(**files(pair), names=("10.0.0.1",)),))


def test_a_named_pair_is_read_again_when_it_changes(rig: Rig) -> None:
    pair = rig.authority.issue("first", names=("a.example",))
    context = rig.build(named=(NamedPair(**files(pair)),)).context
    assert served_subject(context, "a.example") == "first"
    replace(pair, rig.authority.issue("second", names=("a.example",)))
    assert served_subject(context, "a.example") == "second"


def test_a_client_certificate_of_another_authority_fails_the_handshake(rig: Rig, tmp_path: Path) -> None:
    context = rig.build(clients=str(rig.authority.file)).context
    handshake(context, client_context())
    _, end = handshake(context, client_context(pair=rig.authority.issue("admin")))
    assert end.getpeercert(binary_form=True) is not None
    stranger = Authority(tmp_path, "stranger").issue("admin", file="stranger")
    with pytest.raises(ssl.SSLError):
        handshake(context, client_context(pair=stranger))


def test_replaced_client_authority_is_not_trusted(rig: Rig, tmp_path: Path) -> None:
    tls = rig.build(clients=str(rig.authority.file))
    before = client_context(pair=rig.authority.issue("admin"))
    handshake(tls.context, before)
    other = Authority(tmp_path, "other")
    os.replace(other.file, rig.authority.file)
    assert tls.clients() == (other.certificate,)
    with pytest.raises(ssl.SSLError):
        handshake(tls.context, before)
    handshake(tls.context, client_context(pair=other.issue("admin")))


@pytest.mark.parametrize("content, fault", [(None, "No such file"), (b"", "no certificates in it")])
def test_file_without_authorities_is_reported(rig: Rig, tmp_path: Path, content: bytes | None, fault: str) -> None:
    path = tmp_path / "ca.crt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(TlsError, match=rf"ca\.crt: {fault}"):
        rig.build(clients=str(path))
