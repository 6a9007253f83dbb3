import ssl
import stat
import time  # OpenSSL uses the system clock
from pathlib import Path

import pytest

from kcm.runtime.apiserver.process.certificates import Certificates, KeyPair, ensure_certificates

NOW = 1_900_000_000.0
DAY = 86_400.0


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_the_files_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    ensure_certificates(tmp_path, now=NOW)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == dict.fromkeys(("ca.crt", "ca.key", "server.crt", "server.key", "admin.crt", "admin.key"), 0o600)


def test_valid_certificates_are_reused(tmp_path: Path) -> None:
    ensure_certificates(tmp_path, now=NOW)
    before = contents(tmp_path)
    ensure_certificates(tmp_path, now=NOW + 300 * DAY)
    assert contents(tmp_path) == before


def changed(before: dict[str, bytes], after: dict[str, bytes]) -> set[str]:
    return {name.partition(".")[0] for name in after if before.get(name) != after[name]}


def test_leaf_certificates_are_renewed_a_month_before_expiry(tmp_path: Path) -> None:
    ensure_certificates(tmp_path, now=NOW)
    before = contents(tmp_path)
    ensure_certificates(tmp_path, now=NOW + 336 * DAY)
    assert changed(before, contents(tmp_path)) == {"server", "admin"}


@pytest.mark.parametrize(
    "spoil, renewed",
    [
        ("ca.key", {"ca", "server", "admin"}),
        ("server.crt", {"server"}),
        ("admin.key", {"admin"}),
    ],
)
def test_broken_file_is_replaced_with_all_that_depend_on_it(tmp_path: Path, spoil: str, renewed: set[str]) -> None:
    ensure_certificates(tmp_path, now=NOW)
    before = contents(tmp_path)
    (tmp_path / spoil).write_bytes(b"not PEM")
    ensure_certificates(tmp_path, now=NOW)
    assert changed(before, contents(tmp_path)) == renewed


def test_key_that_does_not_match_its_certificate_is_replaced(tmp_path: Path) -> None:
    ensure_certificates(tmp_path, now=NOW)
    (tmp_path / "server.key").write_bytes((tmp_path / "admin.key").read_bytes())
    before = contents(tmp_path)
    ensure_certificates(tmp_path, now=NOW)
    assert changed(before, contents(tmp_path)) == {"server"}


def handshake(files: Certificates, *, name: str, client: KeyPair | None) -> dict[str, object] | None:
    """Return the peer certificate that a server sees after a handshake over in-memory TLS."""
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(files.serving.certificate, files.serving.key)
    server_side.load_verify_locations(files.authority.certificate)
    server_side.verify_mode = ssl.CERT_OPTIONAL
    client_side = ssl.create_default_context(cafile=str(files.authority.certificate))
    client_side.verify_flags |= ssl.VERIFY_X509_STRICT
    if client is not None:
        client_side.load_cert_chain(client.certificate, client.key)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = server_side.wrap_bio(to_server, to_client, server_side=True)
    other = client_side.wrap_bio(to_client, to_server, server_hostname=name)
    done = {"server": False, "client": False}
    for _ in range(10):
        for who, end in (("client", other), ("server", server)):
            try:
                end.do_handshake()
                done[who] = True
            except ssl.SSLWantReadError:
                continue
        if all(done.values()):
            return server.getpeercert()
    raise AssertionError("the handshake does not end")


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "::1"])
def test_a_strict_client_trusts_the_server_on_loopback(tmp_path: Path, name: str) -> None:

    files = ensure_certificates(tmp_path, now=time.time())
    assert not handshake(files, name=name, client=None)


def test_the_admins_certificate_names_the_admin(tmp_path: Path) -> None:

    files = ensure_certificates(tmp_path, now=time.time())
    seen = handshake(files, name="localhost", client=files.admin)
    assert seen is not None
    assert seen["subject"] == ((("organizationName", "system:masters"),), (("commonName", "kubernetes-admin"),))
