from __future__ import annotations

import base64
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from kcm.runtime.client.config import ClientConfig, ConfigError, Credential
from kcm.runtime.client.kubeconfig import KubeconfigEnvironment, read_kubeconfig
from kcm.runtime.metrics.registry import Metrics
from kcm.runtime.simulation.clock import VirtualClock

PEM = "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n"
PEM_DATA = base64.b64encode(PEM.encode()).decode()
Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return write(cluster=…, user=…, **fields), which writes a kubeconfig with one context and returns its path.

    The cluster has a server unless `cluster` sets one.
    """

    def write(cluster: Any = None, user: Any = None, **fields: Any) -> str:
        if cluster is None or (isinstance(cluster, dict) and "server" not in cluster):
            cluster = {"server": "https://10.0.0.1:6443", **(cluster or {})}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "dev",
            "contexts": [{"name": "dev", "context": {"cluster": "kind", "user": "admin"}}],
            "clusters": [{"name": "kind", "cluster": cluster}],
            "users": [{"name": "admin", "user": user or {}}],
            **fields,
        }
        path = tmp_path / "config"
        path.write_text(yaml.safe_dump(document))
        return str(path)

    return write


def read(path: str, *, master: str = "", environ: dict[str, str] | None = None) -> ClientConfig:
    around = KubeconfigEnvironment(environ=environ or {}, clock=VirtualClock(), metrics=Metrics())
    return read_kubeconfig(path, master=master, environment=around)


def test_current_context_selects_cluster_and_user(write: Write) -> None:
    path = write(
        **{"current-context": "two"},
        contexts=[
            {"name": "one", "context": {"cluster": "a", "user": "x"}},
            {"name": "two", "context": {"cluster": "b", "user": "y"}},
        ],
        clusters=[
            {"name": "a", "cluster": {"server": "https://a"}},
            {"name": "b", "cluster": {"server": "https://b:8443/"}},
        ],
        users=[{"name": "x", "user": {"token": "of-x"}}, {"name": "y", "user": {"token": "of-y"}}],
    )
    config = read(path)
    assert (config.server, config.origin) == ("https://b:8443", f"{path} context two")
    assert config.credentials.load() == Credential(authorization="Bearer of-y")


def test_a_kubeconfig_may_be_json(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(
        orjson.dumps(
            {
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "k"}}],
                "clusters": [{"name": "k", "cluster": {"server": "http://localhost:8080"}}],
            }
        )
    )
    assert read(str(path)).server == "http://localhost:8080"


@pytest.mark.parametrize(
    ("user", "authorization"),
    [
        ({}, ""),
        ({"token": "secret"}, "Bearer secret"),
        ({"username": "me", "password": "pä"}, "Basic " + base64.b64encode("me:pä".encode()).decode()),
        ({"token": "secret", "exec": {"apiVersion": "no", "command": ""}}, "Bearer secret"),
    ],
)
def test_user_is_authenticated_by_a_header(write: Write, user: dict[str, Any], authorization: str) -> None:
    assert read(write(user=user)).credentials.load().authorization == authorization


def test_token_file_overrides_a_token_and_is_relative_to_the_kubeconfig(write: Write, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from-file\n")
    config = read(write(user={"token": "written", "tokenFile": "token"}))
    assert config.credentials.load().authorization == "Bearer from-file"


def test_certificate_data_overrides_files_which_are_relative_to_the_kubeconfig(write: Write, tmp_path: Path) -> None:
    for name in ("ca.pem", "me.pem", "me.key"):
        (tmp_path / name).write_text(PEM)
    files = {"client-certificate": "me.pem", "client-key": "me.key"}
    config = read(write({"certificate-authority": "ca.pem"}, files))
    assert config.ca is not None
    assert config.certificate is not None
    assert config.key is not None
    assert [pem.path for pem in (config.ca, config.certificate, config.key)] == [
        str(tmp_path / name) for name in ("ca.pem", "me.pem", "me.key")
    ]
    config = read(
        write(
            {"certificate-authority-data": PEM_DATA, "certificate-authority": "not there"},
            {"client-certificate-data": PEM_DATA, "client-key-data": PEM_DATA},
        )
    )
    assert config.ca is not None
    assert config.certificate is not None
    assert (config.ca.path, config.ca.read(), config.certificate.read()) == ("", PEM.encode(), PEM.encode())


def test_the_clusters_tls_options_and_proxy_are_taken_over(write: Write) -> None:
    cluster = {
        "server": "10.0.0.1:6443",
        "insecure-skip-tls-verify": True,
        "tls-server-name": "kubernetes",
        "proxy-url": "http://proxy:3128",
    }
    config = read(write(cluster), environ={"HTTPS_PROXY": "http://another:1"})
    assert (config.server, config.verify, config.tls_server_name, config.proxy) == (
        "https://10.0.0.1:6443",
        False,
        "kubernetes",
        "http://proxy:3128",
    )
    assert read(write(), environ={"HTTPS_PROXY": "http://another:1"}).proxy == "http://another:1"


def test_impersonation_becomes_headers(write: Write) -> None:
    user = {
        "as": "jane",
        "as-uid": "1",
        "as-groups": ["dev", "ops"],
        "as-user-extra": {"acme.com/project": ["x"], "scopes": ["a", "b"]},
    }
    assert read(write(user=user)).impersonation == (
        ("Impersonate-User", "jane"),
        ("Impersonate-Uid", "1"),
        ("Impersonate-Group", "dev"),
        ("Impersonate-Group", "ops"),
        ("Impersonate-Extra-acme.com%2Fproject", "x"),
        ("Impersonate-Extra-scopes", "a"),
        ("Impersonate-Extra-scopes", "b"),
    )


def test_master_overrides_only_the_server_of_the_file(write: Write) -> None:
    config = read(write({"tls-server-name": "kubernetes"}, {"token": "t"}), master="https://10.9.9.9:443")
    assert (config.server, config.tls_server_name) == ("https://10.9.9.9:443", "kubernetes")
    assert config.credentials.load().authorization == "Bearer t"


def test_with_master_a_kubeconfig_needs_no_context(write: Write) -> None:
    config = read(write(**{"current-context": ""}), master="localhost:8080")
    assert (config.server, config.credentials.load()) == ("http://localhost:8080", Credential())


def test_exec_plugin_runs_when_a_credential_is_requested(write: Write, plugin: Callable[[str], str]) -> None:
    printed = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": "T"},
    }
    program = plugin(f"echo '{orjson.dumps(printed).decode()}'")
    section = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": f"./{os.path.basename(program)}",
        "interactiveMode": "IfAvailable",
    }
    assert read(write(user={"exec": section})).credentials.load() == Credential(authorization="Bearer T")


def test_exec_plugin_receives_the_cluster_if_configured(
    write: Write, plugin: Callable[[str], str], tmp_path: Path
) -> None:
    section = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "command": plugin('echo "$KUBERNETES_EXEC_INFO" >$TOLD; exit $1'),
        "args": ["3"],
        "env": [{"name": "TOLD", "value": str(tmp_path / "told")}],
        "provideClusterInfo": True,
    }
    cluster = {
        "certificate-authority-data": PEM_DATA,
        "tls-server-name": "kubernetes",
        "extensions": [
            {"name": "other", "extension": {"x": 1}},
            {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "me"}},
        ],
    }
    source = read(write(cluster, {"exec": section})).credentials
    with pytest.raises(ConfigError, match="exit code 3"):
        source.load()
    assert orjson.loads((tmp_path / "told").read_bytes()) == {
        "kind": "ExecCredential",
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "spec": {
            "interactive": False,
            "cluster": {
                "server": "https://10.0.0.1:6443",
                "tls-server-name": "kubernetes",
                "certificate-authority-data": PEM_DATA,
                "config": {"audience": "me"},
            },
        },
    }


V1 = {"apiVersion": "client.authentication.k8s.io/v1", "command": "plugin"}


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"current-context": ""}, "current-context is not set"),
        ({"current-context": "x"}, "current-context: no 'x' in contexts; there is: dev"),
        ({"contexts": None}, "current-context: no 'dev' in contexts; there is: none"),
        ({"contexts": {}}, "contexts: expected a list, got a mapping"),
        ({"contexts": ["dev"]}, "contexts[0]: expected a mapping, got a string"),
        ({"contexts": [{"name": 1}]}, "contexts[0].name: expected a string, got a number"),
        (
            {"contexts": [{"name": "dev", "context": {"cluster": "a"}}] * 2},
            "contexts: 'dev' is there 2 times",
        ),
        ({"contexts": [{"name": "dev", "context": None}]}, "contexts[dev].context.cluster is not set"),
        (
            {"contexts": [{"name": "dev", "context": {"cluster": "x"}}]},
            "contexts[dev].context.cluster: no 'x' in clusters; there is: kind",
        ),
        (
            {"contexts": [{"name": "dev", "context": {"cluster": "kind", "user": "x"}}]},
            "contexts[dev].context.user: no 'x' in users; there is: admin",
        ),
        ({"cluster": {"server": ""}}, "clusters[kind].cluster.server is not set"),
        ({"cluster": {"server": 6443}}, "clusters[kind].cluster.server: expected a string, got a number"),
        ({"cluster": {"server": "ftp://x"}}, "clusters[kind].cluster.server: 'ftp://x' is neither an http nor"),
        (
            {"cluster": {"certificate-authority-data": "***"}},
            "clusters[kind].cluster.certificate-authority-data: not base64: ",
        ),
        (
            {"cluster": {"certificate-authority": "missing.pem"}},
            "clusters[kind].cluster.certificate-authority: cannot read {directory}/missing.pem: No such file",
        ),
        (
            {"cluster": {"certificate-authority-data": PEM_DATA, "insecure-skip-tls-verify": True}},
            "clusters[kind].cluster: certificate-authority and insecure-skip-tls-verify exclude each other",
        ),
        (
            {"cluster": {"insecure-skip-tls-verify": "yes"}},
            "clusters[kind].cluster.insecure-skip-tls-verify: expected a boolean, got a string",
        ),
        (
            {"cluster": {"proxy-url": "socks5://p:1"}},
            "clusters[kind].cluster.proxy-url: a socks5 proxy is not supported",
        ),
        ({"user": {"token": 12345}}, "users[admin].user.token: expected a string, got a number"),
        ({"user": {"token": "two words"}}, "users[admin].user.token: not a bearer token: "),
        (
            {"user": {"token": "t", "username": "u"}},
            "users[admin].user: a token and a username or password exclude each other",
        ),
        ({"user": {"tokenFile": "gone"}}, "users[admin].user.tokenFile: cannot read {directory}/gone: No such file"),
        (
            {"user": {"client-key-data": PEM_DATA}},
            "users[admin].user: client-key is set, client-certificate is not",
        ),
        (
            {"user": {"client-certificate-data": PEM_DATA}},
            "users[admin].user: client-certificate is set, client-key is not",
        ),
        ({"user": {"auth-provider": {"name": "gcp"}}}, "users[admin].user.auth-provider: Kubernetes has removed these"),
        ({"user": {"as-groups": ["g"]}}, "users[admin].user: as-uid, as-groups and as-user-extra need as"),
        (
            {"user": {"as": "a\nb"}},
            "users[admin].user: Impersonate-User 'a\\nb' contains characters that a header cannot have",
        ),
        ({"user": {"as": "a", "as-groups": "g"}}, "users[admin].user.as-groups: expected a list, got a string"),
        ({"user": {"as": "a", "as-groups": [1]}}, "users[admin].user.as-groups[0]: expected a string, got a number"),
        ({"user": {"exec": []}}, "users[admin].user.exec: expected a mapping, got a list"),
        (
            {"user": {"exec": {**V1, "apiVersion": "client.authentication.k8s.io/v1alpha1"}}},
            "users[admin].user.exec.apiVersion: 'client.authentication.k8s.io/v1alpha1' is not supported",
        ),
        ({"user": {"exec": {**V1, "command": ""}}}, "users[admin].user.exec.command is not set"),
        ({"user": {"exec": {**V1, "interactiveMode": "Always"}}}, "users[admin].user.exec.interactiveMode: Always"),
        (
            {"user": {"exec": {**V1, "interactiveMode": "So"}}},
            "users[admin].user.exec.interactiveMode: 'So' is not one",
        ),
        (
            {"user": {"exec": {**V1, "env": [{"name": "A", "value": 1}]}}},
            "users[admin].user.exec.env[0].value: expected a string, got a number",
        ),
    ],
)
def test_every_error_is_one_line_with_file_and_field(
    write: Write, tmp_path: Path, fields: dict[str, Any], says: str
) -> None:
    path = write(**fields)
    with pytest.raises(ConfigError) as error:
        read(path)
    assert str(error.value).startswith(f"{path}: {says.format(directory=tmp_path) if '{d' in says else says}")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("a: [", ":1:5: not YAML: expected the node content, but found '<stream end>', while parsing a flow node"),
        ("a: \x00", "not YAML: "),
        ("!!python/object:os.system {}", ":1:1: not YAML: could not determine a constructor"),
        ("- a\n- b\n", "expected a mapping, got a list"),
        ("just text", "expected a mapping, got a string"),
        ("[" * 1100, "not YAML: "),
    ],
)
def test_malformed_kubeconfig_is_named(tmp_path: Path, content: str, says: str) -> None:
    path = tmp_path / "config"
    path.write_text(content)
    with pytest.raises(ConfigError) as error:
        read(str(path))
    assert str(error.value).startswith(f"{path}{says if says.startswith(':') else f': {says}'}")
    assert "\n" not in str(error.value)


def test_missing_and_empty_files_are_refused_with_the_texts_of_client_go(tmp_path: Path) -> None:
    missing, empty = tmp_path / "missing", tmp_path / "empty"
    empty.write_text("")
    texts = []
    for path in (missing, empty, tmp_path):
        with pytest.raises(ConfigError) as error:
            read(str(path))
        texts.append(str(error.value))
    assert texts == [
        f"stat {missing}: no such file or directory",
        "invalid configuration: no configuration has been provided, try setting KUBERNETES_MASTER environment variable",
        f'error loading config file "{tmp_path}": read {tmp_path}: is a directory',
    ]


def test_secrets_of_a_config_are_not_printed(write: Write) -> None:
    config = read(write({"proxy-url": "http://u:hush@p:1"}, {"token": "hush"}))
    assert "hush" not in repr(config)
    assert "hush" not in repr(config.credentials.load())
