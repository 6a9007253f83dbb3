"""/healthz: named checks and their results, with upstream's texts.

Follows k8s.io/apiserver/pkg/server/healthz and controller-manager/app/serve.go, Kubernetes 1.36: the page contains the
names of failed checks but no reasons, because it is public; a reason is logged once when it changes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Self

from msgspec import Struct

from kcm.runtime.flags.values import quote
from kcm.runtime.metrics.families import HEALTHCHECK, HEALTHCHECKS
from kcm.runtime.metrics.registry import Metrics

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

Check = Callable[[], str | None]
"""Returns None if all is well, otherwise the reason in one line. Called on the server's thread; must not block."""


WITHHELD = "reason withheld"


class HealthFailure(str):
    """Result of a failed check with a text that anyone may read on the page.

    shown: this text. The check is logged again when it changes.
    """

    shown: str

    def __new__(cls, why: str, *, shown: str = WITHHELD) -> Self:
        failure = super().__new__(cls, why)
        failure.shown = shown
        return failure


class HealthNotice(HealthFailure):
    """Result of a check for a problem that no restart fixes.

    It is shown, logged and counted like any other failure, but the page as a whole stays healthy, so that a liveness
    probe does not restart the process.
    """


KIND = "healthz"  # the label `type` of the metrics


def _always(_name: str) -> bool:
    return True


class HealthReport(Struct, frozen=True, kw_only=True):
    """Result of all checks."""

    # By name, why each failed check failed.
    troubles: Mapping[str, str]
    # The long form of the page.
    page: str
    # By name, results that do not make the page unhealthy.
    notices: Mapping[str, HealthNotice]

    @property
    def good(self) -> bool:
        return not self.troubles


def shown_of(trouble: str) -> str:
    """Return what the page shows of the result of a failed check."""
    return trouble.shown if isinstance(trouble, HealthFailure) else WITHHELD


class HealthChecks:
    """Health checks of a process. set() may be called from any thread, examine() only on the server's thread."""

    def __init__(self, *, log: FilteringBoundLogger) -> None:
        self._log = log
        self._checks: Mapping[str, Check] = {}
        self._exists: Callable[[str], bool] = _always
        self._known_troubles: dict[str, str] = {}
        self.slis = Metrics()  # shown on /metrics/slis

    def set(self, checks: Mapping[str, Check], *, exists: Callable[[str], bool] | None = None) -> None:
        """Replace all checks. The page shows them in this order.

        exists: reports whether the check of this name exists now; None: all exist. Called like a check.
        """
        self._checks, self._exists = dict(checks), exists or _always

    def examine(self, *, exclude: Collection[str] = ()) -> HealthReport:
        """Run all checks except the excluded ones. A check that raises an exception has failed."""
        troubles: dict[str, str] = {}
        notices: dict[str, HealthNotice] = {}
        lines = []
        checks = self._existing()
        for name, check in checks.items():
            if name in exclude:
                lines.append(f"[+]{name} excluded: ok")
                continue
            trouble = self._run(name, check)
            self._count(name, good=trouble is None)
            if trouble is None:
                lines.append(f"[+]{name} ok")
            elif isinstance(trouble, HealthNotice):
                notices[name] = trouble
                lines.append(f"[-]{name} failed: {trouble.shown}")
            else:
                troubles[name] = trouble
                lines.append(f"[-]{name} failed: {shown_of(trouble)}")
        unknown = sorted(set(exclude) - checks.keys())
        if unknown:
            matches = ",".join(map(quote, unknown))
            lines.append(f"warn: some health checks cannot be excluded: no matches for {matches}")
        lines.append(f"healthz check {'failed' if troubles else 'passed'}")
        self._log_changes({**troubles, **notices}, examined=checks.keys() - set(exclude))
        return HealthReport(troubles=troubles, notices=notices, page="\n".join(lines) + "\n")

    def _existing(self) -> dict[str, Check]:
        """Return the checks that exist. What was known of the others is forgotten, except their counters."""
        existing = {name: check for name, check in self._checks.items() if self._exists(name)}
        for name in self._checks.keys() - existing.keys():
            self.slis.remove(HEALTHCHECK, name, KIND)
            self._known_troubles.pop(name, None)
        return existing

    def _run(self, name: str, check: Check) -> str | None:
        try:
            return check()
        except Exception as error:
            self._log.exception("health check raised", check=name)
            return f"the check itself failed: {error!r}"

    def _count(self, name: str, *, good: bool) -> None:
        self.slis.gauge(HEALTHCHECK, name, KIND).set(1 if good else 0)
        self.slis.counter(HEALTHCHECKS, name, KIND, "success" if good else "error").inc()

    def _log_changes(self, troubles: Mapping[str, str], *, examined: Collection[str]) -> None:
        """Log checks that begin or cease to fail.

        A changed reason is logged only if its public text has changed, because it may contain a varying number.
        """
        for name, trouble in troubles.items():
            known = self._known_troubles.get(name)
            if known is None or shown_of(known) != shown_of(trouble):
                self._log.warning("health check fails", check=name, reason=trouble)
            self._known_troubles[name] = trouble
        for name in [name for name in self._known_troubles if name in examined and name not in troubles]:
            self._log.info("health check passes again", check=name, reason_before=self._known_troubles.pop(name))
