"""Command line of the language check: see tests/language/__init__.py."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.language import ratchet
from tests.language.patterns import PATTERNS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.language", description="Count patterns of unclear text.")
    parser.add_argument("--list", metavar="PATTERN", choices=["all", *(pattern.name for pattern in PATTERNS)])
    parser.add_argument("--record", action="store_true", help="record counts that have fallen")
    parser.add_argument("paths", nargs="*", help="with --list: only below these paths")
    arguments = parser.parse_args()
    found = ratchet.places(ratchet.files(), cache=ratchet.CACHE)
    if arguments.list:
        return show(found, arguments.list, arguments.paths)
    now, before = ratchet.count(found), ratchet.recorded()
    if arguments.record:
        ratchet.write(ratchet.lowered(now, before))
        before = ratchet.recorded()
    print(ratchet.table(now, before))
    risen = ratchet.risen(now, before)
    for package, pattern, number, most in risen:
        print(f"{package}: {pattern} has risen from {most} to {number}", file=sys.stderr)
    return 1 if risen else 0


def show(found: list[ratchet.Place], pattern: str, paths: list[str]) -> int:
    below = tuple(Path(path).as_posix() for path in paths)
    for place in found:
        if pattern in ("all", place.pattern) and (not below or place.path.startswith(below)):
            print(f"{place.path}:{place.line}: {place.pattern}: {place.text}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
