"""What a container runs that has no command of its own: known for images that bring a shell, or a greeting, alone.

They have no entry point, so that a container's arguments are its command line. A shell ends at once where nobody types.
"""

from __future__ import annotations

from collections.abc import Sequence

from kcm.protocols.bounded_cache import bounded_cache

_SHELL = """
    almalinux alpine amazonlinux archlinux bash busybox buildpack-deps centos debian fedora opensuse oraclelinux
    rockylinux ubuntu
"""
# Images of nothing but a server, which wait until they are ended if a container has no arguments for them.
_SERVERS = {"agnhost", "pause"}
_COMMANDS = {**dict.fromkeys(_SHELL.split(), ("sh",)), "hello-world": ("/hello",)}


@bounded_cache(4096)
def command_of(image: str) -> Sequence[str] | None:
    """Return what an image runs, by the last part of its repository; None if that is unknown."""
    return _COMMANDS.get(_short_name(image))


def serves(image: str) -> bool:
    """Report whether an image is known to run until it is ended, also in a Job."""
    return _short_name(image) in _SERVERS


def _short_name(image: str) -> str:
    return image.partition("@")[0].rpartition("/")[2].partition(":")[0]
