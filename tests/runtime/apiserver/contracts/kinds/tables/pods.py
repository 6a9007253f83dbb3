"""Pods."""

from __future__ import annotations

from typing import Any

from tests.runtime.apiserver.contracts.kinds.play import Kind, Table

C = {"name": "c", "image": "nginx:1"}


def _spec(**fields: Any) -> dict[str, Any]:
    return {"spec": fields}


def _container(**fields: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{**C, **fields}]}}


def _volume(**source: Any) -> dict[str, Any]:
    return {"spec": {"serviceAccountName": "sa", "volumes": [{"name": "v", **source}]}}


def _env(**variable: Any) -> dict[str, Any]:
    return _container(env=[{"name": "A", **variable}])


def _probe(**probe: Any) -> dict[str, Any]:
    return _container(livenessProbe=probe)


def _security(**context: Any) -> dict[str, Any]:
    return _container(securityContext=context)


def _affinity(**affinity: Any) -> dict[str, Any]:
    return {"spec": {"affinity": affinity}}


def _spread(**constraint: Any) -> dict[str, Any]:
    valid = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    return {"spec": {"topologySpreadConstraints": [{**valid, **constraint}]}}


def _mount(**mount: Any) -> dict[str, Any]:
    return {
        "spec": {
            "volumes": [{"name": "v", "emptyDir": {}}],
            "containers": [{**C, "volumeMounts": [{"name": "v", "mountPath": "/v", **mount}]}],
        }
    }


TERM = {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}
POD_TERM = {"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": "zone"}

TABLE: Table = {
    "pods": Kind(
        "/api/v1/namespaces/contract/pods",
        {"metadata": {"name": "p", "labels": {"a": "b"}}, "spec": {"containers": [C], "serviceAccountName": "sa"}},
        creates={
            "nothing": {"spec": None},
            "no containers": _spec(containers=[]),
            "no name": _container(name=None),
            "an odd name": _container(name="C_"),
            "no image": _container(image=None),
            "spaces in the image": _container(image=" nginx "),
            "a name twice": _spec(containers=[C, C]),
            "a name twice with init": _spec(initContainers=[C]),
            "init": _spec(initContainers=[{"name": "i", "image": "a"}]),
            "a sidecar": _spec(initContainers=[{"name": "i", "image": "a", "restartPolicy": "Always"}]),
            "an odd sidecar": _spec(initContainers=[{"name": "i", "image": "a", "restartPolicy": "Never"}]),
            "a container that restarts": _container(restartPolicy="Always"),
            "probes in init": _spec(
                initContainers=[{"name": "i", "image": "a", "livenessProbe": {"exec": {"command": ["a"]}}}]
            ),
            "ephemeral containers": _spec(ephemeralContainers=[{"name": "e", "image": "a"}]),
            "an unknown policy of restarts": _spec(restartPolicy="Sometimes"),
            "an unknown dns policy": _spec(dnsPolicy="Maybe"),
            "no dns": _spec(dnsPolicy="None"),
            "dns": _spec(dnsPolicy="None", dnsConfig={"nameservers": ["1.1.1.1"], "searches": ["a.b"]}),
            "odd dns": _spec(
                dnsConfig={"nameservers": ["a", "1.1.1.1", "1.1.1.1", "1.1.1.1"], "searches": ["A_ b"], "options": [{}]}
            ),
            "a deadline": _spec(activeDeadlineSeconds=0),
            "negative grace": _spec(terminationGracePeriodSeconds=-1),
            "an odd node": _spec(nodeName="N_"),
            "an odd node selector": _spec(nodeSelector={"-": "a b"}),
            "an odd account": _spec(serviceAccountName="A_"),
            "an odd hostname": _spec(hostname="H_", subdomain="S_"),
            "odd pull secrets": _spec(imagePullSecrets=[{}]),
            "host aliases": _spec(hostAliases=[{"ip": "1.2", "hostnames": ["A_"]}]),
            "a scheduler": _spec(schedulerName="mine"),
            "an odd scheduler": _spec(schedulerName="M_"),
            "a gate": _spec(schedulingGates=[{"name": "example.com/a"}]),
            "odd gates": _spec(schedulingGates=[{"name": "a b"}, {"name": "c"}, {"name": "c"}]),
            "gates and a node": _spec(schedulingGates=[{"name": "example.com/a"}], nodeName="n"),
            "readiness gates": _spec(readinessGates=[{"conditionType": "a b"}]),
            "an os": _spec(os={"name": "linux"}),
            "an unknown os": _spec(os={"name": "dos"}),
            "host users and the host's network": _spec(hostUsers=False, hostNetwork=True, hostPID=True),
            "a shared namespace of the host": _spec(shareProcessNamespace=True, hostPID=True),
            "a preemption policy": _spec(preemptionPolicy="Never"),
            "overhead": _spec(overhead={"cpu": "1"}),
            # ports
            "a port": _container(ports=[{"containerPort": 80}]),
            "no port": _container(ports=[{}]),
            "odd ports": _container(
                ports=[{"containerPort": 70_000, "hostPort": -1, "name": "A_very_long_port_name", "protocol": "X"}]
            ),
            "a port's name twice": _container(
                ports=[{"name": "a", "containerPort": 80}, {"name": "a", "containerPort": 81}]
            ),
            "a host port twice": _container(
                ports=[{"containerPort": 80, "hostPort": 80}, {"containerPort": 81, "hostPort": 80}]
            ),
            "an odd host address": _container(ports=[{"containerPort": 80, "hostPort": 80, "hostIP": "a"}]),
            "the host's network": _spec(hostNetwork=True, containers=[{**C, "ports": [{"containerPort": 80}]}]),
            "another port on the host's network": _spec(
                hostNetwork=True, containers=[{**C, "ports": [{"containerPort": 80, "hostPort": 81}]}]
            ),
            # environment
            "a variable": _env(value="a"),
            "no variable": _container(env=[{}]),
            "an odd variable": _container(env=[{"name": "="}]),
            "a variable twice over": _env(value="a", valueFrom={"fieldRef": {"fieldPath": "metadata.name"}}),
            "a variable from nowhere": _env(valueFrom={}),
            "a variable from two": _env(
                valueFrom={"fieldRef": {"fieldPath": "metadata.name"}, "secretKeyRef": {"name": "a", "key": "b"}}
            ),
            "a field": _env(valueFrom={"fieldRef": {"fieldPath": "metadata.labels['a']"}}),
            "no field": _env(valueFrom={"fieldRef": {"fieldPath": ""}}),
            "an unknown field": _env(valueFrom={"fieldRef": {"fieldPath": "spec.containers"}}),
            "a field of another version": _env(
                valueFrom={"fieldRef": {"fieldPath": "metadata.name", "apiVersion": "v2"}}
            ),
            "a resource": _env(valueFrom={"resourceFieldRef": {"resource": "limits.cpu"}}),
            "an unknown resource": _env(valueFrom={"resourceFieldRef": {"resource": "limits.sun"}}),
            "an odd divisor": _env(valueFrom={"resourceFieldRef": {"resource": "limits.cpu", "divisor": "2m"}}),
            "no key": _env(valueFrom={"secretKeyRef": {"name": "a"}}),
            "no name of a map": _env(valueFrom={"configMapKeyRef": {"key": "a b"}}),
            "all of a map": _container(envFrom=[{"configMapRef": {"name": "a"}, "prefix": "A_"}]),
            "all of nothing": _container(
                envFrom=[{}, {"secretRef": {}}, {"configMapRef": {"name": "a"}, "secretRef": {"name": "b"}}]
            ),
            # probes and hooks
            "a probe": _probe(httpGet={"port": 80}),
            "a probe of nothing": _probe(),
            "a probe of two": _probe(httpGet={"port": 80}, tcpSocket={"port": 80}),
            "negative numbers in a probe": _probe(
                tcpSocket={"port": 80}, initialDelaySeconds=-1, timeoutSeconds=-1, periodSeconds=-1, failureThreshold=-1
            ),
            "two successes": _probe(tcpSocket={"port": 80}, successThreshold=2),
            "an odd port of a probe": _probe(tcpSocket={"port": "A_"}),
            "a high port of a probe": _probe(tcpSocket={"port": 70_000}),
            "no command": _probe(exec={}),
            "odd http": _probe(httpGet={"port": 0, "path": "", "scheme": "FTP", "httpHeaders": [{"name": "a b"}]}),
            "grpc": _probe(grpc={"port": 80}),
            "odd grpc": _probe(grpc={"port": 0}),
            "a short grace of a probe": _probe(tcpSocket={"port": 80}, terminationGracePeriodSeconds=0),
            "a grace of readiness": _container(
                readinessProbe={"tcpSocket": {"port": 80}, "terminationGracePeriodSeconds": 5}
            ),
            "a hook": _container(lifecycle={"preStop": {"exec": {"command": ["a"]}}}),
            "a hook of nothing": _container(lifecycle={"preStop": {}}),
            "a hook that sleeps": _container(lifecycle={"preStop": {"sleep": {"seconds": 5}}}),
            "a hook that sleeps long": _container(lifecycle={"preStop": {"sleep": {"seconds": 50}}}),
            "a signal": _container(lifecycle={"stopSignal": "SIGTERM"}),
            # resources
            "limits": _container(resources={"limits": {"cpu": "1"}}),
            "a request above": _container(resources={"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}),
            "an odd resource name": _container(resources={"limits": {"a b": "1", "sun": "1"}}),
            "negative resources": _container(resources={"requests": {"cpu": "-1"}}),
            "a device": _container(resources={"limits": {"example.com/gpu": "1"}}),
            "a device not asked for": _container(resources={"requests": {"example.com/gpu": "1"}}),
            "half a device": _container(resources={"limits": {"example.com/gpu": "500m"}}),
            "huge pages": _container(resources={"limits": {"hugepages-2Mi": "4Mi"}}),
            "huge pages and memory": _container(resources={"limits": {"hugepages-2Mi": "4Mi", "memory": "1Gi"}}),
            "a claim": _container(resources={"claims": [{"name": "a"}]}),
            "a resize policy": _container(resizePolicy=[{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]),
            "an odd resize policy": _container(resizePolicy=[{"resourceName": "sun", "restartPolicy": "Never"}]),
            "resources of the pod": _spec(resources={"limits": {"cpu": "1"}}),
            "odd resources of the pod": _spec(
                resources={"limits": {"example.com/gpu": "1"}, "requests": {"cpu": "-1"}}
            ),
            # security
            "privileged": _security(privileged=True),
            "privileged without escalation": _security(privileged=True, allowPrivilegeEscalation=False),
            "a negative user and group": _security(runAsUser=-1, runAsGroup=-1),
            "an unknown mount": _security(procMount="Odd"),
            "capabilities": _security(capabilities={"add": ["NET_ADMIN"], "drop": ["ALL"]}),
            "escalation by a capability": _security(
                allowPrivilegeEscalation=False, capabilities={"add": ["CAP_SYS_ADMIN"]}
            ),
            "seccomp": _security(seccompProfile={"type": "RuntimeDefault"}),
            "odd seccomp": _security(seccompProfile={"type": "Localhost"}),
            "unknown seccomp": _security(seccompProfile={"type": "Odd"}),
            "seccomp of a file": _security(seccompProfile={"type": "RuntimeDefault", "localhostProfile": "a"}),
            "apparmor": _security(appArmorProfile={"type": "Localhost"}),
            "groups": _spec(securityContext={"fsGroup": -1, "supplementalGroups": [-1], "runAsUser": -1}),
            "a policy of groups": _spec(
                securityContext={"fsGroupChangePolicy": "Odd", "supplementalGroupsPolicy": "Odd"}
            ),
            "sysctls": _spec(securityContext={"sysctls": [{"name": "a b", "value": "c"}, {"name": "kernel.a"}, {}]}),
            "windows": _security(windowsOptions={"gmsaCredentialSpecName": "A_"}),
            # volumes
            "no name of a volume": _spec(volumes=[{"emptyDir": {}}]),
            "an odd name of a volume": _spec(volumes=[{"name": "V_"}]),
            "a volume twice": _spec(volumes=[{"name": "v"}, {"name": "v"}]),
            "two sources": _volume(emptyDir={}, hostPath={"path": "/a"}),
            "negative size": _volume(emptyDir={"sizeLimit": "-1"}),
            "an unknown medium": _volume(emptyDir={"medium": "Gas"}),
            "no path": _volume(hostPath={"path": ""}),
            "a path upwards": _volume(hostPath={"path": "/a/.."}),
            "an unknown type of path": _volume(hostPath={"path": "/a", "type": "Hole"}),
            "no secret": _volume(secret={}),
            "an odd mode": _volume(secret={"secretName": "a", "defaultMode": 1000}),
            "odd items": _volume(
                secret={
                    "secretName": "a",
                    "items": [{"key": "", "path": ""}, {"key": "a", "path": "../b", "mode": 1000}],
                }
            ),
            "no map": _volume(configMap={}),
            "no claim": _volume(persistentVolumeClaim={"claimName": ""}),
            "projected": _volume(
                projected={"sources": [{"secret": {"name": "a"}}, {"serviceAccountToken": {"path": "t"}}]}
            ),
            "odd projected": _volume(
                projected={
                    "defaultMode": 1000,
                    "sources": [
                        {},
                        {"secret": {}},
                        {"configMap": {}},
                        {"serviceAccountToken": {"path": "", "expirationSeconds": 5}},
                        {"secret": {"name": "a"}, "configMap": {"name": "b"}},
                    ],
                }
            ),
            "a path twice": _volume(
                projected={"sources": [{"secret": {"name": s, "items": [{"key": "k", "path": "p"}]}} for s in "ab"]}
            ),
            "the downward api": _volume(
                downwardAPI={"items": [{"path": "a", "fieldRef": {"fieldPath": "metadata.labels"}}]}
            ),
            "odd downward api": _volume(
                downwardAPI={"items": [{"path": "", "fieldRef": {"fieldPath": "spec.nodeName"}}, {"path": "/a"}]}
            ),
            "nfs of nothing": _volume(nfs={"server": "", "path": "a"}),
            "csi": _volume(csi={"driver": "example.com"}),
            "odd csi": _volume(csi={"driver": ""}),
            "ephemeral": _volume(
                ephemeral={
                    "volumeClaimTemplate": {
                        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
                    }
                }
            ),
            "ephemeral of nothing": _volume(ephemeral={}),
            "an image": _volume(image={"reference": "a:b"}),
            "an image of nothing": _volume(image={"pullPolicy": "Sometimes"}),
            # mounts
            "a mount": _mount(),
            "a mount of nothing": _mount(name="w"),
            "no name of a mount": _mount(name=""),
            "no path of a mount": _mount(mountPath=""),
            "a mount twice": _spec(
                volumes=[{"name": "v"}],
                containers=[
                    {**C, "volumeMounts": [{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/a"}]}
                ],
            ),
            "a path below": _mount(subPath="/a"),
            "two paths below": _mount(subPath="a", subPathExpr="b"),
            "a path out of it": _mount(subPath="../a"),
            "an unknown propagation": _mount(mountPropagation="Odd"),
            "propagation without privilege": _mount(mountPropagation="Bidirectional"),
            "recursively readable": _mount(recursiveReadOnly="Enabled"),
            # scheduling
            "a toleration": _spec(
                tolerations=[{"key": "a", "operator": "Exists", "tolerationSeconds": 5, "effect": "NoExecute"}]
            ),
            "odd tolerations": _spec(
                tolerations=[
                    {"key": "a b", "operator": "Near", "effect": "Never"},
                    {"operator": "Equal", "value": "a b"},
                    {"key": "a", "operator": "Exists", "value": "b"},
                    {"key": "a", "operator": "Exists", "tolerationSeconds": 5},
                ]
            ),
            "node affinity": _affinity(
                nodeAffinity={"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [TERM]}}
            ),
            "no terms": _affinity(
                nodeAffinity={"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}
            ),
            "odd terms": _affinity(
                nodeAffinity={
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {
                                "matchExpressions": [
                                    {"key": "-", "operator": "In"},
                                    {"key": "a", "operator": "Exists", "values": ["b"]},
                                    {"key": "a", "operator": "Gt", "values": ["x", "y"]},
                                    {"key": "a", "operator": "Near"},
                                ]
                            },
                            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a", "b"]}]},
                            {"matchFields": [{"key": "spec.name", "operator": "Exists"}]},
                        ]
                    }
                }
            ),
            "odd weights": _affinity(
                nodeAffinity={"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 0, "preference": TERM}]}
            ),
            "pod affinity": _affinity(podAffinity={"requiredDuringSchedulingIgnoredDuringExecution": [POD_TERM]}),
            "odd pod affinity": _affinity(
                podAffinity={
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {"topologyKey": "", "labelSelector": {"matchLabels": {"-": "a b"}}, "namespaces": ["N_"]},
                        {"topologyKey": "a b"},
                    ],
                    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 101, "podAffinityTerm": POD_TERM}],
                }
            ),
            "keys of labels": _affinity(
                podAntiAffinity={
                    "requiredDuringSchedulingIgnoredDuringExecution": [{**POD_TERM, "matchLabelKeys": ["c"]}]
                }
            ),
            "spread": _spread(labelSelector={"matchLabels": {"a": "b"}}),
            "odd spread": _spread(maxSkew=0, topologyKey="", whenUnsatisfiable="Odd", minDomains=0),
            "domains that may be fewer": _spread(whenUnsatisfiable="ScheduleAnyway", minDomains=2),
            "policies of spread": _spread(nodeAffinityPolicy="Odd", nodeTaintsPolicy="Odd"),
            "spread twice": {
                "spec": {
                    "topologySpreadConstraints": [
                        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
                    ]
                    * 2
                }
            },
            "keys of spread": _spread(labelSelector={"matchLabels": {"a": "b"}}, matchLabelKeys=["a", "c", "c", "-"]),
            "resource claims": _spec(resourceClaims=[{"name": "a", "resourceClaimName": "b"}]),
            "odd resource claims": _spec(
                resourceClaims=[
                    {"name": "A_"},
                    {"name": "b", "resourceClaimName": "c", "resourceClaimTemplateName": "d"},
                ]
            ),
        },
        updates={
            "another image": {"spec": {"containers": [{**C, "image": "nginx:2"}]}},
            "no image": _container(image=""),
            "another name": _container(name="d"),
            "one more container": _spec(containers=[C, {"name": "d", "image": "a"}]),
            "a deadline": _spec(activeDeadlineSeconds=5),
            "another node": _spec(nodeName="n"),
            "grace": _spec(terminationGracePeriodSeconds=5),
            "a label": {"metadata": {"labels": {"a": "c"}}},
            "a status": {"status": {"phase": "Running"}},
            "a gate": _spec(schedulingGates=[{"name": "a"}]),
        },
        statuses={
            "running": {
                "status": {"phase": "Running", "podIPs": [{"ip": "10.1.1.1"}], "hostIPs": [{"ip": "10.0.0.1"}]}
            },
            "an odd address": {"status": {"podIPs": [{"ip": "10.1.1"}], "hostIPs": [{"ip": "a"}]}},
            "two addresses of a family": {"status": {"podIPs": [{"ip": "10.1.1.1"}, {"ip": "10.1.1.2"}]}},
            "another class": {"status": {"qosClass": "Guaranteed"}},
            "an odd condition": {"status": {"conditions": [{"type": "a b", "status": "True"}]}},
            "a nominated node": {"status": {"nominatedNodeName": "N_"}},
        },
    ),
}
