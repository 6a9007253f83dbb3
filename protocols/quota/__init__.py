"""Usage of the resources that a ResourceQuota limits, for the resourcequota controller and for admission.

amounts.py       quantities by resource name
names.py         kinds of resource names
scopes.py        scopes of a quota
evaluators.py    base class of evaluators, which return the usage of one object; counts objects
pods.py, services.py, volume_claims.py, resource_claims.py
                 evaluators that count more than objects
calculation.py   usage of a namespace

Source: kubernetes v1.36 pkg/quota/v1, staging/src/k8s.io/apiserver/pkg/quota/v1.
"""
