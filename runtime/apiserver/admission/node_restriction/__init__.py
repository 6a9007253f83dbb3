"""NodeRestriction: restrict the objects and fields that kubelets may write.

admission.py selects the check by resource; pods.py, nodes.py and tokens.py contain the checks.
"""
