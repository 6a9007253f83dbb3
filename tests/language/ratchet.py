"""Counts of the patterns per package, and the recorded counts that they may not exceed."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from kcm.runtime.process.memory import collect_afterwards
from tests.language.patterns import PATTERNS, findings
from tests.language.texts import texts_of

ROOT = Path(__file__).parents[2]
RECORDED = Path(__file__).parent / "counts.json"
CACHE = ROOT / ".language_cache" / "findings.json"  # of files that have not changed; parsing all takes some seconds
PACKAGES = ("actors", "bin", "examples", "kcm", "protocols", "runtime", "tests")
PAGES = ("*.md", "docs/*.md")  # decisions are records of the past
# Class names that may be defined twice, because both mean the same thing.
PARALLEL_CLASSES = {
    "ApiServer": "the public class runs the ApiServer of runtime/apiserver in a child process",
}
# Their words are data here, not prose.
LEFT_OUT = ("tests/language/", "CHANGELOG.md")

Counts = dict[str, dict[str, int]]  # by package, then by pattern


class Place(NamedTuple):
    path: str
    line: int
    pattern: str
    text: str


def files(root: Path = ROOT) -> list[Path]:
    found = [path for package in PACKAGES for path in (root / package).rglob("*.py")]
    found += [path for pattern in PAGES for path in root.glob(pattern)]
    return sorted(path for path in found if not path.relative_to(root).as_posix().startswith(LEFT_OUT))


def places(paths: Iterable[Path], *, root: Path = ROOT, cache: Path | None = None) -> list[Place]:
    """Return the places of all patterns in these files. cache: file with the findings of an earlier run."""
    known = _cached(cache)
    with collect_afterwards():  # syntax trees contain no cycles
        entries = {path.relative_to(root).as_posix(): _entry(path, root, known) for path in paths}
    if cache is not None:
        _keep(cache, entries)
    found = (Place(name, line, pattern, text) for name, entry in entries.items() for line, pattern, text in entry[1])
    return list(_without_unique_classes(list(found)))


def _entry(path: Path, root: Path, known: Mapping[str, list[Any]]) -> list[Any]:
    """Return a file's stamp and findings. known: the entries of an earlier run, by name."""
    status = path.stat()
    stamp = f"{status.st_mtime_ns} {status.st_size}"
    entry = known.get(path.relative_to(root).as_posix())
    return entry if entry is not None and entry[0] == stamp else [stamp, list(map(list, _read(path)))]


def _read(path: Path) -> Iterator[tuple[int, str, str]]:
    for text in texts_of(path, path.read_text(encoding="utf-8")):
        for pattern, words in findings(text):
            yield text.line, pattern, words[:160]


def _without_unique_classes(found: list[Place]) -> Iterator[Place]:
    """Leave out classes whose name is defined once, those of tests, and deliberate parallels."""
    classes = Counter(place.text for place in found if _is_checked_class(place))
    for place in found:
        if place.pattern != "duplicate-class" or (_is_checked_class(place) and classes[place.text] > 1):
            yield place


def _is_checked_class(place: Place) -> bool:
    return (
        place.pattern == "duplicate-class"
        and not place.path.startswith("tests/")
        and place.text not in PARALLEL_CLASSES
    )


def package_of(path: str) -> str:
    """Return "actors/engine" for a file below it, the first folder for a file directly in it, and "pages" for pages."""
    parts = path.split("/")
    if path.endswith(".md"):
        return "pages"
    return "/".join(parts[:2] if len(parts) > 2 else parts[:1])


def count(found: Iterable[Place]) -> Counts:
    counts: dict[str, Counter[str]] = {}
    for place in found:
        counts.setdefault(package_of(place.path), Counter())[place.pattern] += 1
    return {package: dict(counter) for package, counter in counts.items()}


def recorded() -> Counts:
    counts: Counts = json.loads(RECORDED.read_text(encoding="utf-8"))
    return counts


def risen(now: Counts, before: Counts) -> list[tuple[str, str, int, int]]:
    """Return package, pattern, count and recorded count where the count is higher."""
    return [
        (package, pattern, number, before.get(package, {}).get(pattern, 0))
        for package, patterns in sorted(now.items())
        for pattern, number in sorted(patterns.items())
        if number > before.get(package, {}).get(pattern, 0)
    ]


def lowered(now: Counts, before: Counts) -> Counts:
    """Return the recorded counts, lowered to the current ones where these are lower. None is ever raised."""
    new = {
        package: {
            pattern: min(number, now.get(package, {}).get(pattern, 0)) for pattern, number in sorted(patterns.items())
        }
        for package, patterns in sorted(before.items())
    }
    return {package: kept for package, patterns in new.items() if (kept := {p: n for p, n in patterns.items() if n})}


def write(counts: Counts) -> None:
    RECORDED.write_text(json.dumps(counts, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def table(now: Counts, before: Counts) -> str:
    """Return the counts per package as a table, with the recorded count where it differs."""
    names = [pattern.name for pattern in PATTERNS]
    lines = [f"{'':26}" + "".join(f"{name:>18}" for name in names)]
    packages = sorted({*now, *before})
    for package in packages:
        cells = [_cell(now.get(package, {}).get(name, 0), before.get(package, {}).get(name, 0)) for name in names]
        lines.append(f"{package:26}" + "".join(f"{cell:>18}" for cell in cells))
    sums = [_cell(_sum(now, name), _sum(before, name)) for name in names]
    lines.append(f"{'all':26}" + "".join(f"{cell:>18}" for cell in sums))
    return "\n".join(lines)


def _sum(counts: Mapping[str, Mapping[str, int]], pattern: str) -> int:
    return sum(patterns.get(pattern, 0) for patterns in counts.values())


def _cell(now: int, before: int) -> str:
    return str(now) if now == before else f"{now} ({before})"


def _version() -> str:
    """Changes when the check itself does."""
    here = Path(__file__).parent
    return hashlib.sha256(b"".join((here / name).read_bytes() for name in ("texts.py", "patterns.py"))).hexdigest()


def _cached(cache: Path | None) -> dict[str, list[Any]]:
    if cache is None:
        return {}
    try:
        content = json.loads(cache.read_text(encoding="utf-8"))
        return dict(content["files"]) if content["version"] == _version() else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _keep(cache: Path, entries: Mapping[str, object]) -> None:
    cache.parent.mkdir(exist_ok=True)
    cache.write_text(json.dumps({"version": _version(), "files": entries}), encoding="utf-8")
