"""The controller manager as a library: the only names that other programs may import; docs/embedding.md lists them.

The names are grouped by module, and the most frequent ones are also here:

    kcm.manager    run the controller manager in a program
    kcm.clusters   start an API server or a cluster
    kcm.specs      declare a controller
    kcm.commands   commands, which a reconciler yields
    kcm.outcomes   outcomes of commands
    kcm.steps      steps that carry out commands, and results of a reconcile
    kcm.objects    API objects
    kcm.tables     tables of the objects that a controller watches
    kcm.metrics    metrics of a controller
    kcm.manifests  declare custom resources and permissions, for generated manifests
    kcm.webhooks   declare webhooks that validate, mutate and convert objects
    kcm.testing    test controllers

All names are typed. A name is imported when it is first used, so `import kcm` costs almost nothing. Everything in
`actors`, `runtime` and `protocols` is internal and may change without notice.
"""

from typing import TYPE_CHECKING

from kcm._lazy import lazily

if TYPE_CHECKING:
    from kcm import clusters, commands, manager, manifests, metrics, objects, outcomes, specs, steps, tables, webhooks
    from kcm.clusters import *  # noqa: F403  (this import and the following: former names, see below)
    from kcm.clusters import ApiServer, LocalCluster
    from kcm.commands import *  # noqa: F403
    from kcm.manager import *  # noqa: F403
    from kcm.manager import BUILT_IN, ControllerSystem, api_transport, main
    from kcm.manager import InvalidOptions as InvalidOptions
    from kcm.manifests import *  # noqa: F403
    from kcm.metrics import *  # noqa: F403
    from kcm.objects import *  # noqa: F403
    from kcm.objects import Key, Object, Resource
    from kcm.outcomes import *  # noqa: F403
    from kcm.outcomes import CommandFailed as CommandFailed
    from kcm.specs import *  # noqa: F403
    from kcm.specs import ControllerSpec, Queue, Watch
    from kcm.steps import *  # noqa: F403
    from kcm.steps import Reconciliation, RequeueAfter
    from kcm.tables import *  # noqa: F403
    from kcm.tables import Tables
    from kcm.webhooks import *  # noqa: F403
    from kcm.webhooks import convert, mutate, validate

    __version__: str
else:
    # Until 0.2.0 every name was here. Programs written for 0.2.0 still find it here, so each name of each group is
    # listed, but __all__ and the documentation have only the most frequent ones.
    _GROUPS = {
        "clusters": (
            "ApiServer",
            "LaunchError",
            "LocalCluster",
        ),
        "commands": (
            "apply",
            "create",
            "delete",
            "Enqueue",
            "get_live",
            "list_live",
            "merge_status",
            "outside",
            "patch",
            "PatchType",
            "record",
            "update",
        ),
        "manager": (
            "api_transport",
            "BUILT_IN",
            "Candidacy",
            "ConfigError",
            "ControllerSystem",
            "Election",
            "FlagError",
            "installed_controllers",
            "InvalidOptions",
            "InvalidOptionsError",
            "main",
            "Migration",
            "Options",
            "Pages",
            "read_options",
            "Request",
            "Response",
            "serve",
            "ServingError",
            "TlsError",
            "Transport",
        ),
        "manifests": (
            "cel",
            "PrinterColumn",
            "custom_resource_definitions",
            "Definition",
            "DefinitionFile",
            "GenerationError",
            "list_map",
            "Permission",
            "CelRule",
            "ScaleSubresource",
        ),
        "metrics": (
            "Counter",
            "Family",
            "Gauge",
            "Histogram",
            "Metrics",
        ),
        "objects": (
            "as_object",
            "controlled_by",
            "decode_object",
            "encode_object",
            "finalizers_of",
            "find_condition",
            "is_deleting",
            "Key",
            "key_of",
            "labels_of",
            "make_key",
            "name_of",
            "namespace_of",
            "Object",
            "ObjectMeta",
            "own",
            "owned",
            "OwnerReference",
            "Resource",
            "set_condition",
            "split_key",
            "uid_of",
        ),
        "outcomes": (
            "AlreadyExists",
            "answer_of",
            "CommandError",
            "CommandFailed",
            "Conflict",
            "Done",
            "Forbidden",
            "Gone",
            "Invalid",
            "NotFound",
            "Outcome",
            "Raised",
            "Refused",
            "ServerFailure",
            "Throttled",
            "Unknown",
        ),
        "specs": (
            "Backoff",
            "Change",
            "Clock",
            "ControllerContext",
            "ControllerOptions",
            "ControllerSpec",
            "DebugPage",
            "Discovered",
            "Facts",
            "flag",
            "Index",
            "Interest",
            "its_controller",
            "itself",
            "ORPHANS",
            "Pass",
            "Queue",
            "Read",
            "Reconciler",
            "ServedResource",
            "Source",
            "SystemClock",
            "Waker",
            "Watch",
        ),
        "steps": (
            "Because",
            "call",
            "ensure",
            "ensure_finalizer",
            "finalize",
            "in_batches",
            "must",
            "must_all",
            "must_object",
            "patch_status",
            "perform",
            "Reconciliation",
            "remove_finalizer",
            "RequeueAfter",
            "Retry",
            "slow_start",
            "Step",
            "step",
            "TerminalError",
            "together",
        ),
        "tables": (
            "Lister",
            "TableMissingError",
            "Tables",
            "UnreadableError",
        ),
        "webhooks": (
            "AdmissionRequest",
            "AdmissionWebhook",
            "CertificateLives",
            "convert",
            "Denied",
            "mutate",
            "UserInfo",
            "validate",
            "VersionConversion",
            "WebhookServing",
        ),
    }
    __getattr__, __dir__ = lazily(
        __name__,
        {"__version__": "kcm._version:VERSION"}
        | {name: f"kcm.{group}:{name}" for group, names in _GROUPS.items() for name in names}
        | {group: f"kcm.{group}" for group in _GROUPS},
    )

__all__ = [
    "BUILT_IN",
    "ApiServer",
    "ControllerSpec",
    "ControllerSystem",
    "Key",
    "LocalCluster",
    "Object",
    "Queue",
    "Reconciliation",
    "RequeueAfter",
    "Resource",
    "Tables",
    "Watch",
    "api_transport",
    "clusters",
    "commands",
    "convert",
    "main",
    "manager",
    "manifests",
    "metrics",
    "mutate",
    "objects",
    "outcomes",
    "specs",
    "steps",
    "tables",
    "validate",
    "webhooks",
]
