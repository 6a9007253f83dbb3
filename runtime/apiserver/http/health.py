"""The health endpoints: named checks, and their report.

Source: apiserver pkg/server/healthz/healthz.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping


class Health:
    def __init__(self, checks: Mapping[str, Callable[[], str]]) -> None:
        """checks: name -> what is wrong now, "" for nothing."""
        self._checks = checks

    def report(self, kind: str, *, only: str = "", verbose: bool = False) -> tuple[int, str]:
        """Returns (HTTP status, text). kind: the endpoint's name. only: one check instead of all."""
        if only and only not in self._checks:
            return 404, "404 page not found\n"
        wrong = {name: check() for name, check in self._checks.items() if only in ("", name)}
        healthy = not any(wrong.values())
        if (only and healthy) or (healthy and not verbose):
            return 200, "ok"
        lines = [f"[-]{name} failed: {why}" if why else f"[+]{name} ok" for name, why in wrong.items()]
        return 200 if healthy else 500, "\n".join([*lines, f"{kind} check {'passed' if healthy else 'failed'}\n"])
