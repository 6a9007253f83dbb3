"""Root certificates of the publishers, and errors that prevent the start of controllers."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcm.actors.app.arguments import read_options
from kcm.actors.controllers.identity import root_ca_publisher, tokens
from kcm.actors.controllers.identity.root_ca import check_certificates, check_root_ca
from kcm.actors.simulation.processes import AUTHORITY
from kcm.actors.simulation.trials.identity.key import key_file

KEY = b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"


def trouble(path: str) -> list[str]:
    return list(check_root_ca(read_options([f"--root-ca-file={path}"])))


@pytest.mark.parametrize("text", [b"", b"x", KEY])
def test_file_without_certificate_is_rejected(tmp_path: Path, text: bytes) -> None:
    with pytest.raises(ValueError, match="data does not contain any valid RSA or ECDSA certificates"):
        check_certificates(text)
    path = tmp_path / "ca.crt"
    path.write_bytes(text)
    why = "data does not contain any valid RSA or ECDSA certificates"
    assert trouble(str(path)) == [f"error parsing root-ca-file at {path}: {why}"]


def test_other_blocks_in_the_file_are_ignored(tmp_path: Path) -> None:
    path = tmp_path / "ca.crt"
    path.write_bytes(b"the authority\n" + AUTHORITY + KEY)
    assert trouble(str(path)) == []
    assert trouble("") == []
    path.write_bytes(AUTHORITY.replace(b"MIIB", b"AAAA"))
    [line] = trouble(str(path))
    assert line.startswith(f"error parsing root-ca-file at {path}: ")


def test_error_for_missing_file_contains_its_path() -> None:
    assert trouble("/no/ca.crt") == [
        "error parsing root-ca-file at /no/ca.crt: open /no/ca.crt: no such file or directory"
    ]


def test_unreadable_key_prevents_the_start_of_the_token_controller() -> None:
    def lines(path: str) -> list[str]:
        options = read_options([f"--service-account-private-key-file={path}"])
        return [line for check in tokens.SPEC.start_checks for line in check(options)]

    assert lines(key_file()) == []
    assert lines("/no/key") == [
        "error reading key for service account token controller: open /no/key: no such file or directory"
    ]
    assert check_root_ca in root_ca_publisher.SPEC.start_checks


def test_token_controller_is_enabled_by_its_key_alone() -> None:
    assert tokens.SPEC.by_its_flags_alone
    assert not tokens.SPEC.enabled_if(read_options([]))
    assert tokens.SPEC.enabled_if(read_options([f"--service-account-private-key-file={key_file()}"]))
