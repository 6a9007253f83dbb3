"""Merge patches (RFC 7386) and JSON patches (RFC 6902), applied to decoded objects.

Both return a new object and do not change their arguments. A merge patch's result shares unchanged parts with its
input.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import jsonpatch
import orjson

from kcm.protocols.merge_patches import merge_patched
from kcm.protocols.objects import Object

MOST_OPERATIONS = 10_000  # limit for one JSON patch, as upstream; checked by callers
MOST_COPIED = 3 * 1024 * 1024  # bytes of JSON that the copy operations of one JSON patch may add, as upstream
MOST_MOVED = 100_000_000  # list items that the insertions and removals of one JSON patch may shift; upstream has none

_PYTHON_TYPE = re.compile(r" \(<class '[\w.]+'>\)")  # in jsonpatch's message about a failed test


def apply_merge_patch(obj: Mapping[str, Any], patch: Any) -> Object:
    """Apply a JSON merge patch (RFC 7386): maps are merged, null deletes, everything else is replaced.

    Raises ValueError if the patch is not a JSON object.
    """
    if not isinstance(patch, dict):
        raise ValueError(f"a merge patch must be a JSON object, got {type(patch).__name__}")
    return merge_patched(obj, patch)


def apply_json_patch(obj: Mapping[str, Any], operations: Any) -> Object:
    """Apply a JSON patch (RFC 6902): all of its operations, or none if one of them fails.

    Raises ValueError if the patch is malformed, a path does not exist, a `test` operation fails, the result is not a
    JSON object, or the patch exceeds MOST_COPIED or MOST_MOVED: a few copies of copies would fill the memory.
    """
    if not isinstance(operations, list) or not all(isinstance(operation, dict) for operation in operations):
        raise ValueError("a JSON patch must be a list of operations, which are JSON objects")
    try:
        # Deep copy by encoding: operations must change neither obj nor the values of the patch.
        document, steps = orjson.loads(orjson.dumps((obj, operations)))
        result = _apply_all(document, steps)
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException) as err:
        raise ValueError(f"the JSON patch cannot be applied: {_PYTHON_TYPE.sub('', str(err))}") from err
    except (AttributeError, IndexError, KeyError, TypeError) as err:  # a member of the wrong type
        raise ValueError(f"malformed JSON patch: {type(err).__name__}: {err}") from err
    if not isinstance(result, dict):
        raise ValueError(f"the result of a JSON patch must be a JSON object, got {type(result).__name__}")
    return result


def _apply_all(document: Any, operations: list[Any]) -> Any:
    copied = moved = 0
    for operation in operations:
        moved += _moved_items(document, operation)
        if moved > MOST_MOVED:
            raise ValueError(f"Unable to complete the patch, it shifts more than {MOST_MOVED} list items")
        if operation.get("op") == "copy":
            copied += len(orjson.dumps(jsonpatch.JsonPointer(operation["from"]).resolve(document)))
            if copied > MOST_COPIED:
                raise ValueError(
                    "Unable to complete the copy, the accumulated size increase of copy is "
                    f"{copied}, exceeding the limit {MOST_COPIED}"
                )
        document = jsonpatch.JsonPatch([operation]).apply(document, in_place=True)
    return document


def _moved_items(document: Any, operation: Mapping[str, Any]) -> int:
    """Return an upper bound of the list items that an operation shifts: the lengths of the lists that it changes."""
    longest = 0
    for member in ("path", "from"):
        pointer = operation.get(member)
        if isinstance(pointer, str) and pointer.rpartition("/")[2].isdigit():
            parent = jsonpatch.JsonPointer(pointer.rpartition("/")[0]).resolve(document, None)
            longest += len(parent) if isinstance(parent, list) else 0
    return longest
