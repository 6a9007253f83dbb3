"""Why an object is stuck: causes from evidence. Functions of observed values; nothing here waits or writes.

cause.py: Cause, Explanation: the result.
catalogue.py: all codes of causes, as data; docs/why.md has the same table.
evidence.py: what the causes are found in: objects, events, and the state of the manager.
manager_state.py: state of the manager and its controllers, as causes read it.
kinds.py: kinds by the names that kubectl accepts, and the controllers that are responsible for them.
explain.py: the order of the questions for one object. Start here.
rules.py: the rules of each kind.

Rules by domain:
refusals.py: texts with which the API server refuses a write.
responsible.py: controllers that do not work.
deletion.py: finalizers, dependents, namespaces.
scheduling.py, placement.py, containers.py, pods.py: pods.
workloads.py, statefulsets.py: Deployments, ReplicaSets and DaemonSets, StatefulSets.
batch.py, autoscaling.py, budgets.py: Jobs and CronJobs, HorizontalPodAutoscalers, PodDisruptionBudgets and drains.
networking.py: Services and Ingresses.
storage.py, volumes.py, devices.py: claims, volumes with their attachments, ResourceClaims.
server_objects.py: CertificateSigningRequests, APIServices, missing owners.
"""
