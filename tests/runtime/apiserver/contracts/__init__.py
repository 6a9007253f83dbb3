"""Behaviour that clients rely on, as requests whose answers from kube-apiserver 1.36 are recorded in `answers/`.

The embedded server must give the same answers. With the binaries in the directory that KUBEBUILDER_ASSETS names, the
recorded answers are checked against kube-apiserver (marker `cluster`), and recorded again, for all contracts or some:

    python -m tests.runtime.apiserver.contracts [NAME ...]
"""
