"""Flags that kube-controller-manager does not have: the embedded cluster, the journal and injected faults."""

from __future__ import annotations

from kcm.runtime.flags.declaration import FlagStruct, flag
from kcm.runtime.flags.values import FILES, INT


class EmbeddedServerOptions(FlagStruct, frozen=True, kw_only=True):
    """Flags of the API server that kcm starts when no cluster is given. `run-kcm apiserver` also has them."""

    directory: str = flag(
        ".kcm/", "Directory for the database, certificates and kubeconfig of the embedded cluster.", name="embedded-dir"
    )
    port: int = flag(
        0,
        "Port of the embedded API server. 0 uses the port of the last run if it is free, else any free port.",
        name="embedded-port",
        kind=INT,
    )
    in_memory: bool = flag(
        False,
        "Keep the data of the embedded API server in memory, for tests. Certificates and the kubeconfig are written to "
        "a temporary directory, unless --embedded-dir is given.",
        name="embedded-in-memory",
    )
    durability: str = flag(
        "full",
        "When the embedded API server acknowledges a write: 'full', after it is on disk, or 'relaxed' (for "
        "tests), after the operating system has it.",
        name="embedded-durability",
    )
    authorization: str = flag(
        "rbac",
        "Authorization mode of the embedded API server: 'rbac', with upstream's bootstrap roles, or 'always-allow'.",
        name="embedded-authorization",
    )
    anonymous_auth: bool = flag(
        True,
        "Authorize requests without credentials to the embedded API server as user system:anonymous in the group "
        "system:unauthenticated. If false, or with --embedded-authorization=always-allow, such requests get 401.",
        name="embedded-anonymous-auth",
    )
    client_ca_file: str = flag(
        "",
        "Path to further certificate authorities for client certificates of the embedded API server. The common "
        "name is the user, the organizations are the groups.",
        name="embedded-client-ca-file",
    )
    audit_policy_file: str = flag(
        "",
        "Path to the audit policy (audit.k8s.io/v1) of the embedded API server. Requires --embedded-audit-log-path.",
        name="embedded-audit-policy-file",
    )
    audit_log_path: str = flag(
        "",
        "Path to the audit log of the embedded API server, with one JSON event per line. Requires "
        "--embedded-audit-policy-file.",
        name="embedded-audit-log-path",
    )
    audit_log_max_size: int = flag(
        100, "Size in megabytes at which the audit log file is rotated.", name="embedded-audit-log-maxsize", kind=INT
    )
    audit_log_max_age: int = flag(
        0,
        "Maximum number of days to retain rotated audit log files. 0 keeps them forever.",
        name="embedded-audit-log-maxage",
        kind=INT,
    )
    audit_log_max_backup: int = flag(
        0,
        "Maximum number of rotated audit log files to retain. 0 keeps all of them.",
        name="embedded-audit-log-maxbackup",
        kind=INT,
    )

    admission_config_file: str = flag(
        "",
        "Path to a file with admission configuration for the embedded API server (ResourceQuota, PodSecurity).",
        name="embedded-admission-control-config-file",
    )
    enable_plugins: tuple[str, ...] = flag(
        (),
        "Admission plugins of the embedded API server to enable in addition to the default ones.",
        name="embedded-enable-admission-plugins",
    )
    disable_plugins: tuple[str, ...] = flag(
        (),
        "Admission plugins of the embedded API server to disable. Plugins that depend on a controller that is "
        "disabled are disabled as well.",
        name="embedded-disable-admission-plugins",
    )
    runtime_config: tuple[str, ...] = flag(
        (),
        "Alpha and beta group versions that its API server serves, as of kube-apiserver's --runtime-config: api/all, "
        "api/alpha, api/beta, GROUP/VERSION or GROUP/VERSION/RESOURCE, with =true or =false.",
        name="embedded-runtime-config",
    )
    metrics: bool = flag(
        True,
        "Serve metrics.k8s.io there. If false, the group is left to a metrics-server that you install; its hollow pods "
        "serve the same metrics once they are ready.",
        name="embedded-metrics",
    )


class Embedded(EmbeddedServerOptions, frozen=True, kw_only=True):
    """Flags of the embedded cluster, which kcm starts when no cluster is given."""

    hollow_nodes: int = flag(3, "Number of hollow nodes, whose pods run in appearance only.", kind=INT)
    hollow_zones: int = flag(2, "Number of zones that the hollow nodes are spread over.", kind=INT)
    apply: tuple[str, ...] = flag((), "Path to a manifest to load at startup. May be repeated.", kind=FILES)


class Diagnosis(FlagStruct, frozen=True, kw_only=True):
    journal: str = flag(
        "", "Path to a file that every message between actors is recorded in. It contains Secrets; its mode is 0600."
    )
    journal_file_size: int = flag(64, "Size in megabytes at which the journal continues in a new file.", kind=INT)
    journal_files: int = flag(5, "Maximum number of journal files to retain.", kind=INT)
    fault_plan: str = flag("", "Path to a plan of faults to inject into this run. See docs/fault-injection.md.")
    fault_plan_on_any_cluster: bool = flag(False, "Allow --fault-plan on a cluster other than the embedded one.")
    console: bool = flag(
        True,
        "Serve the web console below /console/ of the HTTPS port. With an embedded cluster it is also served over HTTP "
        "on 127.0.0.1, at the link that is printed at the start.",
    )
    console_port: int = flag(
        0, "Port of the console of an embedded cluster, over HTTP on 127.0.0.1. 0 uses any free port.", kind=INT
    )
