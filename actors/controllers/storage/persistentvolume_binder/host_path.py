"""Directories of this host as volumes, for tests on a single node, as upstream.

Source: kubernetes v1.36 pkg/volume/hostpath/host_path.go. Differences: a directory is named after its claim, so that a
repeated call creates no second one; only directories below /tmp are deleted, upstream below any directory of that name.
"""

from __future__ import annotations

import os
import posixpath
import shutil

HOST_PATH = "kubernetes.io/host-path"
CREATED_BY = "kubernetes.io/createdby"  # an annotation
CREATOR = "hostpath-dynamic-provisioner"
_ROOT, _BELOW = "/tmp/hostpath_pv", "/tmp/"


def directory_for(claim_uid: str) -> str:
    return f"{_ROOT}/{claim_uid}"


def make_directory(path: str) -> None:
    os.makedirs(path, mode=0o750, exist_ok=True)


def undeletable(path: str) -> str:
    """Return the reason why a directory must not be deleted; "" if it may."""
    if path.startswith(_BELOW) and posixpath.normpath(path).startswith(_BELOW) and ".." not in path.split("/"):
        return ""
    return f"host_path deleter only supports /tmp/.+ but received provided {path}"


def delete_directory(path: str) -> None:
    """Delete a directory if it exists. Raises OSError if that fails."""
    try:
        shutil.rmtree(path)
    except FileNotFoundError:
        return
    except NotADirectoryError:
        os.unlink(path)
