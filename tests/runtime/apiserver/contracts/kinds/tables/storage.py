"""Objects of storage.k8s.io."""

from __future__ import annotations

from tests.runtime.apiserver.contracts.kinds.play import Kind, Table

ROOT = "/apis/storage.k8s.io/v1"

TABLE: Table = {
    "storageclasses": Kind(
        f"{ROOT}/storageclasses",
        {"metadata": {"name": "fast"}, "provisioner": "example.com/disk"},
        creates={
            "no provisioner": {"provisioner": None},
            "an odd provisioner": {"provisioner": "Example_Com//"},
            "a long list of parameters": {"parameters": {f"k{i}": "v" for i in range(513)}},
            "a parameter without a name": {"parameters": {"": "v"}},
            "an unsupported reclaim policy": {"reclaimPolicy": "Recycle"},
            "an unknown reclaim policy": {"reclaimPolicy": "Burn"},
            "an unknown binding mode": {"volumeBindingMode": "Later"},
            "an empty topology": {"allowedTopologies": [{}]},
            "a topology without values": {"allowedTopologies": [{"matchLabelExpressions": [{"key": "zone"}]}]},
            "a topology twice": {
                "allowedTopologies": [
                    {"matchLabelExpressions": [{"key": "zone", "values": ["a", "a"]}]},
                    {"matchLabelExpressions": [{"key": "zone", "values": ["b"]}, {"key": "zone", "values": ["c"]}]},
                ]
            },
            "a topology": {"allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}]},
            "all fields": {
                "parameters": {"type": "ssd"},
                "reclaimPolicy": "Retain",
                "mountOptions": ["ro"],
                "allowVolumeExpansion": True,
                "volumeBindingMode": "WaitForFirstConsumer",
            },
            "a bad name": {"metadata": {"name": "Fast_"}},
        },
        updates={
            "parameters": {"parameters": {"a": "b"}},
            "another provisioner": {"provisioner": "example.com/other"},
            "another reclaim policy": {"reclaimPolicy": "Retain"},
            "another binding mode": {"volumeBindingMode": "WaitForFirstConsumer"},
            "expansion": {"allowVolumeExpansion": True},
            "a label": {"metadata": {"labels": {"a": "b"}}},
            "no version": {"metadata": {"resourceVersion": None}},
        },
    ),
    "volumeattributesclasses": Kind(
        f"{ROOT}/volumeattributesclasses",
        {"metadata": {"name": "gold"}, "driverName": "example.com", "parameters": {"iops": "500"}},
        creates={
            "no driver": {"driverName": None},
            "an odd driver": {"driverName": "Example_Com//"},
            "no parameters": {"parameters": None},
            "a parameter without a name": {"parameters": {"": "v"}},
        },
        updates={
            "another driver": {"driverName": "example.org"},
            "other parameters": {"parameters": {"iops": "600"}},
            "a label": {"metadata": {"labels": {"a": "b"}}},
        },
    ),
    "volumeattachments": Kind(
        f"{ROOT}/volumeattachments",
        {
            "metadata": {"name": "va"},
            "spec": {"attacher": "example.com", "nodeName": "n1", "source": {"persistentVolumeName": "pv"}},
        },
        creates={
            "nothing": {"spec": None},
            "no attacher": {"spec": {"attacher": None}},
            "an odd attacher": {"spec": {"attacher": "_"}},
            "no node": {"spec": {"nodeName": None}},
            "an odd node": {"spec": {"nodeName": "N_1"}},
            "no source": {"spec": {"source": None}},
            "an empty volume": {"spec": {"source": {"persistentVolumeName": ""}}},
            "an odd volume": {"spec": {"source": {"persistentVolumeName": "P_"}}},
            "a status": {"status": {"attached": True}},
            "an inline volume": {
                "spec": {
                    "source": {
                        "persistentVolumeName": None,
                        "inlineVolumeSpec": {
                            "accessModes": ["ReadWriteOnce"],
                            "csi": {"driver": "example.com", "volumeHandle": "h"},
                        },
                    }
                }
            },
        },
        updates={
            "another node": {"spec": {"nodeName": "n2"}},
            "a status": {"status": {"attached": True}},
            "a label": {"metadata": {"labels": {"a": "b"}}},
            "no version": {"metadata": {"resourceVersion": None}},
        },
        statuses={
            "attached": {"status": {"attached": True, "attachmentMetadata": {"a": "b"}}},
            "another node": {"spec": {"nodeName": "n2"}},
            "an error": {
                "status": {"attached": False, "attachError": {"time": "2026-01-01T00:00:00Z", "message": "no"}}
            },
        },
    ),
    "csinodes": Kind(
        f"{ROOT}/csinodes",
        {"metadata": {"name": "n1"}, "spec": {"drivers": [{"name": "example.com", "nodeID": "a"}]}},
        creates={
            "no drivers": {"spec": {"drivers": []}},
            "no list of drivers": {"spec": {"drivers": None}},
            "no name": {"spec": {"drivers": [{"nodeID": "a"}]}},
            "no node": {"spec": {"drivers": [{"name": "example.com"}]}},
            "a long node": {"spec": {"drivers": [{"name": "example.com", "nodeID": "a" * 300}]}},
            "a driver twice": {"spec": {"drivers": [{"name": "a.b", "nodeID": "a"}, {"name": "a.b", "nodeID": "b"}]}},
            "odd topology keys": {
                "spec": {"drivers": [{"name": "a.b", "nodeID": "a", "topologyKeys": ["", "a", "a", "B_/"]}]}
            },
            "a negative count": {"spec": {"drivers": [{"name": "a.b", "nodeID": "a", "allocatable": {"count": -1}}]}},
        },
        updates={
            "another node": {"spec": {"drivers": [{"name": "example.com", "nodeID": "b"}]}},
            "one more driver": {
                "spec": {"drivers": [{"name": "example.com", "nodeID": "a"}, {"name": "example.org", "nodeID": "b"}]}
            },
            "no driver": {"spec": {"drivers": []}},
        },
    ),
    "csidrivers": Kind(
        f"{ROOT}/csidrivers",
        {"metadata": {"name": "example.com"}, "spec": {}},
        creates={
            "a bad name": {"metadata": {"name": "Example_"}},
            "all fields": {
                "spec": {
                    "attachRequired": False,
                    "podInfoOnMount": True,
                    "volumeLifecycleModes": ["Persistent", "Ephemeral"],
                    "storageCapacity": True,
                    "fsGroupPolicy": "File",
                    "requiresRepublish": True,
                    "seLinuxMount": True,
                    "tokenRequests": [{"audience": "a", "expirationSeconds": 600}],
                }
            },
            "an unknown mode": {"spec": {"volumeLifecycleModes": ["Sometimes"]}},
            "an unknown policy": {"spec": {"fsGroupPolicy": "Maybe"}},
            "an audience twice": {"spec": {"tokenRequests": [{"audience": "a"}, {"audience": "a"}]}},
            "a short token": {"spec": {"tokenRequests": [{"audience": "a", "expirationSeconds": 5}]}},
            "a frequent update": {"spec": {"nodeAllocatableUpdatePeriodSeconds": 5}},
        },
        updates={
            "attaching": {"spec": {"attachRequired": False}},
            "pod info": {"spec": {"podInfoOnMount": True}},
            "modes": {"spec": {"volumeLifecycleModes": ["Ephemeral"]}},
            "capacity": {"spec": {"storageCapacity": True}},
            "fs groups": {"spec": {"fsGroupPolicy": "None"}},
        },
    ),
    "csistoragecapacities": Kind(
        f"{ROOT}/namespaces/contract/csistoragecapacities",
        {"metadata": {"name": "c"}, "storageClassName": "fast", "capacity": "1Gi"},
        creates={
            "no class": {"storageClassName": None},
            "an odd class": {"storageClassName": "F_"},
            "negative capacity": {"capacity": "-1"},
            "negative size": {"maximumVolumeSize": "-1"},
            "an odd topology": {"nodeTopology": {"matchLabels": {"-": "a b"}}},
            "a topology": {"nodeTopology": {"matchLabels": {"a": "b"}}},
        },
        updates={
            "another class": {"storageClassName": "slow"},
            "another topology": {"nodeTopology": {"matchLabels": {"a": "b"}}},
            "another capacity": {"capacity": "2Gi"},
            "no version": {"metadata": {"resourceVersion": None}},
        },
    ),
}
