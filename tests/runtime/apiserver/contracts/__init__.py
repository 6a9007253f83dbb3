"""Behaviour that clients rely on: requests, and the responses of kube-apiserver 1.36, recorded in `responses/`.

The embedded server must return the same responses. With the binaries in the directory that KUBEBUILDER_ASSETS names,
the recorded responses are checked against kube-apiserver (marker `cluster`), and can be recorded again:

    python -m tests.runtime.apiserver.contracts [NAME ...]
"""
