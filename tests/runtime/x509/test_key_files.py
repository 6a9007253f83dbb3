"""Keys in files that are replaced while they are in use."""

from __future__ import annotations

from pathlib import Path

import pytest
import structlog
from structlog.testing import LogCapture

from kcm.runtime.simulation.keys import PemKeyPair, authority_pair, request_pem
from kcm.runtime.x509.authority import AuthorityError
from kcm.runtime.x509.key_files import KeyFiles, KeyFilesError

FIRST, SECOND = (authority_pair(name, begin=0.0, end=4e9) for name in ("first", "second"))


class Disk:
    def __init__(self, directory: Path) -> None:
        self.certificate, self.key = directory / "ca.crt", directory / "ca.key"
        self.logs = LogCapture()
        log = structlog.wrap_logger(None, processors=[self.logs])
        self.files = KeyFiles(str(self.certificate), str(self.key), log=log)

    def write(self, pair: PemKeyPair) -> None:
        self.certificate.write_bytes(pair.certificate)
        self.key.write_bytes(pair.key)

    @property
    def issuer(self) -> str:
        return self.files.authority().certificate.subject.rfc4514_string()

    @property
    def logged(self) -> list[tuple[str, str]]:
        return [(entry["log_level"], entry["event"]) for entry in self.logs.entries]


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    made = Disk(tmp_path)
    made.write(FIRST)
    return made


def test_replaced_pair_is_used_for_signing(disk: Disk) -> None:
    assert disk.issuer == "CN=first"
    assert disk.issuer == "CN=first"
    disk.write(SECOND)
    assert disk.issuer == "CN=second"
    assert disk.logged == 2 * [("info", "Loaded a new cert/key pair")]
    assert b"BEGIN CERTIFICATE" in disk.files.sign(request_pem("jane"), ["client auth"], 3600.0, 1_800_000_000.0)


@pytest.mark.parametrize("halfway", ["certificate", "key", "missing", "empty"])
def test_previous_pair_signs_while_the_files_are_inconsistent(disk: Disk, halfway: str) -> None:
    assert disk.issuer == "CN=first"
    if halfway == "certificate":
        disk.certificate.write_bytes(SECOND.certificate)
    elif halfway == "key":
        disk.key.write_bytes(SECOND.key)
    elif halfway == "missing":
        disk.key.unlink()
    else:
        disk.key.write_bytes(b"")
    assert disk.issuer == "CN=first"
    assert disk.issuer == "CN=first"
    assert disk.logged[1:] == [("error", "cert/key pair not reloaded, using the previous one")]
    disk.write(SECOND)
    assert disk.issuer == "CN=second"


def test_two_certificates_in_one_file_sign_nothing(disk: Disk) -> None:
    assert disk.issuer == "CN=first"
    disk.certificate.write_bytes(FIRST.certificate + SECOND.certificate)
    with pytest.raises(AuthorityError, match="expected 1 certificate, found 2"):
        disk.files.authority()
    disk.write(FIRST)
    assert disk.issuer == "CN=first"


def test_missing_files_are_an_error(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    with pytest.raises(KeyFilesError) as missing:
        disk.files.authority()
    assert str(missing.value) == (
        f'error reading CA cert file "{disk.certificate}": open {disk.certificate}: no such file or directory'
    )
    disk.certificate.write_bytes(FIRST.certificate)
    disk.key.write_bytes(b"")
    with pytest.raises(KeyFilesError, match='missing content for serving cert "csr-controller"'):
        disk.files.authority()
