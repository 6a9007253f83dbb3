"""Directory of the embedded cluster, chosen by its flags."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import ExitStack
from pathlib import Path

from kcm.actors.options.embedded import EmbeddedServerOptions

MANAGER_KUBECONFIG = "manager-kubeconfig"  # file in the directory, while a manager with secure pages runs


def directory_of(embedded: EmbeddedServerOptions, *, given: Collection[str], closing: ExitStack) -> Path:
    """Return the directory of the embedded cluster: a temporary one in memory, unless --embedded-dir is given.

    given: names of the flags on the command line. closing: removes the temporary directory.
    """
    if embedded.in_memory and "embedded-dir" not in given:
        import tempfile  # heavy: shutil, libraries of archives

        # Otherwise two runs in memory would both use .kcm/, and the second would be refused.
        temporary = tempfile.TemporaryDirectory(prefix="kcm-", ignore_cleanup_errors=True)
        return Path(closing.enter_context(temporary)).resolve()
    return Path(embedded.directory)
