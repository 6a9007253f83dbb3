"""Flags of kube-apiserver 1.36, as the program `kube-apiserver` of envtest accepts them.

A flag has an effect (ApiServerFlags), or is accepted without one because the embedded server works as if it was set
(NO_EFFECT), or is refused, because tests with it would test something else (REFUSED).

Source: kubernetes v1.36 cmd/kube-apiserver/app/options, kube-apiserver --help.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from kcm.runtime.flags.declaration import Flag, FlagStruct, flag
from kcm.runtime.flags.values import BOOL, DURATION, FILES, FLOAT, INT, PAIRS, STRING, STRINGS, ValueType


class ApiServerFlags(FlagStruct, frozen=True, kw_only=True):
    """Flags with an effect."""

    etcd_servers: tuple[str, ...] = flag(
        (), "URL of the etcd of `run-kcm envtest`, whose directory contains the stored objects."
    )
    etcd_prefix: str = flag("/registry", "API servers with different prefixes store different objects.")
    bind_address: str = flag(
        "127.0.0.1", "IP address to serve on. kube-apiserver's own default is all addresses, 0.0.0.0."
    )
    secure_port: int = flag(6443, "Port to serve HTTPS on.", kind=INT)
    cert_dir: str = flag(
        "/var/run/kubernetes",
        "Directory of the serving certificate, apiserver.crt and apiserver.key, which are created if they are missing. "
        "Ignored with --tls-cert-file and --tls-private-key-file.",
    )
    tls_cert_file: str = flag("", "File with the serving certificate and its chain.")
    tls_private_key_file: str = flag("", "File with the key of --tls-cert-file.")
    client_ca_file: str = flag(
        "", "File with authorities of client certificates. The common name is the user, organizations are the groups."
    )
    token_auth_file: str = flag("", "File with static tokens, in CSV: token, user, uid and optionally groups.")
    anonymous_auth: bool = flag(
        True, "Authorize requests without credentials as system:anonymous. Not with --authorization-mode=AlwaysAllow."
    )
    service_account_issuer: tuple[str, ...] = flag(
        (), "Issuer of tokens of service accounts. May be repeated; the first one issues new tokens.", kind=FILES
    )
    service_account_key_file: tuple[str, ...] = flag(
        (), "File with keys or certificates that verify tokens of service accounts. May be repeated.", kind=FILES
    )
    service_account_signing_key_file: str = flag("", "File with the private key that signs tokens of service accounts.")
    api_audiences: tuple[str, ...] = flag((), "Audiences of the server; by default the issuers.")
    authorization_mode: tuple[str, ...] = flag(
        (),
        "Authorizers: RBAC and Node together, or AlwaysAllow, which is the default.",
    )
    enable_admission_plugins: tuple[str, ...] = flag((), "Admission plugins to enable besides the default ones.")
    disable_admission_plugins: tuple[str, ...] = flag((), "Admission plugins to disable.")
    admission_control_config_file: str = flag("", "File with the configuration of admission plugins.")
    runtime_config: tuple[str, ...] = flag((), "Group versions to serve besides the default ones.")
    service_cluster_ip_range: str = flag(
        "10.0.0.0/24", "CIDR range of Services. Two, separated by a comma, for dual-stack."
    )
    audit_policy_file: str = flag("", "File with the audit policy.")
    audit_log_path: str = flag("", "File of the audit log.")
    audit_log_maxsize: int = flag(100, "Size in megabytes at which the audit log is rotated.", kind=INT)
    audit_log_maxage: int = flag(0, "Days for which rotated audit logs are kept. 0 for no limit.", kind=INT)
    audit_log_maxbackup: int = flag(0, "Number of rotated audit logs that are kept. 0 for no limit.", kind=INT)
    feature_gates: tuple[str, ...] = flag(
        (), "Feature gates of Kubernetes 1.36. An unknown gate is an error; a known one has no effect."
    )


class Extras(FlagStruct, frozen=True, kw_only=True):
    """Flags that kube-apiserver does not have."""

    kcm_garbage_collection: bool = flag(
        False, "Delete dependents whose owner does not exist, as the garbage collector does."
    )
    kcm_namespace_deletion: bool = flag(
        False, "Delete the objects of a deleted namespace and then the namespace, as the namespace controller does."
    )


# Flags without effect, by type.
NO_EFFECT: Mapping[ValueType[Any], str] = {
    BOOL: """
        aggregator-reject-forwarding-redirect allow-privileged audit-log-batch-throttle-enable audit-log-compress
        audit-log-truncate-enabled audit-webhook-batch-throttle-enable audit-webhook-truncate-enabled
        contention-profiling disable-http2-serving emulation-forward-compatible enable-aggregator-routing
        enable-bootstrap-token-auth enable-garbage-collector enable-logs-handler enable-priority-and-fairness
        encryption-provider-config-automatic-reload permit-address-sharing permit-port-sharing profiling
        runtime-config-emulation-forward-compatible send-retry-after-while-not-ready-once
        service-account-extend-token-expiration service-account-lookup shutdown-send-retry-after watch-cache
    """,
    DURATION: """
        audit-log-batch-max-wait audit-webhook-batch-max-wait audit-webhook-initial-backoff
        authentication-token-webhook-cache-ttl authorization-webhook-cache-authorized-ttl
        authorization-webhook-cache-unauthorized-ttl coordinated-leadership-lease-duration
        coordinated-leadership-renew-deadline coordinated-leadership-retry-period etcd-compaction-interval
        etcd-count-metric-poll-period etcd-db-metric-poll-interval etcd-healthcheck-timeout etcd-readycheck-timeout
        event-ttl kubelet-timeout livez-grace-period request-timeout service-account-max-token-expiration
        shutdown-delay-duration shutdown-watch-termination-grace-period storage-initialization-timeout
    """,
    INT: """
        audit-log-batch-buffer-size audit-log-batch-max-size audit-log-batch-throttle-burst
        audit-log-truncate-max-batch-size audit-log-truncate-max-event-size audit-webhook-batch-buffer-size
        audit-webhook-batch-max-size audit-webhook-batch-throttle-burst audit-webhook-truncate-max-batch-size
        audit-webhook-truncate-max-event-size default-not-ready-toleration-seconds
        default-unreachable-toleration-seconds delete-collection-workers http2-max-streams-per-connection
        kubernetes-service-node-port lease-reuse-duration-seconds max-connection-bytes-per-sec
        max-mutating-requests-inflight max-requests-inflight min-request-timeout
    """,
    FLOAT: "audit-log-batch-throttle-qps audit-webhook-batch-throttle-qps goaway-chance",
    STRINGS: """
        cors-allowed-origins disabled-metrics emulated-version kubelet-preferred-address-types
        min-compatibility-version strict-transport-security-directives tls-cipher-suites tls-curve-preferences
        watch-cache-sizes
    """,
    STRING: """
        advertise-address allow-metric-labels-manifest audit-log-format audit-log-mode audit-log-version
        audit-webhook-mode audit-webhook-version authentication-token-webhook-version authorization-webhook-version
        debug-socket-path endpoint-reconciler-type external-hostname kubelet-certificate-authority
        kubelet-client-certificate kubelet-client-key peer-advertise-ip peer-advertise-port peer-ca-file
        service-account-jwks-uri service-node-port-range show-hidden-metrics-for-version storage-backend
        storage-media-type tls-min-version tracing-config-file
    """,
    PAIRS: "allow-metric-labels",
}
# Flags that are refused, by the reason.
REFUSED: Mapping[str, str] = {
    "admission is configured by --enable-admission-plugins and --disable-admission-plugins": "admission-control",
    "only tokens of service accounts and of --token-auth-file are accepted": """
        authentication-config authentication-token-webhook-config-file oidc-ca-file oidc-client-id oidc-groups-claim
        oidc-groups-prefix oidc-issuer-url oidc-required-claim oidc-signing-algs oidc-username-claim
        oidc-username-prefix
    """,
    "only RBAC, Node and AlwaysAllow are implemented": """
        authorization-config authorization-policy-file authorization-webhook-config-file
    """,
    "audit events are only written to a file": "audit-webhook-config-file",
    "objects are not encrypted": "encryption-provider-config",
    "there is no etcd": "etcd-cafile etcd-certfile etcd-keyfile etcd-servers-overrides",
    "requests of an authenticating proxy are not accepted": """
        requestheader-allowed-names requestheader-client-ca-file requestheader-extra-headers-prefix
        requestheader-group-headers requestheader-uid-headers requestheader-username-headers
    """,
    "aggregated API servers are not authenticated to": "proxy-client-cert-file proxy-client-key-file",
    "connections are opened directly": "egress-selector-config-file",
    "tokens are signed with --service-account-signing-key-file": "service-account-signing-endpoint",
    "there is one serving certificate": "tls-sni-cert-key",
}


class OtherFlags(FlagStruct, frozen=True, kw_only=True):
    """Flags of this group are parsed and checked, but not read."""


def other_flags() -> Iterator[Flag]:
    """Yield the flags without effect, and those that are refused."""
    for kind, names in NO_EFFECT.items():
        for name in names.split():
            yield Flag(
                name=name,
                path=(OtherFlags, name),
                section="",
                kind=kind,
                default="",
                help="Accepted.",
                retired="the embedded API server has no such setting",
            )
    for reason, names in REFUSED.items():
        for name in names.split():
            yield Flag(
                name=name, path=(OtherFlags, name), section="", kind=STRING, default="", help=reason, hidden=True
            )


def refusal(names: Collection[str]) -> str:
    """Return an error that names the first refused flag; "" if none of these flags is refused."""
    found = ((name, reason) for reason, refused in REFUSED.items() for name in refused.split())
    return next((f"--{name} is not supported here: {reason}" for name, reason in found if name in names), "")
