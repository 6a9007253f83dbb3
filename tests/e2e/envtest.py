"""The start sequence of controller-runtime's envtest: flags and files exactly as envtest has them.

Source: sigs.k8s.io/controller-runtime v0.23.3 pkg/internal/testing: controlplane/etcd.go, apiserver.go, auth.go and
plane.go, process/process.go and arguments.go, certs/tinyca.go; pkg/envtest/server.go.
"""

from __future__ import annotations

import base64
import ipaddress
import re
import shutil
import ssl
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tests.e2e.programs import Program, free_port, spawn

START_TIMEOUT = 60.0  # seconds; envtest's default is 20
POLL = 0.1  # seconds
WEEK = timedelta(hours=168)


class TinyAuthority:
    """Certificate authority with certificates for a week."""

    def __init__(self) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        subject = _name("envtest-environment", ("envtest",))
        now = datetime.now(UTC)
        self.certificate = (
            x509.CertificateBuilder(subject, subject, self.key.public_key(), x509.random_serial_number())
            .not_valid_before(now - timedelta(minutes=5))
            .not_valid_after(now + timedelta(days=3650))
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_usage(signs=True), critical=True)
            .sign(self.key, hashes.SHA256())
        )
        self._serial = 0

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        return _key_pem(self.key)

    def serving(self, *names: str) -> tuple[bytes, bytes]:
        """Return a certificate for these host names and addresses, and its key."""
        found: list[x509.GeneralName] = []
        for name in names:
            try:
                found.append(x509.IPAddress(ipaddress.ip_address(name)))
            except ValueError:
                found.append(x509.DNSName(name))
        alternative = x509.SubjectAlternativeName(found)
        return self._leaf("localhost", ("envtest",), ExtendedKeyUsageOID.SERVER_AUTH, alternative)

    def client(self, name: str, groups: Sequence[str]) -> tuple[bytes, bytes]:
        """Return a certificate of a user, and its key."""
        return self._leaf(name, groups, ExtendedKeyUsageOID.CLIENT_AUTH)

    def _leaf(
        self, name: str, groups: Sequence[str], usage: x509.ObjectIdentifier, *extensions: x509.ExtensionType
    ) -> tuple[bytes, bytes]:
        key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
        self._serial += 1
        builder = (
            x509.CertificateBuilder(self.certificate.subject, _name(name, groups), key.public_key(), self._serial)
            .not_valid_before(now)
            .not_valid_after(now + WEEK)
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        )
        for extension in extensions:
            builder = builder.add_extension(extension, critical=False)
        return builder.sign(self.key, hashes.SHA256()).public_bytes(Encoding.PEM), _key_pem(key)


class ControlPlane:
    """Running etcd and kube-apiserver. log: directory of the programs' output."""

    def __init__(self, assets: Path, log: Path, flags: Mapping[str, Sequence[str]]) -> None:
        self.assets, self.log, self._flags = assets, log, flags
        self.etcd_directory, self.directory = (Path(tempfile.mkdtemp(prefix="k8s_test_framework_")) for _ in range(2))
        self.clients, self.authority = TinyAuthority(), TinyAuthority()
        self.etcd_url, self.port = f"http://127.0.0.1:{free_port()}", free_port()
        self.url = f"https://127.0.0.1:{self.port}/"
        self.etcd = self._start_etcd()
        self._write_certificates()
        self.apiserver = self.start_apiserver()

    def _start_etcd(self) -> Program:
        flags = {
            "listen-peer-urls": [f"http://127.0.0.1:{free_port()}"],
            "data-dir": [str(self.etcd_directory)],
            "advertise-client-urls": [self.etcd_url],
            "listen-client-urls": [self.etcd_url],
        }
        if self._has_flag("etcd", "unsafe-no-fsync"):
            flags["unsafe-no-fsync"] = ["true"]
        return self._start("etcd", flags, f"{self.etcd_url}/health")

    def _write_certificates(self) -> None:
        certificate, key = self.authority.serving("localhost", "127.0.0.1", "::1")
        (self.directory / "apiserver.crt").write_bytes(certificate)
        (self.directory / "apiserver.key").write_bytes(key)
        accounts = TinyAuthority()
        (self.directory / "sa-signer.crt").write_bytes(accounts.pem)
        (self.directory / "sa-signer.key").write_bytes(accounts.key_pem)
        (self.directory / "client-cert-auth-ca.crt").write_bytes(self.clients.pem)

    def start_apiserver(self) -> Program:
        flags: dict[str, Sequence[str]] = {
            "service-cluster-ip-range": ["10.0.0.0/24"],
            "allow-privileged": ["true"],
            "disable-admission-plugins": ["ServiceAccount"],
            "cert-dir": [str(self.directory)],
            "authorization-mode": ["RBAC"],
            "secure-port": [str(self.port)],
            "bind-address": ["127.0.0.1"],
            "service-account-issuer": [self.url],
            "service-account-key-file": [str(self.directory / "sa-signer.crt")],
            "service-account-signing-key-file": [str(self.directory / "sa-signer.key")],
            "etcd-servers": [self.etcd_url],
            "client-ca-file": [str(self.directory / "client-cert-auth-ca.crt")],
            **self._flags,
        }
        if self._has_flag("kube-apiserver", "insecure-port"):
            flags["insecure-port"] = ["0"]
        return self._start("kube-apiserver", flags, f"{self.url}healthz")

    def add_user(self, name: str, *groups: str) -> Path:
        """Return the kubeconfig of a user, who is authenticated by a certificate."""
        certificate, key = self.clients.client(name, groups)
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "envtest",
                    "cluster": {"server": self.url, "certificate-authority-data": _base64(self.authority.pem)},
                }
            ],
            "users": [
                {
                    "name": "envtest",
                    "user": {"client-certificate-data": _base64(certificate), "client-key-data": _base64(key)},
                }
            ],
            "contexts": [{"name": "envtest", "context": {"cluster": "envtest", "user": "envtest"}}],
            "current-context": "envtest",
        }
        path = self.directory / f"{name}.kubecfg"
        path.write_text(yaml.safe_dump(content))
        return path

    def stop(self) -> dict[str, float]:
        """Stop both programs with SIGTERM, the API server first. Return the seconds that each took."""
        taken = {}
        for name, program in (("kube-apiserver", self.apiserver), ("etcd", self.etcd)):
            begun = time.monotonic()
            code = program.terminate(20.0)
            taken[name] = time.monotonic() - begun
            assert code == 0, program.text()
        return taken

    def _has_flag(self, program: str, flag: str) -> bool:
        done = subprocess.run([str(self.assets / program), "--help"], capture_output=True, text=True, check=True)
        return re.search(rf"(?m)^\s*--{flag}\b", done.stdout + done.stderr) is not None

    def _start(self, name: str, flags: Mapping[str, Sequence[str]], health: str) -> Program:
        words = [f"--{flag}={value}" for flag in sorted(flags) for value in flags[flag]]
        program = spawn([str(self.assets / name), *words], self.log / f"{name}.log")
        trusting = ssl.create_default_context()
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
        end = time.monotonic() + START_TIMEOUT
        while True:
            try:
                with urllib.request.urlopen(health, context=trusting, timeout=5.0) as response:
                    if response.status == 200:
                        return program
            except OSError:
                pass
            assert program.running, program.text()
            assert time.monotonic() < end, f"{name} is not healthy\n{program.text()}"
            time.sleep(POLL)


@contextmanager
def control_plane(assets: Path, log: Path, **flags: Sequence[str]) -> Iterator[ControlPlane]:
    """Start a control plane, and stop it at the end of the block.

    flags: further flags of kube-apiserver, with "_" instead of "-", and their values
    """
    plane = ControlPlane(assets, log, {name.replace("_", "-"): values for name, values in flags.items()})
    try:
        yield plane
    finally:
        for program in (plane.apiserver, plane.etcd):
            if program.running:
                program.kill()
        for directory in (plane.directory, plane.etcd_directory):
            shutil.rmtree(directory, ignore_errors=True)


def _name(common: str, organizations: Sequence[str]) -> x509.Name:
    groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in organizations]
    return x509.Name([*groups, x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_encipherment=True,
        key_cert_sign=signs,
        crl_sign=False,
        content_commitment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()
