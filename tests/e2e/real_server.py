"""Temporary kube-apiserver with its etcd on loopback, from the binaries in KUBEBUILDER_ASSETS."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tests.e2e.kubectl import Api
from tests.e2e.programs import CONTROLLERS, Program, ending, free_port, spawn, until

TOKEN = "admin-token"
MANAGER_TOKEN = "manager-token"  # of the user system:kube-controller-manager
VALID = timedelta(days=2)
# No controller runs that creates service accounts, or removes the taint of new nodes.
NOT_ADMITTING = ("ServiceAccount", "TaintNodesByCondition")


def binaries() -> Path | None:
    """Return the directory of the binaries, as for envtest, or None if there is no kube-apiserver."""
    directory = Path(os.environ.get("KUBEBUILDER_ASSETS", "/usr/local/kubebuilder/bin"))
    return directory if (directory / "kube-apiserver").exists() else None


def assets_or_skip() -> Path:
    """Return the directory of the binaries, or skip the test."""
    found = binaries()
    if found is None:
        pytest.skip("there is no kube-apiserver: KUBEBUILDER_ASSETS names the directory with it and etcd")
    return found


@dataclass(frozen=True)
class RealServer:
    """Running kube-apiserver. etcd: URL of its etcd."""

    directory: Path
    binaries: Path
    etcd: str

    @property
    def kubeconfig(self) -> Path:
        return self.directory / "kubeconfig"

    @property
    def manager_kubeconfig(self) -> Path:
        """Return the kubeconfig of the controller manager, whose permissions are those of the bootstrap roles."""
        return self.directory / "manager.kubeconfig"

    def readyz(self) -> bool:
        try:
            with Api(self.kubeconfig).open("GET", "/readyz") as response:
                return bool(response.read() == b"ok")
        except OSError:
            return False


@contextmanager
def real_server(
    directory: Path, assets: Path, *flags: str, disabled: Sequence[str] = NOT_ADMITTING
) -> Iterator[RealServer]:
    """Start a kube-apiserver, wait until it is ready, and end it at the end of the block.

    flags: more flags of kube-apiserver.
    disabled: admission plugins.
    """
    if disabled:
        flags = (f"--disable-admission-plugins={','.join(disabled)}", *flags)
    server = RealServer(directory, assets, f"http://127.0.0.1:{free_port()}")
    port = free_port()
    write_keys(directory)
    users = [f'{TOKEN},admin,admin-uid,"system:masters"', f"{MANAGER_TOKEN},system:kube-controller-manager,manager-uid"]
    (directory / "tokens.csv").write_text("".join(f"{user}\n" for user in users))
    _write_kubeconfig(server.kubeconfig, directory, port, TOKEN)
    _write_kubeconfig(server.manager_kubeconfig, directory, port, MANAGER_TOKEN)
    with _etcd(server), ending(_apiserver(server, port, *flags)) as apiserver:
        until(server.readyz, "the kube-apiserver is ready", why=apiserver.text)
        yield server


@contextmanager
def real_manager(server: RealServer, *flags: str) -> Iterator[Program]:
    """Run kube-controller-manager with the controllers that are compared, until the end of the block."""
    port = free_port()
    command = [
        str(server.binaries / "kube-controller-manager"),
        f"--kubeconfig={server.kubeconfig}",
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--flex-volume-plugin-dir={server.directory / 'flex'}",
        f"--controllers={','.join(CONTROLLERS)}",
        *flags,
    ]
    with ending(spawn(command, server.directory / "kube-controller-manager.log")) as program:
        until(lambda: program.text().count("Caches are synced") >= len(CONTROLLERS), "it works", why=program.text)
        yield program


@contextmanager
def _etcd(server: RealServer) -> Iterator[None]:
    peer = f"http://127.0.0.1:{free_port()}"
    command = [
        str(server.binaries / "etcd"),
        f"--data-dir={server.directory / 'etcd'}",
        f"--listen-client-urls={server.etcd}",
        f"--advertise-client-urls={server.etcd}",
        f"--listen-peer-urls={peer}",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]
    with ending(spawn(command, server.directory / "etcd.log")):
        yield


def _apiserver(server: RealServer, port: int, *flags: str) -> Program:
    keys = server.directory
    command = [
        str(server.binaries / "kube-apiserver"),
        f"--etcd-servers={server.etcd}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--secure-port={port}",
        f"--tls-cert-file={keys / 'apiserver.crt'}",
        f"--tls-private-key-file={keys / 'apiserver.key'}",
        f"--token-auth-file={keys / 'tokens.csv'}",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={keys / 'sa.pub'}",
        f"--service-account-signing-key-file={keys / 'sa.key'}",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--endpoint-reconciler-type=none",
        *flags,
    ]
    return spawn(command, keys / "kube-apiserver.log")


def _write_kubeconfig(path: Path, directory: Path, port: int, token: str) -> None:
    cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority": str(directory / "apiserver.crt")}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "real", "cluster": cluster}],
        "users": [{"name": "admin", "user": {"token": token}}],
        "contexts": [{"name": "real", "context": {"cluster": "real", "user": "admin"}}],
        "current-context": "real",
    }
    path.write_text(yaml.safe_dump(config))


def write_keys(directory: Path) -> None:
    """Write a self-signed certificate, and the key pair that signs service account tokens."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kube-apiserver")])
    names = [x509.IPAddress(IPv4Address("127.0.0.1")), x509.DNSName("localhost")]
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - VALID)
        .not_valid_after(now + VALID)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (directory / "apiserver.crt").write_bytes(certificate.public_bytes(Encoding.PEM))
    for file, content in (("apiserver.key", private), ("sa.key", private), ("sa.pub", public)):
        (directory / file).write_bytes(content)
