"""Reports of the health endpoints (/healthz, /livez, /readyz), from named checks.

Source: apiserver pkg/server/healthz/healthz.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from kcm.runtime.apiserver.errors.field_errors import quoted


class Health:
    def __init__(self, checks: Mapping[str, Callable[[], str]]) -> None:
        """Create a health endpoint.

        checks: functions by name; each returns the current problem, "" if healthy
        """
        self._checks = checks

    @property
    def names(self) -> Iterable[str]:
        return self._checks

    def report(
        self, kind: str, *, only: str = "", verbose: bool = False, exclude: Iterable[str] = ()
    ) -> tuple[int, str]:
        """Run the checks, and return (HTTP status, text of the response).

        kind: name of the endpoint: healthz, livez or readyz
        only: name of the single check to run; "" runs all
        verbose: list the checks even if all of them pass
        exclude: names of checks to skip
        """
        if only and only not in self._checks:
            return 404, "404 page not found\n"
        excluded = set() if only else {*exclude}
        selected = {name: check for name, check in self._checks.items() if only in ("", name)}
        problems = {name: check() for name, check in selected.items() if name not in excluded}
        healthy = not any(problems.values())
        if (only and healthy) or (healthy and not verbose):
            return 200, "ok"
        lines = [_line(name, problems.get(name)) for name in selected]
        if unknown := sorted(excluded - self._checks.keys()):
            named = ", ".join(quoted(name) for name in unknown)
            lines.append(f"warn: some health checks cannot be excluded: no matches for {named}")
        return 200 if healthy else 500, "\n".join([*lines, f"{kind} check {'passed' if healthy else 'failed'}\n"])


def _line(name: str, why: str | None) -> str:
    """Return the line of a check in the report.

    why: the problem; "" if healthy, None if the check was skipped
    """
    if why is None:
        return f"[+]{name} excluded: ok"
    return f"[-]{name} failed: {why}" if why else f"[+]{name} ok"
