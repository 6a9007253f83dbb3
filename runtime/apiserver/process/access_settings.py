"""Who may in, what is admitted, and what is noted of it: settings of the server's process, and the flags that carry
them to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kcm.protocols.late_methods import dataclass

if TYPE_CHECKING:
    import argparse

RBAC, ALWAYS_ALLOW = "rbac", "always-allow"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessSettings:
    """authorization: RBAC, by roles, bindings and for nodes by what they run; or ALWAYS_ALLOW.

    anonymous_auth: whether requests without credentials are authorized as system:anonymous. With ALWAYS_ALLOW they
    never are, as upstream.

    client_ca_file: authorities whose client certificates are taken beside those of the server's own; "" for none.
    audit_policy_file, audit_log_path: what is noted of requests, and where; nothing without both. audit_log_max_size:
    megabytes of one file. audit_log_max_age, audit_log_max_backup: days and number of those put aside; 0: no limit.
    admission_config_file: what admission plugins are told; "" for nothing.
    """

    authorization: str = RBAC
    anonymous_auth: bool = True
    client_ca_file: str = ""
    audit_policy_file: str = ""
    audit_log_path: str = ""
    audit_log_max_size: int = 100
    audit_log_max_age: int = 0
    audit_log_max_backup: int = 0
    admission_config_file: str = ""

    @property
    def allows_anonymous(self) -> bool:
        return self.anonymous_auth and self.authorization != ALWAYS_ALLOW

    def arguments(self) -> Iterator[str]:
        """Command line of the server's process. Paths are absolute there: it may stand elsewhere."""
        yield f"--authorization={self.authorization}"
        if not self.anonymous_auth:
            yield "--no-anonymous-auth"
        if self.client_ca_file:
            yield f"--client-ca-file={self.client_ca_file}"
        if self.admission_config_file:
            yield f"--admission-control-config-file={self.admission_config_file}"
        if self.audit_policy_file and self.audit_log_path:
            yield f"--audit-policy-file={self.audit_policy_file}"
            yield f"--audit-log-path={self.audit_log_path}"
            yield f"--audit-log-maxsize={self.audit_log_max_size}"
            yield f"--audit-log-maxage={self.audit_log_max_age}"
            yield f"--audit-log-maxbackup={self.audit_log_max_backup}"


BY_ROLES = AccessSettings()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--authorization", choices=(RBAC, ALWAYS_ALLOW), default=RBAC, help="of requests")
    parser.add_argument("--no-anonymous-auth", action="store_true", help="refuse requests without credentials")
    parser.add_argument("--client-ca-file", default="", help="further authorities of client certificates")
    parser.add_argument("--admission-control-config-file", default="", help="what admission plugins are told")
    parser.add_argument("--audit-policy-file", default="", help="what is noted of requests")
    parser.add_argument("--audit-log-path", default="", help="where")
    parser.add_argument("--audit-log-maxsize", type=int, default=100, help="megabytes of a file")
    parser.add_argument("--audit-log-maxage", type=int, default=0, help="days that files put aside are kept")
    parser.add_argument("--audit-log-maxbackup", type=int, default=0, help="files put aside that are kept")


def access_settings(parsed: argparse.Namespace) -> AccessSettings:
    return AccessSettings(
        authorization=parsed.authorization,
        anonymous_auth=not parsed.no_anonymous_auth,
        client_ca_file=parsed.client_ca_file,
        audit_policy_file=parsed.audit_policy_file,
        audit_log_path=parsed.audit_log_path,
        audit_log_max_size=parsed.audit_log_maxsize,
        audit_log_max_age=parsed.audit_log_maxage,
        audit_log_max_backup=parsed.audit_log_maxbackup,
        admission_config_file=parsed.admission_control_config_file,
    )
