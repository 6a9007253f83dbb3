"""ServiceAccount: a pod without a service account gets the default one.

Upstream also mounts the account's token, and refuses a pod whose account is not there: here pods need none, so that
clusters without a controller of accounts, as in tests, run pods too.

Source: kubernetes plugin/pkg/admission/serviceaccount/admission.go (v1.36).
"""

from __future__ import annotations

from protocols.objects import Object
from runtime.apiserver.registry.definitions import ResourceDefinition


def admit_create(definition: ResourceDefinition, pod: Object) -> None:
    if definition.storage == "pods" and not pod["spec"].get("serviceAccountName"):
        pod["spec"]["serviceAccountName"] = pod["spec"]["serviceAccount"] = "default"
