from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from cryptography.hazmat.primitives import serialization
from structlog.testing import LogCapture

from kcm.runtime.apiserver.process.certificates import Certificates, KeyPair
from kcm.runtime.client.config import ConfigError, Credential, Pem
from kcm.runtime.client.tls import CHECK_EVERY

Connect = Callable[..., Any]


async def who(request: web.BaseRequest) -> web.Response:
    """Respond with the common name in the client's certificate."""
    assert request.transport is not None
    certificate = request.transport.get_extra_info("peercert") or {}
    names = dict(pair for part in certificate.get("subject", ()) for pair in part)
    return web.Response(text=names.get("commonName", "nobody"))


def authority(certificates: Certificates) -> Pem:
    return Pem(origin="clusters[k].certificate-authority", path=str(certificates.authority.certificate))


def pair(files: KeyPair) -> dict[str, Pem]:
    return {
        "certificate": Pem(origin="users[a].client-certificate", path=str(files.certificate)),
        "key": Pem(origin="users[a].client-key-data", data=files.key.read_bytes()),
    }


def test_client_certificate_authenticates_the_client(
    connect: Connect, loopback: Any, server_tls: ssl.SSLContext, certificates: Certificates
) -> None:
    url = loopback.serve(who, tls=server_tls)
    config = {"ca": authority(certificates), **pair(certificates.admin)}
    assert connect(url, config=config).request("GET").body == b"kubernetes-admin"
    assert connect(url, config={"ca": authority(certificates)}).request("GET").body == b"nobody"


def test_plugins_certificate_overrides_the_configured_one(
    connect: Connect, loopback: Any, server_tls: ssl.SSLContext, certificates: Certificates
) -> None:
    class Source:
        def load(self) -> Credential:
            admin = certificates.admin
            return Credential(certificate=admin.certificate.read_bytes(), key=admin.key.read_bytes())

    config = {"ca": authority(certificates), **pair(certificates.serving), "credentials": Source()}
    client = connect(loopback.serve(who, tls=server_tls), config=config)
    assert client.request("GET").body == b"kubernetes-admin"


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({}, "certificate verify failed: "),
        ({"verify": False}, ""),
        ({"ca": "right"}, ""),
        ({"ca": "right", "tls_server_name": "kubernetes.default.svc"}, ""),
        (
            {"ca": "right", "tls_server_name": "example.com"},
            "certificate verify failed: no alternative certificate subject name matches target ",
        ),
        ({"ca": "other"}, "certificate verify failed: "),
    ],
)
def test_a_server_is_trusted_by_its_authority_and_its_name(
    connect: Connect,
    loopback: Any,
    server_tls: ssl.SSLContext,
    certificates: Certificates,
    other_certificates: Certificates,
    fields: dict[str, Any],
    says: str,
) -> None:
    authorities = {"right": authority(certificates), "other": authority(other_certificates)}
    config = {**fields, **({"ca": authorities[fields["ca"]]} if "ca" in fields else {})}
    url = loopback.serve(who, tls=server_tls)
    response = connect(url, config=config).request("POST")
    if says:
        assert (response.status, response.sent) == (0, False)
        assert response.error.startswith(f"cannot connect to {url}: {says}")
        assert "\n" not in response.error
    else:
        assert response.status == 200


def test_system_authorities_are_trusted_only_if_none_is_configured(
    connect: Connect,
    loopback: Any,
    server_tls: ssl.SSLContext,
    certificates: Certificates,
    other_certificates: Certificates,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.authority.certificate))
    url = loopback.serve(who, tls=server_tls)
    assert connect(url).request("GET").status == 200
    response = connect(url, config={"ca": authority(other_certificates)}).request("GET")
    assert response.error.startswith(f"cannot connect to {url}: certificate verify failed: ")


def test_https_to_a_plain_http_server_is_reported(connect: Connect, loopback: Any) -> None:
    url = loopback.serve(who).replace("http://", "https://")
    response = connect(url, config={"verify": False}).request("GET")
    assert (response.status, response.sent) == (0, False)
    assert response.error.startswith(f"cannot connect to {url}: ")


def test_changed_authority_file_is_read_again(
    connect: Connect,
    loopback: Any,
    server_tls: ssl.SSLContext,
    certificates: Certificates,
    other_certificates: Certificates,
    hand_clock: Any,
    logs: LogCapture,
    tmp_path: Path,
) -> None:
    path = tmp_path / "ca.crt"
    path.write_bytes(other_certificates.authority.certificate.read_bytes())
    config = {"ca": Pem(origin="ca", path=str(path))}
    client = connect(loopback.serve(who, tls=server_tls), config=config, clock=hand_clock)
    assert client.request("GET").status == 0

    path.write_text("half a certif")
    hand_clock.advance(CHECK_EVERY)
    assert "certificate verify failed" in client.request("GET").error
    assert [entry["event"] for entry in logs.entries] == ["TLS files not reloaded"]

    path.write_bytes(certificates.authority.certificate.read_bytes())
    assert client.request("GET").status == 0  # the file is not due to be read again
    hand_clock.advance(CHECK_EVERY)
    assert client.request("GET").status == 200


def test_changed_client_certificate_is_used_for_new_connections(
    connect: Connect,
    loopback: Any,
    server_tls: ssl.SSLContext,
    certificates: Certificates,
    hand_clock: Any,
    tmp_path: Path,
) -> None:
    server_tls.verify_mode = ssl.CERT_OPTIONAL
    certificate, key = tmp_path / "me.crt", tmp_path / "me.key"

    def put(files: KeyPair) -> None:
        certificate.write_bytes(files.certificate.read_bytes())
        key.write_bytes(files.key.read_bytes())

    put(certificates.admin)
    config = {
        "verify": False,
        "certificate": Pem(origin="c", path=str(certificate)),
        "key": Pem(origin="k", path=str(key)),
    }
    client = connect(loopback.serve(who, tls=server_tls), config=config, clock=hand_clock)
    assert client.request("GET").body == b"kubernetes-admin"
    put(certificates.authority)
    hand_clock.advance(CHECK_EVERY)
    assert client.request("GET").body == b"kcm-embedded-ca"


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"ca": Pem(origin="here", data=b"no PEM")}, "here: no certificate in it: "),
        ({"ca": Pem(origin="here", path="/no/such/ca.crt")}, "here: cannot read /no/such/ca.crt: No such file"),
        ({"ca": Pem(origin="here", data=b" \n")}, "here: the value is empty"),
        (
            {"certificate": Pem(origin="here", data=b"no"), "key": Pem(origin="there", data=b"PEM")},
            "here: not a certificate with its key: ",
        ),
    ],
)
def test_unusable_files_are_reported_at_the_start(connect: Connect, fields: dict[str, Pem], says: str) -> None:
    with pytest.raises(ConfigError) as error:
        connect("https://127.0.0.1:1", config=fields)
    assert str(error.value).startswith(says)
    assert "\n" not in str(error.value)


def test_wrong_or_encrypted_key_is_reported_at_the_start(connect: Connect, certificates: Certificates) -> None:
    certificate = Pem(origin="here", data=certificates.admin.certificate.read_bytes())
    key = serialization.load_pem_private_key(certificates.admin.key.read_bytes(), password=None)
    locked = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    for data, says in (
        (certificates.serving.key.read_bytes(), "here: not a certificate with its key: key values mismatch"),
        (locked, "here: its key is encrypted, which is not supported"),
    ):
        with pytest.raises(ConfigError) as error:
            connect("https://127.0.0.1:1", config={"certificate": certificate, "key": Pem(origin="there", data=data)})
        assert str(error.value) == says


def test_inline_key_leaves_no_file_behind(
    connect: Connect, certificates: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    connect("https://127.0.0.1:1", config=pair(certificates.admin))
    assert list(tmp_path.iterdir()) == []
