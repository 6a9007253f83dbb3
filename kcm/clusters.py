"""Clusters that a program starts itself: an API server alone, or an API server with hollow nodes.

A name is imported when it is first used.
"""

from typing import TYPE_CHECKING

from kcm._lazy import lazily

if TYPE_CHECKING:
    from kcm.actors.app.api_server import ApiServer
    from kcm.actors.app.local_cluster import LocalCluster
    from kcm.runtime.apiserver.process.launch import LaunchError
else:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "ApiServer": "kcm.actors.app.api_server:ApiServer",
            "LaunchError": "kcm.runtime.apiserver.process.launch:LaunchError",
            "LocalCluster": "kcm.actors.app.local_cluster:LocalCluster",
        },
    )

__all__ = ["ApiServer", "LaunchError", "LocalCluster"]
