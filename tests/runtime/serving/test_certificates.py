"""Certificates of the serving port."""

from __future__ import annotations

import ssl
import stat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from kcm.runtime.serving.certificates import PairInDirectory, PairInFiles, PairInMemory, self_signed
from kcm.runtime.serving.tls_names import TlsError
from kcm.runtime.x509.certificates import LEAF_LIFE, RENEW_BEFORE
from tests.support.certificates import Authority

NOW = 1763726400.0
RENEWED_AT = NOW + (LEAF_LIFE - RENEW_BEFORE).total_seconds()


class Now:
    def __init__(self) -> None:
        self.seconds = NOW

    def __call__(self) -> float:
        return self.seconds


def empty_context() -> ssl.SSLContext:
    return ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)


def test_self_signed_certificate_is_valid_for_localhost() -> None:
    certificate = x509.load_pem_x509_certificate(self_signed(now=NOW)[0])
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]
    assert certificate.not_valid_before_utc.timestamp() < NOW < certificate.not_valid_after_utc.timestamp()


def test_pair_in_memory_is_renewed_before_it_expires() -> None:
    now = Now()
    pair = PairInMemory(now=now)
    first = pair.load(empty_context())
    stamp = pair.stamp()
    now.seconds = RENEWED_AT - 1
    assert pair.stamp() == stamp
    now.seconds = RENEWED_AT
    assert pair.stamp() != stamp
    renewed = pair.load(empty_context())
    assert renewed.not_valid_after_utc - first.not_valid_after_utc == LEAF_LIFE - RENEW_BEFORE


def test_pair_in_a_directory_is_created_once_with_a_private_key_file(tmp_path: Path) -> None:
    directory = tmp_path / "certificates"
    first = PairInDirectory(str(directory), now=Now()).stamp()
    key = directory / "kube-controller-manager.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert PairInDirectory(str(directory), now=Now()).stamp() == first


def test_self_signed_pair_in_a_directory_is_renewed_before_and_after_it_expires(tmp_path: Path) -> None:
    now = Now()
    pair = PairInDirectory(str(tmp_path), now=now)
    first = pair.stamp()
    now.seconds = RENEWED_AT
    second = pair.stamp()
    assert second not in (first, None)
    assert pair.load(empty_context()).not_valid_before_utc.timestamp() == RENEWED_AT - 3600
    now.seconds += LEAF_LIFE.total_seconds() * 2
    assert PairInDirectory(str(tmp_path), now=now).stamp() != second


def test_pair_of_the_operator_is_not_renewed(tmp_path: Path) -> None:
    pair = Authority(tmp_path).issue("kcm.example", names=("kcm.example",), file="kube-controller-manager")
    pair.certificate.rename(tmp_path / "kube-controller-manager.crt")
    now = Now()
    now.seconds *= 2  # after it has expired
    held = PairInDirectory(str(tmp_path), now=now)
    stamp = held.stamp()
    assert held.stamp() == stamp
    assert "kcm.example" in held.load(empty_context()).subject.rfc4514_string()


def test_unwritable_directory_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TlsError, match=r"/file/certificates: Not a directory"):
        PairInDirectory(str(tmp_path / "file" / "certificates"), now=Now()).stamp()


def test_unusable_pair_is_reported(tmp_path: Path) -> None:
    certificate, key = self_signed(now=NOW)
    other = self_signed(now=NOW)[1]
    encrypted = serialization.load_pem_private_key(key, password=None).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    contents = {"c.crt": certificate, "c.key": key, "o.key": other, "bad": b"bad", "e.key": encrypted}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)

    def load(certificate_name: str, key_name: str) -> None:
        PairInFiles(str(tmp_path / certificate_name), str(tmp_path / key_name)).load(empty_context())

    load("c.crt", "c.key")
    with pytest.raises(TlsError, match=r"none\.crt: No such file"):
        load("none.crt", "c.key")
    with pytest.raises(TlsError, match=r"e\.key: it is encrypted"):
        load("c.crt", "e.key")
    for pair in (("bad", "c.key"), ("c.crt", "bad"), ("c.crt", "o.key")):
        with pytest.raises(TlsError, match="are not a certificate and its key"):
            load(*pair)
