"""ConfigMap with the date since which the use of token Secrets is tracked: the day of the server's first start.

Source: kubernetes pkg/controlplane/controller/legacytokentracking/controller.go (v1.36). The use of a token is recorded
by server/token_users.py.
"""

from __future__ import annotations

from kcm.protocols.objects import Object, make_key
from kcm.protocols.times import format_time
from kcm.runtime.apiserver.core.cluster import Cluster
from kcm.runtime.apiserver.verbs.create import create_object

NAMESPACE, NAME = "kube-system", "kube-apiserver-legacy-service-account-token-tracking"


def create_tracking_config_map(cluster: Cluster) -> None:
    definition = cluster.registry.find("", "v1", "configmaps")
    if definition is None or cluster.state.get(definition.storage, make_key(NAMESPACE, NAME)) is not None:
        return
    today = format_time(cluster.clock.now()).partition("T")[0]
    meta = {"name": NAME, "namespace": NAMESPACE}
    obj: Object = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": meta, "data": {"since": today}}
    create_object(cluster, definition, obj)
