"""Certificates and keys, given in place or in a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcm.runtime.client.config import ClientConfig, ConfigError, Credential, Pem


def test_inline_data_is_constant_and_a_file_is_read_each_time(tmp_path: Path) -> None:
    assert Pem(origin="ca", data=b"in place").read() == b"in place"
    path = tmp_path / "ca.crt"
    pem = Pem(origin="ca", path=str(path))
    for content in (b"one", b"two"):
        path.write_bytes(content)
        assert pem.read() == content


@pytest.mark.parametrize("content", [None, b"", b" \n"])
def test_a_missing_or_empty_file_is_an_error_that_names_its_origin(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "ca.crt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=rf"^clusters\[k\].certificate-authority: .*{path}"):
        Pem(origin="clusters[k].certificate-authority", path=str(path)).read()


def test_secrets_are_not_printed() -> None:
    credential = Credential(authorization="Bearer hunter2", key=b"hunter2")
    pem = Pem(origin="users[a].client-key-data", data=b"hunter2")
    config = ClientConfig(
        server="https://api", origin="test", credentials=_Source(), key=pem, proxy="http://u:hunter2@p"
    )
    assert "hunter2" not in f"{credential} {pem} {config}"


class _Source:
    def load(self) -> Credential:
        return Credential()
