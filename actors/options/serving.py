"""Flags of the pages that are served: addresses, TLS, authentication and authorization."""

from __future__ import annotations

from kcm.runtime.flags.declaration import FlagStruct, flag
from kcm.runtime.flags.values import DURATION, INT, INTEGERS, NAMED_PAIRS

# The web server implements no HTTP/2. Clients of a few small pages need no multiplexing, and all fall back to HTTP/1.1.
ONLY_HTTP_1 = "kcm serves HTTP/1.1 only, to which clients fall back"


class SecureServing(FlagStruct, frozen=True, kw_only=True):
    bind_address: str = flag("0.0.0.0", "Address to serve HTTPS on. With an embedded cluster the default is 127.0.0.1.")
    port: int = flag(
        10257,
        "Port to serve HTTPS on. 0 disables HTTPS. With an embedded cluster a free port is used if this one is "
        "taken and the flag is not set.",
        name="secure-port",
        kind=INT,
    )
    cert_dir: str = flag(
        "",
        "Directory of kube-controller-manager.crt and kube-controller-manager.key. If empty, a self-signed "
        "certificate is kept in memory.",
    )
    tls_cert_file: str = flag("", "Path to the server certificate, followed by its chain.")
    tls_private_key_file: str = flag("", "Path to the private key of --tls-cert-file.")
    tls_min_version: str = flag("", "Minimum TLS version: VersionTLS12 or VersionTLS13.")
    tls_sni_cert_key: tuple[tuple[str, str, tuple[str, ...]], ...] = flag(
        (),
        "Certificate and key for clients that request one of these names ('*.' stands for one label), or one of "
        "the certificate's own names. May be repeated.",
        kind=NAMED_PAIRS,
    )
    tls_cipher_suites: tuple[str, ...] = flag(
        (), "Comma-separated list of cipher suites to offer, by Go's names. Those of TLS 1.3 are always offered."
    )
    tls_curve_preferences: tuple[int, ...] = flag(
        (), "Key exchange mechanisms to offer, by Go's numbers. Before Python 3.15 only one is possible.", kind=INTEGERS
    )
    disable_http2_serving: bool = flag(False, "Do not serve HTTP/2.", retired=ONLY_HTTP_1)
    http2_max_streams_per_connection: int = flag(
        0, "Maximum number of streams in one HTTP/2 connection.", kind=INT, retired=ONLY_HTTP_1
    )
    permit_address_sharing: bool = flag(False, "Listen with SO_REUSEADDR.", retired="kcm always sets SO_REUSEADDR")
    permit_port_sharing: bool = flag(False, "Listen with SO_REUSEPORT, so that several processes can share the port.")


class PlainServing(FlagStruct, frozen=True, kw_only=True):
    """HTTP without TLS, served only if one of the two flags is given.

    Old releases served all addresses by default. As these pages need no credentials, the default here is loopback.
    """

    address: str = flag(
        "127.0.0.1",
        "Address to serve plain HTTP on. HTTP is served if this flag or --port is set. 0.0.0.0 makes it "
        "reachable from other machines.",
    )
    port: int = flag(10252, "Port to serve plain HTTP on. HTTP is served if this flag or --address is set.", kind=INT)


class Authentication(FlagStruct, frozen=True, kw_only=True):
    kubeconfig: str = flag(
        "",
        "Path to a kubeconfig file for the API server that reviews tokens. If empty, the API server of the pod is "
        "used; outside of a pod, requests with a token are anonymous.",
        name="authentication-kubeconfig",
    )
    skip_lookup: bool = flag(
        False,
        "Do not look up missing authentication configuration in the cluster (ConfigMap "
        "kube-system/extension-apiserver-authentication).",
        name="authentication-skip-lookup",
    )
    tolerate_lookup_failure: bool = flag(
        False,
        "Continue if authentication configuration cannot be looked up in the cluster.",
        name="authentication-tolerate-lookup-failure",
    )
    token_webhook_cache_ttl: float = flag(
        10.0,
        "Time for which reviews of tokens are cached.",
        name="authentication-token-webhook-cache-ttl",
        kind=DURATION,
    )
    client_ca_file: str = flag(
        "",
        "Path to certificate authorities for client certificates. The common name is the user; the group "
        "system:masters may read all pages.",
    )
    requestheader_client_ca_file: str = flag(
        "", "Path to certificate authorities of authenticating proxies, which name the user in headers."
    )
    requestheader_allowed_names: tuple[str, ...] = flag(
        (), "Common names of client certificates that authenticating proxies may present. Empty allows any."
    )
    requestheader_username_headers: tuple[str, ...] = flag(
        ("x-remote-user",), "Request headers that contain the name of the user."
    )
    requestheader_group_headers: tuple[str, ...] = flag(
        ("x-remote-group",), "Request headers that contain the groups of the user."
    )
    requestheader_extra_headers_prefix: tuple[str, ...] = flag(
        ("x-remote-extra-",),
        "Prefixes of request headers that contain extra attributes of the user.",
    )
    requestheader_uid_headers: tuple[str, ...] = flag((), "Request headers that contain the UID of the user.")


class Authorization(FlagStruct, frozen=True, kw_only=True):
    always_allow_paths: tuple[str, ...] = flag(
        ("/healthz", "/readyz", "/livez"),
        "HTTPS paths that are served without authorization. A trailing '*' matches any suffix.",
        name="authorization-always-allow-paths",
    )
    kubeconfig: str = flag(
        "",
        "Path to a kubeconfig file for the API server that reviews access. If empty, the API server of the pod is "
        "used; outside of a pod, only system:masters and always allowed paths are served.",
        name="authorization-kubeconfig",
    )
    webhook_cache_authorized_ttl: float = flag(
        10.0,
        "Time for which allowed access reviews are cached.",
        name="authorization-webhook-cache-authorized-ttl",
        kind=DURATION,
    )
    webhook_cache_unauthorized_ttl: float = flag(
        10.0,
        "Time for which denied access reviews are cached.",
        name="authorization-webhook-cache-unauthorized-ttl",
        kind=DURATION,
    )
