"""What actors say to each other, and the vocabulary over API objects. No I/O, no threads, no clock.

messages/                    the messages, one file a conversation; codec.py encodes them, and alone knows msgpack
resources.py, routes.py      API resources and their URLs
objects.py                   keys, owners, metadata of objects
models.py                    classes that objects are read as, and written from
merge_patches.py             merge patches, applied to objects
errors.py, arguments.py      several errors as one text; checks of what authors pass
names.py, patterns.py        what names and labels may be; regular expressions as Go has them
selectors.py, quantities.py, times.py, conditions.py, integers.py, percentages.py, tolerations.py,
addresses.py                 values inside of objects
shapes.py                    whether the fields of an object are of the types that they are to be
semantic.py                  equality of objects as the API means it, by the facts in semantic_facts.py
pods.py, nodes.py, services.py, budgets.py, mounted_secrets.py
                             what is asked of pods, nodes, Services and PodDisruptionBudgets
hollow_nodes.py              how hollow nodes are recognized, and which addresses they and their pods have
volumes.py, node_affinity.py what is asked of volumes and claims, and of the nodes that a pod may run on
hashing.py, go_dump.py, fnv.py
                             upstream's hash of a pod template, of a dump by the facts in go_structs.py
pod_resources.py, quality_of_service.py
                             what a pod as a whole requests, and what class that makes it
admission_plugins.py         the names of the API server's admission plugins
discovery/                   what discovery documents say, and how they are asked for
quota/                       what objects use of what a ResourceQuota limits
bounded_cache.py             caches that are bounded by the size of their entries
blanks.py                    instances of frozen dataclasses in less time
late_methods.py              dataclasses in less time
watch_lines.py, list_bodies.py, versions.py
                             a line of a watch's response, and an object's own resourceVersion
"""
