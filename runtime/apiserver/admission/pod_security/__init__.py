"""PodSecurity: what pods of a namespace may do is said by labels of the namespace.

Source: pod-security-admission (v1.36).
"""
