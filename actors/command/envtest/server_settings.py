"""Settings of the embedded API server from kube-apiserver's flags."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from kcm.actors.command.envtest.apiserver_flags import ApiServerFlags, Extras
from kcm.protocols.admission_plugins import KNOWN, NODE_RESTRICTION
from kcm.runtime.apiserver.kinds.built_in import BUILT_IN
from kcm.runtime.apiserver.kinds.runtime_config import is_off_by_default
from kcm.runtime.apiserver.process.settings import ALWAYS_ALLOW, FULL, RBAC, RELAXED, ServerSettings
from kcm.runtime.envtest.etcd_directory import EtcdDirectory
from kcm.runtime.process.files import write_private
from kcm.runtime.serving.certificates import self_signed


def server_settings(
    flags: ApiServerFlags, extras: Extras, etcd: EtcdDirectory, *, patience: float, now: float
) -> ServerSettings:
    """Return the settings that these flags determine.

    etcd: where the objects are stored
    patience: seconds to wait for an earlier server of the same etcd
    now: Unix seconds

    Raises OSError if --cert-dir cannot be written.
    """
    certificate, key = Path(flags.tls_cert_file), Path(flags.tls_private_key_file)
    if not flags.tls_cert_file:
        certificate, key = (Path(flags.cert_dir) / f"apiserver.{end}" for end in ("crt", "key"))
        ensure_serving_certificate(certificate, key, now=now)
    always = not flags.authorization_mode or "AlwaysAllow" in flags.authorization_mode
    return ServerSettings(
        directory=etcd.place(flags.etcd_prefix),
        durability=FULL if etcd.durable else RELAXED,
        patience=patience,
        bind_address=flags.bind_address,
        port=flags.secure_port,
        serving_certificate=str(certificate),
        serving_key=str(key),
        client_ca_file=flags.client_ca_file,
        token_auth_file=flags.token_auth_file,
        anonymous_auth=flags.anonymous_auth,
        authorization=ALWAYS_ALLOW if always else RBAC,
        account_issuers=flags.service_account_issuer,
        account_signing_key_file=flags.service_account_signing_key_file,
        account_verifying_key_files=flags.service_account_key_file,
        api_audiences=flags.api_audiences,
        service_ranges=tuple(cidr.strip() for cidr in flags.service_cluster_ip_range.split(",")),
        enable_plugins=flags.enable_admission_plugins,
        disable_plugins=tuple(_disabled(flags)),
        admission_config_file=flags.admission_control_config_file,
        runtime_config=tuple(_runtime_config(flags.runtime_config)),
        metrics=False,
        audit_policy_file=flags.audit_policy_file,
        audit_log_path=flags.audit_log_path,
        audit_log_max_size=flags.audit_log_maxsize,
        audit_log_max_age=flags.audit_log_maxage,
        audit_log_max_backup=flags.audit_log_maxbackup,
        collect_garbage=extras.kcm_garbage_collection,
        empty_namespaces=extras.kcm_namespace_deletion,
    )


def ensure_serving_certificate(certificate: Path, key: Path, *, now: float) -> None:
    """Create a self-signed certificate for localhost and its key if both files are missing. Raises OSError.

    If one of them exists, the server reports that it cannot load both.
    """
    if certificate.exists() or key.exists():
        return
    certificate.parent.mkdir(parents=True, exist_ok=True)
    made, made_key = self_signed(now=now)
    write_private(key, made_key)
    write_private(certificate, made)


def _disabled(flags: ApiServerFlags) -> Iterator[str]:
    """Yield the plugins to disable: NodeRestriction is off by default in kube-apiserver."""
    yield from (plugin for plugin in flags.disable_admission_plugins if plugin in KNOWN)
    if NODE_RESTRICTION not in (*flags.enable_admission_plugins, *flags.disable_admission_plugins):
        yield NODE_RESTRICTION


def _runtime_config(config: Sequence[str]) -> Iterator[str]:
    """Yield the entries that change what is served: group versions that are on by default may be enabled again."""
    served = {definition.api_version for definition in BUILT_IN if not is_off_by_default(definition)}
    for text in config:
        key, _, value = text.strip().partition("=")
        if key not in served or value.lower() not in ("", "true", "1", "t"):
            yield text
