"""NodeRestriction: limit the writes of kubelets.

admitting: by resource; pods, nodes, tokens: of these.
"""
