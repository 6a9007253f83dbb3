"""What a container runs that has no command of its own: known for images that bring a shell, or a greeting, alone.

They have no entry point, so that a container's arguments are its command line. A shell ends at once where nobody types.
"""

from __future__ import annotations

from collections.abc import Sequence

from protocols.bounded_cache import bounded_cache

_SHELL = """
    almalinux alpine amazonlinux archlinux bash busybox buildpack-deps centos debian fedora opensuse oraclelinux
    rockylinux ubuntu
"""
_COMMANDS = {**dict.fromkeys(_SHELL.split(), ("sh",)), "hello-world": ("/hello",)}


@bounded_cache(4096)
def command_of(image: str) -> Sequence[str] | None:
    """By the last part of its repository, wherever that is kept. None if it is not known."""
    name = image.partition("@")[0].rpartition("/")[2].partition(":")[0]
    return _COMMANDS.get(name)
