"""Settings of the embedded API server's process, which are its command line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from kcm.protocols.admission_plugins import NEED_CONTROLLERS
from kcm.protocols.resources import GATES
from kcm.runtime.flags.declaration import FlagError, FlagStruct, fill, flag, flags_in, parse
from kcm.runtime.flags.values import BOOL, DURATION, ValueType

RBAC, ALWAYS_ALLOW = "rbac", "always-allow"
FULL, RELAXED = "full", "relaxed"  # durability
_PATH = ValueType(name="path", parse=Path, show=lambda path: str(path.resolve()))
# Paths are passed as absolute ones, because the server's process may have another working directory.
_FILE = ValueType(name="file", parse=str, show=lambda path: str(Path(path).resolve()) if path else "")


class ServerSettings(FlagStruct, frozen=True, kw_only=True):
    """Settings of the server's process. The parent process passes them to the child as flags."""

    # --- where it runs

    directory: Path = flag(
        Path(".kcm"), "Directory of the database, certificates, tokens and the kubeconfig.", kind=_PATH, name="dir"
    )
    # 0 selects the port of the last run if it is free, otherwise any free port.
    port: int = flag(0, "Port to serve on. 0 selects a free port.")
    bind_address: str = flag("127.0.0.1", "IP address to serve on.")
    # Both or neither. Without them, the server has a certificate of its own authority.
    serving_certificate: str = flag(
        "", "File with the serving certificate and its chain.", kind=_FILE, name="tls-cert-file"
    )
    serving_key: str = flag("", "File with the key of --tls-cert-file.", kind=_FILE, name="tls-private-key-file")
    in_memory: bool = flag(False, "Keep objects in memory only, and ignore those in the directory.")
    # FULL acknowledges a write after fsync, RELAXED when the operating system has accepted it.
    durability: str = flag(FULL, "When a write is acknowledged: 'full' or 'relaxed'.")
    patience: float = flag(0.0, "Time to wait for another server to release the directory.", kind=DURATION)
    until_stdin_closes: bool = flag(False, "Stop when standard input is closed, for example by the parent's end.")
    log_format: str = flag("text", "Format of log lines: 'text' or 'json'.", name="logging-format")
    quiet: bool = flag(False, "Log warnings and errors only.")

    # --- what it serves

    # Group versions in addition to the default ones, as in kube-apiserver's flag --runtime-config.
    runtime_config: tuple[str, ...] = flag((), "API versions to serve that are off by default.")
    # Of the feature gates that the kinds of some group versions need.
    gates: tuple[str, ...] = flag(GATES, "Enabled feature gates of kinds that are off by default.")
    # "" for the release of this program.
    emulated_version: str = flag("", "Release whose API versions are served by default, such as 1.37.")
    # False: metrics.k8s.io is served by the server of an APIService.
    metrics: bool = flag(True, "Serve metrics.k8s.io for hollow pods.")
    # One range for each IP family, the default family first; () for the built-in default.
    service_ranges: tuple[str, ...] = flag((), "CIDR ranges of Services.", name="service-cluster-ip-range")
    # False if the controllers with these tasks run.
    collect_garbage: bool = flag(True, "Delete objects without owners, instead of the garbage collector.")
    empty_namespaces: bool = flag(
        True, "Delete the content of deleted namespaces, instead of the namespace controller."
    )
    # Relative to the plugins that kube-apiserver enables by default.
    enable_plugins: tuple[str, ...] = flag((), "Admission plugins to enable.", name="enable-admission-plugins")
    disable_plugins: tuple[str, ...] = flag(
        tuple(sorted(NEED_CONTROLLERS)), "Admission plugins to disable.", name="disable-admission-plugins"
    )
    admission_config_file: str = flag(
        "", "File with admission configuration.", kind=_FILE, name="admission-control-config-file"
    )

    # --- who may use it

    authorization: str = flag(RBAC, "Authorization mode: 'rbac', which includes Node, or 'always-allow'.")
    # Has no effect with ALWAYS_ALLOW, see allows_anonymous.
    anonymous_auth: bool = flag(True, "Authorize requests without credentials as system:anonymous.")
    client_ca_file: str = flag("", "File with additional CA certificates for client certificates.", kind=_FILE)
    token_auth_file: str = flag("", "File with static tokens and their users, in CSV.", kind=_FILE)
    # Private key of the serviceaccount-token controller; "" rejects tokens of service account Secrets.
    account_key_file: str = flag(
        "", "Key that signs tokens of service account Secrets.", kind=_FILE, name="service-account-key-file"
    )
    # "" for a key of the server's own, in its directory.
    account_signing_key_file: str = flag(
        "", "Key that signs tokens of service accounts.", kind=_FILE, name="service-account-signing-key-file"
    )
    account_verifying_key_files: tuple[str, ...] = flag(
        (), "Files with further keys that verify tokens of service accounts.", name="service-account-verifying-key-file"
    )
    # The first one issues tokens; () for ISSUER.
    account_issuers: tuple[str, ...] = flag((), "Issuers of tokens of service accounts.", name="service-account-issuer")
    api_audiences: tuple[str, ...] = flag((), "Audiences of the server itself; by default the issuers.")

    # --- audit log; disabled unless both the policy and the path are set

    audit_policy_file: str = flag("", "File with the audit policy.", kind=_FILE)
    audit_log_path: str = flag("", "File of the audit log.", kind=_FILE)
    audit_log_max_size: int = flag(100, "Size in megabytes at which the file is rotated.", name="audit-log-maxsize")
    # 0 for no limit.
    audit_log_max_age: int = flag(0, "Days for which rotated files are kept.", name="audit-log-maxage")
    audit_log_max_backup: int = flag(0, "Number of rotated files that are kept.", name="audit-log-maxbackup")

    @property
    def allows_anonymous(self) -> bool:
        """Report whether requests without credentials are authorized as system:anonymous.

        With ALWAYS_ALLOW they are not, as upstream.
        """
        return self.anonymous_auth and self.authorization != ALWAYS_ALLOW

    @property
    def host(self) -> str:
        """Address at which clients of this machine reach the server."""
        return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.bind_address, self.bind_address)

    def arguments(self) -> Iterator[str]:
        """Yield the command line arguments from which `parse_settings` returns equal settings."""
        for declared in _FLAGS:
            value = getattr(self, declared.path[1])
            if value != declared.default:
                text = declared.kind.show(value) if declared.kind in _SHOWN else _text(value)
                yield f"--{declared.name}={text}"


def _text(value: str | int | tuple[str, ...]) -> str:
    return ",".join(value) if isinstance(value, tuple) else str(value)


_SHOWN = (BOOL, DURATION, _FILE, _PATH)  # types whose `show` returns what `parse` reads; that of strings adds quotes
_FLAGS = flags_in(ServerSettings, section="server")
_CHOICES = {"durability": (FULL, RELAXED), "authorization": (RBAC, ALWAYS_ALLOW), "log_format": ("text", "json")}


def parse_settings(argv: Sequence[str]) -> ServerSettings:
    """Return the settings for a command line. Raises FlagError."""
    parsed = parse(_FLAGS, argv)
    if parsed.positional:
        raise FlagError(f"unexpected argument: {parsed.positional[0]}")
    settings: ServerSettings = fill(_FLAGS, parsed.values)[ServerSettings]
    for field, choices in _CHOICES.items():
        if getattr(settings, field) not in choices:
            raise FlagError(f"{field} is one of {', '.join(choices)}, not {getattr(settings, field)}")
    return settings
