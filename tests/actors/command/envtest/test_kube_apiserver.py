"""The program `kube-apiserver` of envtest: its flags, and the settings that they determine."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kcm.actors.command.envtest.apiserver_flags import ApiServerFlags, Extras
from kcm.actors.command.envtest.kube_apiserver import flag_faults, main, read_flags
from kcm.actors.command.envtest.server_settings import server_settings
from kcm.runtime.apiserver.process.settings import ALWAYS_ALLOW, FULL, RBAC, RELAXED, ServerSettings
from kcm.runtime.envtest.etcd_directory import EtcdDirectory
from kcm.runtime.flags.declaration import FlagError

NOW = 1_800_000_000.0
REQUIRED = (
    "--etcd-servers=http://127.0.0.1:1",
    "--service-account-issuer=https://127.0.0.1:6443/",
    "--service-account-key-file=/keys/sa-signer.crt",
    "--service-account-signing-key-file=/keys/sa-signer.key",
)


def settings(directory: Path, *argv: str, durable: bool = False) -> ServerSettings:
    groups, _ = read_flags([*REQUIRED, f"--cert-dir={directory}", *argv])
    flags = groups[ApiServerFlags]
    assert list(flag_faults(flags)) == []
    etcd = EtcdDirectory(directory=str(directory / "etcd"), durable=durable)
    return server_settings(flags, groups[Extras], etcd, patience=1.0, now=NOW)


def test_flags_of_envtest_determine_the_settings(tmp_path: Path) -> None:
    found = settings(
        tmp_path,
        "--allow-privileged=true",
        "--authorization-mode=RBAC",
        "--bind-address=127.0.0.1",
        "--client-ca-file=/keys/ca.crt",
        "--disable-admission-plugins=ServiceAccount",
        "--secure-port=4000",
        "--service-cluster-ip-range=10.0.0.0/24",
    )
    assert (found.port, found.bind_address, found.client_ca_file) == (4000, "127.0.0.1", "/keys/ca.crt")
    assert (found.authorization, found.durability) == (RBAC, RELAXED)
    assert found.directory == tmp_path / "etcd/kcm/registry"
    assert found.account_issuers == ("https://127.0.0.1:6443/",)
    assert found.account_verifying_key_files == ("/keys/sa-signer.crt",)
    assert found.account_signing_key_file == "/keys/sa-signer.key"
    assert (found.service_ranges, found.disable_plugins) == (("10.0.0.0/24",), ("ServiceAccount", "NodeRestriction"))
    assert (found.collect_garbage, found.empty_namespaces, found.metrics) == (False, False, False)
    assert found.serving_certificate == str(tmp_path / "apiserver.crt")


@pytest.mark.parametrize(
    ("argv", "field", "value"),
    [
        ((), "authorization", ALWAYS_ALLOW),
        (("--authorization-mode=Node,RBAC",), "authorization", RBAC),
        (("--etcd-prefix=/other",), "directory", "etcd/kcm/other"),
        (("--kcm-garbage-collection",), "collect_garbage", True),
        (("--kcm-namespace-deletion=true",), "empty_namespaces", True),
        (("--enable-admission-plugins=NodeRestriction",), "disable_plugins", ()),
        (("--disable-admission-plugins=PodNodeSelector",), "disable_plugins", ("NodeRestriction",)),
        (("--runtime-config=apps/v1=true,api/beta=true",), "runtime_config", ("api/beta=true",)),
        (("--service-cluster-ip-range=10.0.0.0/24,fd00::/112",), "service_ranges", ("10.0.0.0/24", "fd00::/112")),
        (("--service_account_issuer=https://b",), "account_issuers", ("https://127.0.0.1:6443/", "https://b")),
        (("--tls-cert-file=/a", "--tls-private-key-file=/b"), "serving_key", "/b"),
    ],
)
def test_flag_determines_a_setting(tmp_path: Path, argv: tuple[str, ...], field: str, value: Any) -> None:
    found = getattr(settings(tmp_path, *argv), field)
    assert found == (tmp_path / value if isinstance(found, Path) else value)


def test_writes_are_durable_unless_etcd_does_not_sync(tmp_path: Path) -> None:
    assert settings(tmp_path, durable=True).durability == FULL


def test_serving_certificate_is_created_once(tmp_path: Path) -> None:
    settings(tmp_path)
    certificate, key = (tmp_path / name for name in ("apiserver.crt", "apiserver.key"))
    before = certificate.read_bytes()
    assert key.stat().st_mode & 0o777 == 0o600
    settings(tmp_path)
    assert certificate.read_bytes() == before


@pytest.mark.parametrize(
    ("argv", "error"),
    [
        (("--no-such-flag",), "unknown flag: --no-such-flag"),
        (("--insecure-port=0",), "unknown flag: --insecure-port"),
        (("extra",), '"kube-apiserver" does not take any arguments, got ["extra"]'),
        (("--secure-port=x",), 'invalid argument "x" for "--secure-port" flag'),
        (("--watch-cache=maybe",), 'invalid argument "maybe" for "--watch-cache" flag'),
        (("--oidc-issuer-url=https://x",), "--oidc-issuer-url is not supported here: only tokens of service accounts"),
    ],
)
def test_unreadable_command_line_is_an_error(argv: tuple[str, ...], error: str) -> None:
    with pytest.raises(FlagError) as raised:
        read_flags(argv)
    assert str(raised.value).startswith(error)


@pytest.mark.parametrize(
    ("argv", "error"),
    [
        (
            ("--secure-port=0",),
            "--secure-port 0 must be between 1 and 65535, inclusive. It cannot be turned off with 0",
        ),
        (("--bind-address=localhost",), 'invalid argument "localhost" for "--bind-address" flag: failed to parse IP'),
        (("--authorization-mode=Foo",), 'authorization-mode "Foo" is not a valid mode'),
        (
            ("--authorization-mode=Webhook",),
            "--authorization-mode=Webhook is not supported here: only RBAC, Node and AlwaysAllow are implemented",
        ),
        (("--authorization-mode=RBAC,RBAC",), 'authorization-mode "RBAC" has mode specified more than once'),
        (("--feature-gates=Foo=true",), "unrecognized feature gate: Foo"),
        (("--feature-gates=AllBeta",), "missing bool value for feature gate AllBeta"),
        (("--feature-gates=AllBeta=x",), "invalid value of AllBeta: x"),
        (("--enable-admission-plugins=Foo",), 'admission-control plugin "Foo" is unknown'),
        (
            ("--enable-admission-plugins=PodNodeSelector",),
            "--enable-admission-plugins: the plugin PodNodeSelector is not supported here",
        ),
        (("--service-account-issuer=",), "service-account-issuer should not be an empty string"),
        (
            ("--service-account-issuer=https://127.0.0.1:6443/",),
            'service-account-issuer "https://127.0.0.1:6443/" is already specified',
        ),
        (
            ("--service-account-issuer=:b",),
            "service-account-issuer \":b\" contained a ':' but was not a valid URL",
        ),
        (("--tls-cert-file=/a",), "--tls-cert-file and --tls-private-key-file must be specified together"),
        (("--service-cluster-ip-range=10.0.0.0",), None),
        (("--service-cluster-ip-range=x",), "service-cluster-ip-range[0] is not a valid CIDR: x"),
    ],
)
def test_invalid_flag_is_an_error(argv: tuple[str, ...], error: str | None) -> None:
    groups, _ = read_flags([*REQUIRED, *argv])
    assert list(flag_faults(groups[ApiServerFlags])) == ([] if error is None else [error])


def test_required_flags_are_reported_together(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 1
    assert capsys.readouterr().err == (
        "Error: [--etcd-servers must be specified, service-account-issuer is a required flag, either "
        "`--service-account-key-file` or `--service-account-signing-endpoint` must be set, "
        "--service-account-signing-key-file and --service-account-issuer are required flags]\n"
    )


def test_flag_without_effect_is_warned_of() -> None:
    _, warnings = read_flags([*REQUIRED, "--max-requests-inflight=400"])
    assert warnings == ("Flag --max-requests-inflight has no effect: the embedded API server has no such setting",)


@pytest.mark.slow
def test_every_flag_of_kube_apiserver_is_known() -> None:
    assets = Path(os.environ.get("KUBEBUILDER_ASSETS", "/usr/local/kubebuilder/bin"))
    if not (assets / "kube-apiserver").exists():
        pytest.skip("there is no kube-apiserver: KUBEBUILDER_ASSETS names the directory with it and etcd")
    done = subprocess.run([str(assets / "kube-apiserver"), "--help"], capture_output=True, text=True, check=True)
    words = [line.split() for line in done.stdout.splitlines() if line.startswith("      --")]
    assert len(words) > 150
    for name in (line[0] for line in words):
        try:
            read_flags([f"{name}=1"])
        except FlagError as err:
            assert not str(err).startswith("unknown flag"), name  # noqa: PT017
