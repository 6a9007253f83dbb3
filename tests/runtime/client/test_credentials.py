"""A bearer token that is read from a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcm.runtime.client.config import ConfigError, Credential
from kcm.runtime.client.credentials import TOKEN_FILE_PERIOD, TokenFile


def test_a_token_file_is_read_anew_each_time_it_is_asked(tmp_path: Path) -> None:
    path = tmp_path / "token"
    source = TokenFile(str(path), origin="users[a].tokenFile")
    path.write_text(" one\n")
    assert source.load() == Credential(authorization="Bearer one", lifetime=TOKEN_FILE_PERIOD)
    path.write_text("two")
    assert source.load() == Credential(authorization="Bearer two", lifetime=TOKEN_FILE_PERIOD)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "cannot read .*: No such file"),
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b"a b", "not a bearer token"),
        (b"\xff\xfe", "not a bearer token"),
    ],
)
def test_a_token_file_without_a_token_is_named(tmp_path: Path, content: bytes | None, says: str) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=f"^users.a..tokenFile: .*{says}"):
        TokenFile(str(path), origin="users[a].tokenFile").load()
