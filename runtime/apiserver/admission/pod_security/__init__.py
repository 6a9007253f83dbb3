"""PodSecurity: enforce the Pod Security Standards that the labels of a namespace select.

Source: pod-security-admission (v1.36).
"""
