"""The User-Agent header, in the form of client-go: `<program>/<version> (<os>/<arch>) kubernetes/<commit>/<client>`.

An API server records what stands before the first slash as the field manager of a write, so the program's name is part
of what users see: in managedFields, audit logs and conflicts of server-side apply.

Source: kubernetes v1.36 client-go/rest/config.go, buildUserAgent and AddUserAgent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field

from kcm.protocols.late_methods import dataclass

_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")  # RFC 9110
_LONGEST_PROGRAM = 128  # of a field manager. Source: apimachinery metav1 validation, FieldManagerMaxLength


def program_or_error(name: str) -> str:
    """Return the name of a program. Raises ValueError if it cannot be a field manager."""
    if not _TOKEN.fullmatch(name) or len(name) > _LONGEST_PROGRAM:
        raise ValueError(
            f"program is at most {_LONGEST_PROGRAM} letters, digits and -_.!#$%&'*+^`|~ (it names the field manager); "
            f"got {name!r}"
        )
    return name


@dataclass(frozen=True, slots=True, kw_only=True)
class UserAgents:
    """The User-Agent headers of one process."""

    # What stands before the first slash.
    program: str
    version: str
    # In Go's words: linux/amd64.
    platform: str
    # What client-go has the git commit for.
    commit: str
    # By client, whose requests are those of another program: its name, and its suffix, as kube-scheduler has one.
    programs: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def header(self, client: str) -> str:
        """Return the header's value for a client, such as a controller's name. Replace invalid characters by "?"."""
        program, suffix = self.programs.get(client, (self.program, client))
        text = f"{program}/{self.version} ({self.platform}) kubernetes/{self.commit}"
        text = f"{text}/{suffix}" if suffix else text
        return "".join(c if c.isascii() and c.isprintable() else "?" for c in text)
