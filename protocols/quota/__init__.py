"""What ResourceQuotas count: shared by the controller that counts all of a namespace, and by admission, which counts
one object.

amounts: resource names with quantities. names: what a resource name means. scopes: which objects a quota is about.
evaluators: one for each resource, which says how much of what an object uses. calculation: what a namespace uses.
pods, services, volume_claims, resource_claims: evaluators that count more than objects; counts: all others.

Source: kubernetes v1.36 pkg/quota/v1, staging/src/k8s.io/apiserver/pkg/quota/v1.
"""
