"""The ConfigMap that says since when the server notes the use of token Secrets: since it was first started.

Source: kubernetes pkg/controlplane/controller/legacytokentracking/controller.go (v1.36). The use itself is noted
where a token is taken (core/legacy_tokens.py).
"""

from __future__ import annotations

from kcm.protocols.objects import Object, make_key
from kcm.protocols.times import format_time
from kcm.runtime.apiserver.core.cluster import Cluster
from kcm.runtime.apiserver.verbs.create import create_object

NAMESPACE, NAME = "kube-system", "kube-apiserver-legacy-service-account-token-tracking"


def note_tracking(cluster: Cluster) -> None:
    definition = cluster.registry.find("", "v1", "configmaps")
    if definition is None or cluster.state.get(definition.storage, make_key(NAMESPACE, NAME)) is not None:
        return
    today = format_time(cluster.clock.now()).partition("T")[0]
    meta = {"name": NAME, "namespace": NAMESPACE}
    obj: Object = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": meta, "data": {"since": today}}
    create_object(cluster, definition, obj)
