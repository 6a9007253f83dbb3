"""Creation and deletion of directories on this host that serve as volumes, for tests on a single node.

Source: kubernetes v1.36 pkg/volume/hostpath/host_path.go. Differences: a directory is named after its claim, so that a
repeated call creates no second directory; only directories below /tmp of the root are deleted, upstream also below any
other directory named tmp.
"""

from __future__ import annotations

import os
import posixpath

HOST_PATH = "kubernetes.io/host-path"
CREATED_BY = "kubernetes.io/createdby"  # an annotation
CREATOR = "hostpath-dynamic-provisioner"
_ROOT, _BELOW = "/tmp/hostpath_pv", "/tmp/"


def directory_for(claim_uid: str) -> str:
    return f"{_ROOT}/{claim_uid}"


def make_directory(path: str) -> None:
    os.makedirs(path, mode=0o750, exist_ok=True)


def deletion_problem(path: str) -> str:
    """Return the reason why the directory of a volume must not be deleted; "" if it may be deleted."""
    if path.startswith(_BELOW) and posixpath.normpath(path).startswith(_BELOW) and ".." not in path.split("/"):
        return ""
    return f"host_path deleter only supports /tmp/.+ but received provided {path}"


def delete_directory(path: str) -> None:
    """Delete a directory or file if it exists. Raises OSError if it cannot be deleted."""
    import shutil  # heavy: libraries of archives

    try:
        shutil.rmtree(path)
    except FileNotFoundError:
        return
    except NotADirectoryError:
        os.unlink(path)
