"""Kubeconfig files: parsing, and conversion to a ClientConfig.

Follows kubernetes v1.36 client-go/tools/clientcmd for one explicit file: paths are relative to it, inline data takes
precedence over files, a token over an exec plugin. Every error names the file and the field.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson
from msgspec import Struct

from kcm.runtime.client.config import ClientConfig, ConfigError, Credential, CredentialSource, Pem
from kcm.runtime.client.credentials import ANONYMOUS, FixedCredential, TokenFile, basic, bearer
from kcm.runtime.client.exec_plugin import API_VERSIONS, ExecPlugin, ExecSpec
from kcm.runtime.client.server_url import proxy_from_environment, proxy_url, server_url
from kcm.runtime.metrics.registry import Metrics
from kcm.runtime.scheduling.clock import Clock

TOKEN_MARKS = "!#$&'*+-.^_`|~"
EXEC_EXTENSION = "client.authentication.k8s.io/exec"


class KubeconfigEnvironment(Struct, frozen=True, kw_only=True):
    """Environment of a kubeconfig: variables for proxies and plugins, and what plugins need."""

    environ: Mapping[str, str]
    clock: Clock
    metrics: Metrics


def read_kubeconfig(path: str, *, master: str, environment: KubeconfigEnvironment, context: str = "") -> ClientConfig:
    """Return the settings of one context. Raises ConfigError.

    master: server URL that replaces the file's; "" for none.
    context: "" for the current one.
    """
    file = read_fields(path)
    name = context or file.text("current-context")
    if not name and not master:
        raise ConfigError(f"{path}: current-context is not set")
    asked_by = "the context to use" if context else "current-context"
    chosen = file.named("contexts", name, "context", asked_by=asked_by) if name else file.empty("contexts")
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
        credentials=_credentials(user, server=server, cluster=cluster, ca=ca, environment=environment),
        proxy=proxy_url(proxy, origin=f"{cluster.where}.proxy-url")
        if proxy
        else proxy_from_environment(server, environment.environ),
        impersonation=_impersonation(user),
    )


def _authority(cluster: KubeconfigPart) -> tuple[Pem | None, bool]:
    """Return the authority, and whether to verify the server's certificate."""
    ca = _pem(cluster, "certificate-authority")
    verify = not cluster.flag("insecure-skip-tls-verify")
    if ca is not None and not verify:
        raise ConfigError(f"{cluster.where}: certificate-authority and insecure-skip-tls-verify exclude each other")
    return ca, verify


def _client_certificate(user: KubeconfigPart) -> tuple[Pem | None, Pem | None]:
    certificate, key = _pem(user, "client-certificate"), _pem(user, "client-key")
    if certificate is None and key is not None:
        raise ConfigError(f"{user.where}: client-key is set, client-certificate is not")
    if key is None and certificate is not None:
        raise ConfigError(f"{user.where}: client-certificate is set, client-key is not")
    return certificate, key


def _pem(fields: KubeconfigPart, name: str) -> Pem | None:
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
    user: KubeconfigPart,
    *,
    server: str,
    cluster: KubeconfigPart,
    ca: Pem | None,
    environment: KubeconfigEnvironment,
) -> CredentialSource:
    if user.mapping("auth-provider") is not None:
        raise ConfigError(f"{user.where}.auth-provider: Kubernetes has removed these plugins; use exec")
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
        return ExecPlugin(spec, environ=environment.environ, clock=environment.clock, metrics=environment.metrics)
    return FixedCredential(ANONYMOUS)


def _exec_spec(plugin: KubeconfigPart, *, cluster: KubeconfigPart, server: str, ca: Pem | None) -> ExecSpec:
    api_version, command = plugin.text("apiVersion"), plugin.text("command")
    if api_version not in API_VERSIONS:
        known = ", ".join(API_VERSIONS)
        raise ConfigError(f"{plugin.where}.apiVersion: {api_version!r} is not supported; known: {known}")
    if not command:
        raise ConfigError(f"{plugin.where}.command is not set")
    mode = plugin.text("interactiveMode")
    if mode not in ("", "Never", "IfAvailable", "Always"):
        raise ConfigError(f"{plugin.where}.interactiveMode: {mode!r} is not one of Never, IfAvailable, Always")
    if mode == "Always":
        raise ConfigError(f"{plugin.where}.interactiveMode: Always needs a terminal, which a daemon does not have")
    return ExecSpec(
        origin=plugin.where,
        api_version=api_version,
        command=plugin.path("command") if "/" in command else command,
        args=plugin.texts("args"),
        env=tuple((variable.text("name"), variable.text("value")) for variable in plugin.entries("env")),
        install_hint=plugin.text("installHint"),
        cluster=_cluster_info(cluster, server=server, ca=ca) if plugin.flag("provideClusterInfo") else None,
    )


def _cluster_info(cluster: KubeconfigPart, *, server: str, ca: Pem | None) -> Mapping[str, Any]:
    """Return spec.cluster of the ExecCredential that a plugin receives."""
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


def _impersonation(user: KubeconfigPart) -> tuple[tuple[str, str], ...]:
    """Return the request headers for the user's as, as-uid, as-groups and as-user-extra."""
    headers = [("Impersonate-User", user.text("as")), ("Impersonate-Uid", user.text("as-uid"))]
    headers += [("Impersonate-Group", group) for group in user.texts("as-groups")]
    extra = user.mapping("as-user-extra") or user.empty("as-user-extra")
    for name in extra.names():
        # Characters that a header name may not have are percent-encoded, as the API server expects.
        header = f"Impersonate-Extra-{quote(name, safe=TOKEN_MARKS)}"
        headers += [(header, value) for value in extra.texts(name)]
    given = tuple((name, value) for name, value in headers if value)
    if given and not user.text("as"):
        raise ConfigError(f"{user.where}: as-uid, as-groups and as-user-extra need as")
    for name, value in given:
        if not (name + value).isascii() or not (name + value).isprintable():
            raise ConfigError(f"{user.where}: {name} {value!r} contains characters that a header cannot have")
    return given


TYPE_NAMES = {bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "a list", dict: "a mapping"}


class KubeconfigPart:
    """Mapping in the file. Missing fields and null are empty; a wrong type raises ConfigError.

    file: path of the kubeconfig.
    field: position in it for errors, as in "users[admin].user"; "" for the top level.
    """

    def __init__(self, file: str, field: str, value: object) -> None:
        self.file, self.field = file, field
        if not isinstance(value, Mapping):
            raise ConfigError(f"{self.where}: expected a mapping, got {_type_name(value)}")
        self._values: Mapping[str, Any] = value

    @property
    def where(self) -> str:
        return f"{self.file}: {self.field}" if self.field else self.file

    def text(self, name: str) -> str:
        return str(self._typed(name, str, ""))

    def flag(self, name: str) -> bool:
        return bool(self._typed(name, bool, False))

    def value(self, name: str) -> Any:
        return self._values.get(name)

    def names(self) -> Sequence[str]:
        return [str(name) for name in self._values]

    def path(self, name: str) -> str:
        """Return the field as an absolute path; a relative path starts at the kubeconfig's directory."""
        text = self.text(name)
        return str(Path(self.file).resolve().parent / text) if text else ""

    def data(self, name: str) -> bytes:
        """Return the field, decoded from base64."""
        text = "".join(self.text(name).split())
        try:
            return base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError) as err:
            raise ConfigError(f"{self._at(name)}: not base64: {err}") from err

    def texts(self, name: str) -> tuple[str, ...]:
        items = self._list(name)
        for i, item in enumerate(items):
            if not isinstance(item, str):
                raise ConfigError(f"{self._at(name)}[{i}]: expected a string, got {_type_name(item)}")
        return tuple(items)

    def mapping(self, name: str) -> KubeconfigPart | None:
        value = self._values.get(name)
        return None if value is None else KubeconfigPart(self.file, self._field(name), value)

    def entries(self, name: str) -> list[KubeconfigPart]:
        """Return a list of mappings."""
        return [KubeconfigPart(self.file, f"{self._field(name)}[{i}]", item) for i, item in enumerate(self._list(name))]

    def named(self, name: str, wanted: str, inner: str, *, asked_by: str) -> KubeconfigPart:
        """Return the mapping `inner` of the entry named `wanted` in this list.

        asked_by: the field that contains the name.
        """
        entries = self.entries(name)
        found = [entry for entry in entries if entry.text("name") == wanted]
        if not found:
            known = ", ".join(sorted(entry.text("name") for entry in entries)) or "none"
            raise ConfigError(f"{self.file}: {asked_by}: no {wanted!r} in {name}; there is: {known}")
        if len(found) > 1:
            raise ConfigError(f"{self.file}: {name}: {wanted!r} is there {len(found)} times")
        value = found[0].value(inner)
        return KubeconfigPart(self.file, f"{name}[{wanted}].{inner}", {} if value is None else value)

    def empty(self, name: str) -> KubeconfigPart:
        """Return an empty mapping for an entry that the context does not name."""
        return KubeconfigPart(self.file, name, {})

    def _field(self, name: str) -> str:
        return f"{self.field}.{name}" if self.field else name

    def _at(self, name: str) -> str:
        return f"{self.file}: {self._field(name)}"

    def _typed(self, name: str, wanted: type, absent: object) -> object:
        value = self._values.get(name)
        if value is None:
            return absent
        if not isinstance(value, wanted):
            raise ConfigError(f"{self._at(name)}: expected {TYPE_NAMES[wanted]}, got {_type_name(value)}")
        return value

    def _list(self, name: str) -> list[Any]:
        value = self._typed(name, list, None)
        return value if isinstance(value, list) else []


# The texts of client-go: clientcmd.BuildConfigFromFlags, ErrEmptyConfig.
NOTHING_PROVIDED = (
    "invalid configuration: no configuration has been provided, try setting KUBERNETES_MASTER environment variable"
)


def read_fields(path: str) -> KubeconfigPart:
    """Parse a file. Raises ConfigError if it cannot be read or is not a YAML mapping."""
    try:
        text = Path(path).read_bytes()
    except FileNotFoundError as err:
        raise ConfigError(f"stat {path}: no such file or directory") from err
    except OSError as err:
        operation = "read" if isinstance(err, IsADirectoryError) else "open"
        reason = (err.strerror or str(err)).lower()
        raise ConfigError(f'error loading config file "{path}": {operation} {path}: {reason}') from err
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError:
        document = _yaml(path, text)
    if document is None:
        raise ConfigError(NOTHING_PROVIDED)
    return KubeconfigPart(path, "", document)


def _yaml(path: str, text: bytes) -> object:
    import yaml  # imported late: it takes a tenth of a start, and JSON files do not need it

    from kcm.runtime.process.yaml_texts import yaml_complaint

    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as err:
        raise ConfigError(yaml_complaint(path, err)) from err


def _type_name(value: object) -> str:
    return "nothing" if value is None else TYPE_NAMES.get(type(value), f"a {type(value).__name__}")
