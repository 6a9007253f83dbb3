"""Messages between actors, and functions over API objects. No I/O, no threads, no clock.

messages/                    the messages, grouped by conversation; codec.py encodes them
resources.py, routes.py      API resources and their URLs
objects.py                   keys, owners and metadata of objects
models.py                    typed classes that objects are read into and written from
merge_patches.py             JSON merge patches
errors.py, arguments.py      aggregated error texts; checks of arguments that authors pass
names.py, patterns.py        validation of names and labels; Go's regular expressions
selectors.py, quantities.py, times.py, conditions.py, integers.py, percentages.py, tolerations.py,
addresses.py                 values inside objects
field_types.py               type checks of the fields of an object
semantic.py                  semantic equality of objects, by the facts in semantic_facts.py
pods.py, nodes.py, jobs.py, services.py, service_cidrs.py, budgets.py, mounted_secrets.py
                             fields of Pods, Nodes, Jobs, Services, ServiceCIDRs, PodDisruptionBudgets
completion_indexes.py        sets of completion indexes of an Indexed Job
hollow_nodes.py              labels of hollow nodes, and addresses of these nodes and their pods
volumes.py, csi.py, node_affinity.py
                             fields of volumes, claims and CSI objects; node selectors
resource_claims.py, device_taints.py
                             fields of ResourceClaims and of the pods that use them; taints of devices
hashing.py, go_dump.py, fnv.py
                             upstream's pod template hash, of a dump by the facts in go_structs.py
pod_resources.py, quality_of_service.py
                             resource requests of a whole pod, and its QoS class
admission_plugins.py         names of the API server's admission plugins
discovery/                   discovery documents and the requests for them
quota/                       usage of the resources that a ResourceQuota limits
bounded_cache.py             caches that are bounded by the size of their entries
reprs.py                     repr() of Structs without their secret fields
protobuf_wire.py             numbers and field tags of the protobuf wire format
watch_lines.py, list_bodies.py, versions.py
                             lines of watch responses, bodies of lists, resourceVersions
"""
