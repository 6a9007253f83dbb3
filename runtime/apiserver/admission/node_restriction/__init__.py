"""NodeRestriction: what a kubelet may write.

admitting: by resource; pods, nodes, tokens: of these.
"""
