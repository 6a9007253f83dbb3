"""Certificates of the serving port."""

from __future__ import annotations

import ssl
import stat
from pathlib import Path

import pytest
from cryptography import x509

from runtime.serving.certificates import CertificateError, self_signed, server_context

NOW = 1763726400.0


def test_a_self_signed_certificate_is_for_localhost() -> None:
    certificate = x509.load_pem_x509_certificate(self_signed(now=NOW)[0])
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]
    assert certificate.not_valid_before_utc.timestamp() < NOW < certificate.not_valid_after_utc.timestamp()


def test_a_pair_in_a_directory_is_made_once_and_its_key_is_private(tmp_path: Path) -> None:
    directory = tmp_path / "certificates"
    server_context(certificate="", key="", directory=str(directory), now=NOW)
    key = directory / "kube-controller-manager.key"
    made = key.read_bytes()
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    server_context(certificate="", key="", directory=str(directory), now=NOW)
    assert key.read_bytes() == made


@pytest.mark.parametrize(
    "min_version, refused",
    [("", ssl.TLSVersion.TLSv1_1), ("VersionTLS12", ssl.TLSVersion.TLSv1_1), ("VersionTLS13", ssl.TLSVersion.TLSv1_2)],
)
def test_older_versions_of_tls_are_not_talked(min_version: str, refused: ssl.TLSVersion) -> None:
    context = server_context(certificate="", key="", directory="", now=NOW, min_version=min_version)
    assert context.minimum_version > refused


def test_a_certificate_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    certificate, key = self_signed(now=NOW)
    other = self_signed(now=NOW)[1]
    for name, content in (("c.crt", certificate), ("c.key", key), ("o.key", other), ("bad", b"bad")):
        (tmp_path / name).write_bytes(content)

    def context(certificate_name: str, key_name: str) -> ssl.SSLContext:
        return server_context(
            certificate=str(tmp_path / certificate_name), key=str(tmp_path / key_name), directory="", now=NOW
        )

    assert context("c.crt", "c.key").minimum_version >= ssl.TLSVersion.TLSv1_2
    with pytest.raises(CertificateError, match=r"none\.crt: No such file"):
        context("none.crt", "c.key")
    for pair in (("bad", "c.key"), ("c.crt", "bad"), ("c.crt", "o.key")):
        with pytest.raises(CertificateError, match="are no certificate and its key"):
            context(*pair)
