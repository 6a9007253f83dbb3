"""Resources, scheduling, updates and warnings of pods."""

from __future__ import annotations

from typing import Any

from tests.runtime.apiserver.contracts.kinds.play import Kind, Table

PODS = "/api/v1/namespaces/contract/pods"
C = {"name": "c", "image": "nginx:1"}
GATES = [{"name": "example.com/a"}, {"name": "example.com/b"}]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def _good(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {"a": "b"}},
        "spec": {"containers": [C], "serviceAccountName": "sa", **spec},
    }


def _spec(**fields: Any) -> dict[str, Any]:
    return {"spec": fields}


def _container(**fields: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{**C, **fields}]}}


def _resources(**fields: Any) -> dict[str, Any]:
    return _container(resources=fields)


def _of_pod(own: dict[str, Any], *containers: dict[str, Any]) -> dict[str, Any]:
    made = [
        {"name": f"c{i}", "image": "a:1", "resources": resources} for i, resources in enumerate(containers or ({},))
    ]
    return {"spec": {"resources": own, "containers": made}}


def _volume(**source: Any) -> dict[str, Any]:
    return {"spec": {"volumes": [{"name": "v", **source}]}}


def _projected(*sources: dict[str, Any]) -> dict[str, Any]:
    return _volume(projected={"sources": list(sources)})


def _claims(*names: str, **fields: Any) -> dict[str, Any]:
    return {
        "spec": {
            "resourceClaims": [{"name": name, "resourceClaimName": name} for name in names],
            "containers": [{**C, **fields}],
        }
    }


def _annotated(**annotations: str) -> dict[str, Any]:
    return {"metadata": {"annotations": annotations}}


def _nodes(*expressions: dict[str, Any]) -> dict[str, Any]:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": list(expressions)}]}}}


IN = {"key": "a", "operator": "In", "values": ["b"]}
WINDOWS = {"os": {"name": "windows"}}
APPARMOR = "container.apparmor.security.beta.kubernetes.io"


def _extended(*mappings: dict[str, Any], claim: str = "e") -> dict[str, Any]:
    return {"status": {"extendedResourceClaimStatus": {"resourceClaimName": claim, "requestMappings": list(mappings)}}}


TABLE: Table = {
    "demanding pods": Kind(
        PODS,
        _good("demanding"),
        creates={
            # amounts
            "huge pages in part": _resources(limits={"hugepages-2Mi": "3Mi", "cpu": "1"}),
            "huge pages of no size": _resources(limits={"hugepages-x": "4Mi", "cpu": "1"}),
            "fewer huge pages than the limit": _resources(
                limits={"hugepages-2Mi": "4Mi", "cpu": "1"}, requests={"hugepages-2Mi": "2Mi"}
            ),
            "huge pages asked for": _resources(requests={"hugepages-2Mi": "2Mi", "cpu": "1"}),
            "memory in thousandths": _resources(requests={"memory": "100m"}, limits={"memory": "1500m"}),
            "disk in thousandths": _resources(requests={"ephemeral-storage": "100m"}),
            "zero": _resources(requests={"cpu": "0"}),
            "fewer devices than the limit": _resources(
                limits={"example.com/gpu": "2"}, requests={"example.com/gpu": "1"}
            ),
            "pods": _resources(limits={"pods": "1"}),
            "of the domain": _resources(limits={"kubernetes.io/a": "1"}),
            "requests with a prefix": _resources(limits={"requests.example.com/a": "1"}),
            # claims
            "a claim": _claims("a", resources={"claims": [{"name": "a"}]}),
            "a claim twice": _claims("a", resources={"claims": [{"name": "a"}, {"name": "a"}]}),
            "requests of a claim": _claims(
                "a", resources={"claims": [{"name": "a", "request": "x"}, {"name": "a", "request": "y"}]}
            ),
            "a request twice": _claims(
                "a", resources={"claims": [{"name": "a", "request": "x"}, {"name": "a", "request": "x"}]}
            ),
            "a claim and a request of it": _claims(
                "a", resources={"claims": [{"name": "a", "request": "x"}, {"name": "a"}]}
            ),
            "an odd request": _claims("a", resources={"claims": [{"name": "a", "request": "X_"}, {"name": ""}]}),
            "another claim": _claims("a", "b", resources={"claims": [{"name": "c"}]}),
            "claims twice": _claims("a", "a"),
            "no name of a claim": _spec(resourceClaims=[{"resourceClaimTemplateName": "t"}]),
            "odd names of claims": _spec(
                resourceClaims=[
                    {"name": "a", "resourceClaimTemplateName": "T_"},
                    {"name": "b", "resourceClaimName": "C_"},
                ]
            ),
            # of the pod
            "of the pod and its containers": _of_pod(
                {"limits": {"cpu": "2", "memory": "1Gi"}}, {"requests": {"cpu": "1"}}, {"limits": {"cpu": "500m"}}
            ),
            "less than the containers": _of_pod({"requests": {"cpu": "1"}}, {"requests": {"cpu": "2"}}),
            "a container above": _of_pod({"limits": {"cpu": "1"}}, {"limits": {"cpu": "2"}}),
            "huge pages of the pod": _of_pod(
                {"limits": {"cpu": "1"}}, {"limits": {"hugepages-2Mi": "4Mi", "cpu": "1"}}
            ),
            "claims of the pod": _of_pod({"claims": [{"name": "a"}]}),
            "storage of the pod": _of_pod({"requests": {"ephemeral-storage": "1Gi"}}),
            "nothing of the pod": _of_pod({}),
            "requests of the pod": _of_pod({"requests": {"cpu": "1"}}),
            "overhead that is odd": _spec(overhead={"a b": "1", "cpu": "-1"}, runtimeClassName="r"),
            "a runtime class": _spec(runtimeClassName="R_"),
            # hosts
            "users of its own": _spec(hostUsers=False),
            "users and ipc of the host": _spec(hostUsers=False, hostIPC=True),
            "users and devices": _spec(
                hostUsers=False,
                volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
                containers=[{**C, "volumeDevices": [{"name": "v", "devicePath": "/d"}]}],
            ),
            "a name of its host": _spec(hostnameOverride="a.b"),
            "an odd name of its host": _spec(hostnameOverride="A_"),
            "a name of the host's": _spec(hostnameOverride="a", hostNetwork=True),
            "a whole name and another": _spec(hostnameOverride="a", setHostnameAsFQDN=True),
            "a priority": _spec(priority=5),
            "a class of priority": _spec(priorityClassName="P_"),
            "a policy of preemption": _spec(preemptionPolicy="Maybe"),
            "a group": _spec(schedulingGroup={"podGroupName": "g"}),
            # devices
            "a device of a volume": _spec(
                volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
                containers=[{**C, "volumeDevices": [{"name": "v", "devicePath": "/d"}]}],
            ),
            "odd devices": _spec(
                volumes=[{"name": "v", "emptyDir": {}}, {"name": "w", "persistentVolumeClaim": {"claimName": "c"}}],
                containers=[
                    {
                        **C,
                        "volumeDevices": [
                            {"name": "v", "devicePath": "/d"},
                            {"name": "", "devicePath": ""},
                            {"name": "w", "devicePath": "/d"},
                            {"name": "w", "devicePath": "/a/../b"},
                            {"name": "x", "devicePath": "/e"},
                        ],
                    }
                ],
            ),
            "a device and a mount": _spec(
                volumes=[{"name": "w", "persistentVolumeClaim": {"claimName": "c"}}],
                containers=[
                    {
                        **C,
                        "volumeDevices": [{"name": "w", "devicePath": "/d"}],
                        "volumeMounts": [{"name": "w", "mountPath": "/d"}],
                    }
                ],
            ),
            # volumes
            "a bundle": _projected({"clusterTrustBundle": {"name": "a", "path": "p"}}),
            "odd bundles": _projected(
                {"clusterTrustBundle": {"path": "p"}},
                {"clusterTrustBundle": {"name": "a", "signerName": "example.com/s", "path": "q"}},
                {"clusterTrustBundle": {"signerName": "odd", "path": "../q", "labelSelector": {}}},
                {"clusterTrustBundle": {"name": "A_", "labelSelector": {"matchLabels": {"-": "a"}}, "path": ""}},
            ),
            "a certificate": _projected(
                {
                    "podCertificate": {
                        "signerName": "example.com/s",
                        "keyType": "ED25519",
                        "credentialBundlePath": "b.pem",
                    }
                }
            ),
            "odd certificates": _projected(
                {"podCertificate": {"signerName": "s", "keyType": "X"}},
                {
                    "podCertificate": {
                        "signerName": "example.com/s",
                        "keyType": "ED25519",
                        "keyPath": "/k",
                        "certificateChainPath": "../c",
                        "maxExpirationSeconds": 5,
                    }
                },
            ),
            "a token for somebody": _projected({"serviceAccountToken": {"path": "t", "audience": "x"}}),
            "a token for long": _projected({"serviceAccountToken": {"path": "t", "expirationSeconds": 1 << 33}}),
            "an ephemeral claim": _volume(
                ephemeral={
                    "volumeClaimTemplate": {
                        "metadata": {"labels": {"-": "a"}},
                        "spec": {"accessModes": ["Maybe"], "resources": {"requests": {"storage": "0"}}},
                    }
                }
            ),
            "fibre channel": _volume(fc={"targetWWNs": ["a"], "wwids": ["b"], "lun": 300}),
            "fibre channel of nothing": _volume(fc={}),
            "iscsi": _volume(iscsi={"targetPortal": "1.2.3.4", "iqn": "iqn.2001-04.com.example:a", "lun": 0}),
            "odd iscsi": _volume(iscsi={"targetPortal": "", "iqn": "x", "lun": 300, "chapAuthDiscovery": True}),
            "a disk in thousandths": _volume(emptyDir={"sizeLimit": "100m"}),
            "of git": _volume(gitRepo={"repository": "a"}),
            "of rbd": _volume(rbd={"monitors": ["a"], "image": "b"}),
            "of ceph": _volume(cephfs={"monitors": ["a"]}),
            "of gluster": _volume(glusterfs={"endpoints": "a", "path": "b"}),
            "a disk of azure": _volume(azureDisk={"diskName": "a", "diskURI": "b"}),
            "a file of azure": _volume(azureFile={"secretName": "a", "shareName": "b"}),
            "of aws": _volume(awsElasticBlockStore={"volumeID": "a"}),
            "of gce": _volume(gcePersistentDisk={"pdName": "a"}),
            "of cinder": _volume(cinder={"volumeID": "a"}),
            "of vsphere": _volume(vsphereVolume={"volumePath": "a"}),
            "of portworx": _volume(portworxVolume={"volumeID": "a"}),
            "of scaleio": _volume(
                scaleIO={"gateway": "a", "system": "b", "volumeName": "c", "secretRef": {"name": "d"}}
            ),
            "of storageos": _volume(storageos={"volumeName": "a"}),
            "of flocker": _volume(flocker={"datasetName": "a"}),
            "of quobyte": _volume(quobyte={"registry": "a:1", "volume": "b"}),
            "of photon": _volume(photonPersistentDisk={"pdID": "a"}),
            "of flex": _volume(flexVolume={"driver": "a/b"}),
            # environment
            "a key of a file": _spec(
                volumes=[{"name": "v", "emptyDir": {}}],
                containers=[
                    {
                        **C,
                        "env": [
                            {
                                "name": "A",
                                "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "p", "key": "K"}},
                            }
                        ],
                    }
                ],
            ),
            "odd keys of files": _container(
                env=[{"name": "A", "valueFrom": {"fileKeyRef": {"volumeName": "", "path": "/p", "key": "k="}}}]
            ),
            "a variable twice": _container(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]),
            "a variable of others": _container(
                env=[{"name": "A", "value": "$(A) $(B)"}, {"name": "A", "value": "2"}, {"name": "B", "value": "$(A)"}]
            ),
            "a path of two lists": _container(env=[{"name": "PATH", "value": "a;b:c"}]),
            # containers
            "a port twice": _container(ports=[{"containerPort": 80}, {"containerPort": 80}]),
            "a port of two containers": _spec(
                containers=[
                    {**C, "ports": [{"name": "http", "containerPort": 80}]},
                    {"name": "d", "image": "a:1", "ports": [{"name": "http", "containerPort": 80}]},
                ]
            ),
            "a port for another protocol": _container(
                ports=[{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}]
            ),
            "rules of restarts": _container(
                restartPolicy="Never",
                restartPolicyRules=[{"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}],
            ),
            "odd rules of restarts": _container(
                restartPolicyRules=[{"action": "Maybe", "exitCodes": {"operator": "Near", "values": []}}]
            ),
            "a container that may restart": _container(restartPolicy="OnFailure"),
            "a container that restarts oddly": _container(restartPolicy="Perhaps"),
            "no sleep": _container(lifecycle={"preStop": {"sleep": {"seconds": 0}}}),
            "less than no sleep": _container(lifecycle={"preStop": {"sleep": {"seconds": -1}}}),
            "a hook over http": _container(lifecycle={"postStart": {"httpGet": {"port": "http"}}}),
            "a hook of two": _container(
                lifecycle={"postStart": {"exec": {"command": ["a"]}, "tcpSocket": {"port": 80}}}
            ),
            "a startup probe": _container(startupProbe={"exec": {"command": ["a"]}, "successThreshold": 2}),
            "a probe of a service": _container(readinessProbe={"grpc": {"port": 80, "service": "a"}}),
            "a probe with a host": _container(
                livenessProbe={"httpGet": {"port": 80, "host": "a", "httpHeaders": [{"name": "A", "value": "b"}]}}
            ),
            "a policy of init": _spec(
                initContainers=[
                    {
                        "name": "i",
                        "image": "a:1",
                        "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}],
                    }
                ]
            ),
            "resizes that restart, never": _spec(
                restartPolicy="Never",
                containers=[{**C, "resizePolicy": [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]}],
            ),
            "images pulled never": _container(imagePullPolicy="Perhaps"),
            "a terminal": _container(tty=True, stdin=True, stdinOnce=True, workingDir="/"),
            "an empty message path": _container(terminationMessagePath="", terminationMessagePolicy="Odd"),
            # selectors and keys
            "keys merged": _spec(
                affinity={
                    "podAffinity": {
                        REQUIRED: [
                            {
                                "labelSelector": {"matchLabels": {"x": "y"}},
                                "topologyKey": "zone",
                                "matchLabelKeys": ["a"],
                                "mismatchLabelKeys": ["d"],
                            }
                        ]
                    },
                    "podAntiAffinity": {
                        PREFERRED: [
                            {
                                "weight": 1,
                                "podAffinityTerm": {
                                    "labelSelector": {"matchLabels": {"x": "y"}},
                                    "topologyKey": "zone",
                                    "mismatchLabelKeys": ["a"],
                                },
                            }
                        ]
                    },
                }
            ),
            "keys of a spread": _spec(
                topologySpreadConstraints=[
                    {
                        "maxSkew": 1,
                        "topologyKey": "zone",
                        "whenUnsatisfiable": "DoNotSchedule",
                        "labelSelector": {"matchLabels": {"x": "y"}},
                        "matchLabelKeys": ["a"],
                    }
                ]
            ),
            "old topology": _spec(
                nodeSelector={"beta.kubernetes.io/os": "linux"},  # with two keys, the order would be that of Go's map
                affinity=_nodes({"key": "beta.kubernetes.io/arch", "operator": "In", "values": ["b"]}),
                topologySpreadConstraints=[
                    {
                        "maxSkew": 1,
                        "topologyKey": "failure-domain.beta.kubernetes.io/region",
                        "whenUnsatisfiable": "DoNotSchedule",
                    }
                ],
            ),
            "an old zone": _spec(nodeSelector={"failure-domain.beta.kubernetes.io/zone": "a"}),
            "anti-affinity of nobody": _spec(
                affinity={
                    "podAntiAffinity": {
                        REQUIRED: [{"topologyKey": "zone"}, {"topologyKey": "zone", "labelSelector": {}}]
                    }
                }
            ),
            "an image for all": _spec(imagePullSecrets=[{"name": "a"}, {}, {"name": "A_"}]),
            "aliases of nothing": _spec(hostAliases=[{"hostnames": ["a"]}, {"ip": "1.2.3.4"}]),
            "dns with zeros": _spec(dnsPolicy="None", dnsConfig={"nameservers": ["010.0.0.1"]}),
            "a short deadline": _spec(activeDeadlineSeconds=1),
            "an operator of numbers": _spec(tolerations=[{"key": "a", "operator": "Lt", "value": "5"}]),
            # annotations
            "apparmor": _annotated(**{f"{APPARMOR}/c": "runtime/default"}),
            "apparmor of a file": _annotated(**{f"{APPARMOR}/c": "localhost/a"}),
            "odd apparmor": _annotated(**{f"{APPARMOR}/c": "odd"}),
            "apparmor of nobody": _annotated(**{f"{APPARMOR}/x": "unconfined"}),
            "apparmor and another": {
                **_annotated(**{f"{APPARMOR}/c": "unconfined"}),
                **_container(securityContext={"appArmorProfile": {"type": "RuntimeDefault"}}),
            },
            "seccomp": _annotated(**{"seccomp.security.alpha.kubernetes.io/pod": "runtime/default"}),
            "seccomp of a container": _annotated(**{"container.seccomp.security.alpha.kubernetes.io/c": "localhost/a"}),
            "a cost of deletion": _annotated(**{"controller.kubernetes.io/pod-deletion-cost": "much"}),
            "old annotations": _annotated(
                **{
                    "scheduler.alpha.kubernetes.io/critical-pod": "",
                    "security.alpha.kubernetes.io/sysctls": "a=b",
                    "security.alpha.kubernetes.io/unsafe-sysctls": "a=b",
                }
            ),
            "a mirror": _annotated(**{"kubernetes.io/config.mirror": "x"}),
            # windows
            "windows": _spec(**WINDOWS),
            "linux on windows": {
                "spec": {
                    **WINDOWS,
                    "hostPID": True,
                    "hostIPC": True,
                    "hostUsers": True,
                    "shareProcessNamespace": False,
                    "securityContext": {
                        "runAsUser": 1,
                        "fsGroup": 1,
                        "sysctls": [{"name": "a", "value": "b"}],
                        "seLinuxOptions": {},
                        "supplementalGroups": [1],
                        "fsGroupChangePolicy": "Always",
                    },
                    "containers": [
                        {
                            **C,
                            "securityContext": {
                                "privileged": False,
                                "capabilities": {},
                                "readOnlyRootFilesystem": True,
                                "procMount": "Default",
                                "runAsGroup": 1,
                            },
                        }
                    ],
                    "resources": {"limits": {"cpu": "1"}},
                }
            },
            "windows on linux": _spec(os={"name": "linux"}, securityContext={"windowsOptions": {"runAsUserName": "a"}}),
            "users of windows": _spec(
                initContainers=[
                    {"name": f"i{i}", "image": "a:1", "securityContext": {"windowsOptions": {"runAsUserName": name}}}
                    for i, name in enumerate(("", "a\tb", "a\\b\\c", "a\\", ".", "a@b", "do.main\\u", "x" * 105))
                ]
            ),
            "host processes": _spec(
                hostNetwork=True, securityContext={"windowsOptions": {"hostProcess": True, "gmsaCredentialSpec": ""}}
            ),
            "some host processes": _spec(
                securityContext={"windowsOptions": {"hostProcess": False}},
                containers=[{**C, "securityContext": {"windowsOptions": {"hostProcess": True}}}],
            ),
            # metadata
            "odd owners": {"metadata": {"ownerReferences": [{"kind": "Event", "apiVersion": "v1", "name": "a"}]}},
            "odd finalizers": {"metadata": {"finalizers": ["a", "example.com/b"]}},
            "a long name": {"metadata": {"name": "n" * 100}},
            "dots in its name": {"metadata": {"name": "a.b"}},
        },
        updates={
            "a shorter deadline": _spec(activeDeadlineSeconds=0),
            "a long deadline": _spec(activeDeadlineSeconds=1 << 32),
            "more tolerations": _spec(tolerations=[{"key": "a", "operator": "Exists"}]),
            "no tolerations": _spec(tolerations=[]),
            "another account": _spec(serviceAccountName="other", serviceAccount="other"),
            "the network of the host": _spec(hostNetwork=True),
            "a node selector": _spec(nodeSelector={"a": "b"}),
            "two things": _spec(hostname="h", containers=[{**C, "image": "nginx:2", "args": ["a"]}]),
            "volumes": _volume(emptyDir={}),
            "resources": _resources(limits={"cpu": "1"}),
            "an annotation": _annotated(a="b"),
            "a finalizer": {"metadata": {"finalizers": ["example.com/a"]}},
            "another name": {"metadata": {"name": "other"}},
        },
        statuses={
            "in the sun": {"status": {"phase": "Sunny", "conditions": [{"type": "Ready", "status": "Maybe"}]}},
            "claims": {"status": {"resourceClaimStatuses": [{"name": "a", "resourceClaimName": "b"}]}},
            "extended resources": _extended(
                {"containerName": "c", "resourceName": "example.com/gpu", "requestName": "r"}
            ),
            "no claim of extended resources": _extended(claim=""),
            "an odd claim of extended resources": _extended(claim="C_"),
            "no mappings": _extended(),
            "an unknown container": _extended(
                {"containerName": "x", "resourceName": "example.com/gpu", "requestName": "r"}
            ),
            "an odd mapping": _extended({"containerName": "C_", "resourceName": "gpu", "requestName": "R_"}),
            "an empty mapping": _extended({"containerName": "", "resourceName": "", "requestName": ""}),
            "a mapping twice": _extended(
                *({"containerName": "c", "resourceName": "example.com/gpu", "requestName": "r"} for _ in range(2))
            ),
            "a request twice": _extended(
                *({"containerName": "c", "resourceName": f"example.com/{x}", "requestName": "r"} for x in "ab")
            ),
            "running": {
                "status": {
                    "phase": "Running",
                    "hostIP": "10.0.0.1",
                    "hostIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}],
                    "podIP": "10.1.1.1",
                    "podIPs": [{"ip": "10.1.1.1"}, {"ip": "fd00::2"}],
                    "conditions": [{"type": "Ready", "status": "True"}],
                    "containerStatuses": [
                        {
                            "name": "c",
                            "ready": True,
                            "restartCount": 0,
                            "image": "nginx:1",
                            "imageID": "x",
                            "state": {"running": {}},
                        }
                    ],
                }
            },
            "another first address": {"status": {"podIP": "10.1.1.1", "podIPs": [{"ip": "10.1.1.2"}]}},
            "generations": {
                "status": {"observedGeneration": -1, "conditions": [{"type": "a", "observedGeneration": -1}]}
            },
            "a node": {"status": {"nominatedNodeName": "n"}},
            "a spec": {"spec": {"nodeName": "n"}, "metadata": {"labels": {"x": "y"}}},
        },
    ),
    "gated pods": Kind(
        PODS,
        _good("gated", schedulingGates=GATES, nodeSelector={"a": "b"}, affinity=_nodes(IN)),
        updates={
            "one gate": _spec(schedulingGates=GATES[1:]),
            "no gates": _spec(schedulingGates=[]),
            "another gate": _spec(schedulingGates=[*GATES, {"name": "c"}]),
            "another selector": _spec(nodeSelector={"a": "c"}),
            "one more label": _spec(nodeSelector={"a": "b", "c": "d"}),
            "one more expression": _spec(affinity=_nodes(IN, {"key": "c", "operator": "Exists"})),
            "another expression": _spec(affinity=_nodes({"key": "c", "operator": "Exists"})),
            "one more term": _spec(
                affinity={
                    "nodeAffinity": {
                        REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [IN]}, {"matchExpressions": [IN]}]}
                    }
                }
            ),
            "no affinity": _spec(affinity=None),
            "affinity to pods": _spec(affinity={"podAffinity": {REQUIRED: [{"topologyKey": "zone"}]}}),
            "a node": _spec(nodeName="n"),
        },
    ),
    "gated pods that may go anywhere": Kind(
        PODS,
        _good("anywhere", schedulingGates=GATES),
        updates={
            "a selector": _spec(nodeSelector={"a": "b"}),
            "affinity": _spec(affinity=_nodes(IN)),
            "affinity to both": _spec(affinity={**_nodes(IN), "podAffinity": {REQUIRED: [{"topologyKey": "zone"}]}}),
        },
    ),
    "pods that end": Kind(
        PODS,
        _good("ending", restartPolicy="Never", activeDeadlineSeconds=50, tolerations=[{"operator": "Exists"}]),
        updates={
            "a longer deadline": _spec(activeDeadlineSeconds=60),
            "a shorter deadline": _spec(activeDeadlineSeconds=40),
            "no deadline": _spec(activeDeadlineSeconds=None),
            "other tolerations": _spec(tolerations=[{"key": "a", "operator": "Exists"}]),
        },
        statuses={
            "a node, and the account": {"status": {"nominatedNodeName": "n", "qosClass": "BestEffort"}},
        },
    ),
}
