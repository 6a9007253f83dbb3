"""The User-Agent header: `kcm/<version> (<os>/<arch>) <client>`, with Go's names of system and machine."""

from __future__ import annotations

GO_MACHINES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}


def base_user_agent(version: str, *, system: str, machine: str) -> str:
    """system, machine: as platform.system() and platform.machine() say it."""
    machine = machine.lower()
    return f"kcm/{version} ({system.lower()}/{GO_MACHINES.get(machine, machine)})"


def user_agent(base: str, client: str) -> str:
    """The header's value for one client, a controller's name say; what a header cannot carry becomes "?"."""
    text = f"{base} {client}" if client else base
    return "".join(c if c.isascii() and c.isprintable() else "?" for c in text)
