"""A kubeconfig file as a ClientConfig.

Follows kubernetes v1.36 client-go/tools/clientcmd for one explicit file: paths in it are relative to it, data goes
before files, a token before an exec plugin. Every error names the file and the field.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from kcm.protocols.late_methods import dataclass
from kcm.runtime.client.config import ClientConfig, ConfigError, Credential, CredentialSource, Pem
from kcm.runtime.client.credentials import ANONYMOUS, FixedCredential, TokenFile, basic, bearer
from kcm.runtime.client.exec_plugin import API_VERSIONS, ExecPlugin, ExecSpec
from kcm.runtime.client.kubeconfig_fields import Fields, read_fields
from kcm.runtime.client.server_url import proxy_from_environment, proxy_url, server_url
from kcm.runtime.metrics.registry import Metrics
from kcm.runtime.scheduling.clock import Clock

TOKEN_MARKS = "!#$&'*+-.^_`|~"
EXEC_EXTENSION = "client.authentication.k8s.io/exec"


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a kubeconfig is read in: it may name the environment's proxy, and programs to run."""

    environ: Mapping[str, str]
    clock: Clock
    metrics: Metrics


def read_kubeconfig(path: str, *, master: str, around: Surroundings, context: str = "") -> ClientConfig:
    """This context of the file, "" for its current one. master: server URL that goes before the file's; "" for none.

    Raises ConfigError.
    """
    file = read_fields(path)
    name = context or file.text("current-context")
    if not name and not master:
        raise ConfigError(f"{path}: current-context is not set")
    chosen = file.named("contexts", name, "context", asked_by="current-context") if name else file.empty("contexts")
    cluster_name, user_name = chosen.text("cluster"), chosen.text("user")
    if not cluster_name and not master:
        raise ConfigError(f"{chosen.where}.cluster is not set")
    cluster = (
        file.named("clusters", cluster_name, "cluster", asked_by=f"{chosen.field}.cluster")
        if cluster_name
        else file.empty("clusters")
    )
    user = file.named("users", user_name, "user", asked_by=f"{chosen.field}.user") if user_name else file.empty("users")
    ca, verify = _authority(cluster)
    certificate, key = _client_certificate(user)
    secure = ca is not None or certificate is not None or not verify
    if master:
        server = server_url(master, origin="--master", tls=secure)
    else:
        text = cluster.text("server")
        if not text:
            raise ConfigError(f"{cluster.where}.server is not set")
        server = server_url(text, origin=f"{cluster.where}.server", tls=secure)
    proxy = cluster.text("proxy-url")
    return ClientConfig(
        server=server,
        origin=f"{path} context {name}" if name else path,
        ca=ca,
        verify=verify,
        tls_server_name=cluster.text("tls-server-name"),
        certificate=certificate,
        key=key,
        credentials=_credentials(user, server=server, cluster=cluster, ca=ca, around=around),
        proxy=proxy_url(proxy, origin=f"{cluster.where}.proxy-url")
        if proxy
        else proxy_from_environment(server, around.environ),
        impersonation=_impersonation(user),
    )


def _authority(cluster: Fields) -> tuple[Pem | None, bool]:
    """How the server's certificate is verified."""
    ca = _pem(cluster, "certificate-authority")
    verify = not cluster.flag("insecure-skip-tls-verify")
    if ca is not None and not verify:
        raise ConfigError(f"{cluster.where}: certificate-authority and insecure-skip-tls-verify exclude each other")
    return ca, verify


def _client_certificate(user: Fields) -> tuple[Pem | None, Pem | None]:
    certificate, key = _pem(user, "client-certificate"), _pem(user, "client-key")
    if certificate is None and key is not None:
        raise ConfigError(f"{user.where}: client-key is set, client-certificate is not")
    if key is None and certificate is not None:
        raise ConfigError(f"{user.where}: client-certificate is set, client-key is not")
    return certificate, key


def _pem(fields: Fields, name: str) -> Pem | None:
    data = fields.data(f"{name}-data")
    if data:
        return Pem(origin=f"{fields.where}.{name}-data", data=data)
    path = fields.path(name)
    if not path:
        return None
    pem = Pem(origin=f"{fields.where}.{name}", path=path)
    pem.read()
    return pem


def _credentials(
    user: Fields, *, server: str, cluster: Fields, ca: Pem | None, around: Surroundings
) -> CredentialSource:
    if user.mapping("auth-provider") is not None:
        raise ConfigError(f"{user.where}.auth-provider: Kubernetes has no such plugins any more; use exec")
    token, token_path = user.text("token"), user.path("tokenFile")
    username, password = user.text("username"), user.text("password")
    if (token or token_path) and (username or password):
        raise ConfigError(f"{user.where}: a token and a username or password exclude each other")
    if token_path:
        source = TokenFile(token_path, origin=f"{user.where}.tokenFile")
        source.load()
        return source
    if token:
        return FixedCredential(Credential(authorization=bearer(token, origin=f"{user.where}.token")))
    if username or password:
        return FixedCredential(Credential(authorization=basic(username, password)))
    plugin = user.mapping("exec")
    if plugin is not None:
        spec = _exec_spec(plugin, cluster=cluster, server=server, ca=ca)
        return ExecPlugin(spec, environ=around.environ, clock=around.clock, metrics=around.metrics)
    return FixedCredential(ANONYMOUS)


def _exec_spec(plugin: Fields, *, cluster: Fields, server: str, ca: Pem | None) -> ExecSpec:
    api_version, command = plugin.text("apiVersion"), plugin.text("command")
    if api_version not in API_VERSIONS:
        known = ", ".join(API_VERSIONS)
        raise ConfigError(f"{plugin.where}.apiVersion: {api_version!r} is not supported; known: {known}")
    if not command:
        raise ConfigError(f"{plugin.where}.command is not set")
    mode = plugin.text("interactiveMode")
    if mode not in ("", "Never", "IfAvailable", "Always"):
        raise ConfigError(f"{plugin.where}.interactiveMode: {mode!r} is none of Never, IfAvailable, Always")
    if mode == "Always":
        raise ConfigError(f"{plugin.where}.interactiveMode: Always needs a terminal, which a daemon has not")
    return ExecSpec(
        origin=plugin.where,
        api_version=api_version,
        command=plugin.path("command") if "/" in command else command,
        args=plugin.texts("args"),
        env=tuple((one.text("name"), one.text("value")) for one in plugin.entries("env")),
        install_hint=plugin.text("installHint"),
        cluster=_cluster_info(cluster, server=server, ca=ca) if plugin.flag("provideClusterInfo") else None,
    )


def _cluster_info(cluster: Fields, *, server: str, ca: Pem | None) -> Mapping[str, Any]:
    """What an exec plugin receives of the cluster: the spec.cluster of an ExecCredential."""
    info: dict[str, Any] = {"server": server}
    for name in ("tls-server-name", "proxy-url"):
        if cluster.text(name):
            info[name] = cluster.text(name)
    if cluster.flag("insecure-skip-tls-verify"):
        info["insecure-skip-tls-verify"] = True
    if ca is not None:
        info["certificate-authority-data"] = base64.b64encode(ca.read()).decode()
    for extension in cluster.entries("extensions"):
        if extension.text("name") == EXEC_EXTENSION:
            info["config"] = extension.value("extension")
    return info


def _impersonation(user: Fields) -> tuple[tuple[str, str], ...]:
    """The request headers of the user's as, as-uid, as-groups and as-user-extra."""
    headers = [("Impersonate-User", user.text("as")), ("Impersonate-Uid", user.text("as-uid"))]
    headers += [("Impersonate-Group", group) for group in user.texts("as-groups")]
    extra = user.mapping("as-user-extra") or user.empty("as-user-extra")
    for name in extra.names():
        # Not a token in RFC 7230's sense: percent-encoded, as the API server expects it.
        header = f"Impersonate-Extra-{quote(name, safe=TOKEN_MARKS)}"
        headers += [(header, value) for value in extra.texts(name)]
    given = tuple((name, value) for name, value in headers if value)
    if given and not user.text("as"):
        raise ConfigError(f"{user.where}: as-uid, as-groups and as-user-extra need as")
    for name, value in given:
        if not (name + value).isascii() or not (name + value).isprintable():
            raise ConfigError(f"{user.where}: {name} {value!r} holds what no header can carry")
    return given
