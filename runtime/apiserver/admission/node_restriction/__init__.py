"""NodeRestriction: limits the writes of kubelets.

admission.py selects the check by resource; pods.py, nodes.py and tokens.py contain the checks.
"""
