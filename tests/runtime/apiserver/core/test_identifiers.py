"""Random uids are UUIDs of version 4."""

from __future__ import annotations

import uuid

from kcm.runtime.apiserver.core.identifiers import AT_ONCE, RandomUids


def test_uids_are_distinct_uuids_of_version_4() -> None:
    uids = RandomUids()
    drawn = [uids() for _ in range(2 * AT_ONCE + 1)]
    assert len(set(drawn)) == len(drawn)
    for uid in drawn:
        parsed = uuid.UUID(uid)
        assert (str(parsed), parsed.version, parsed.variant) == (uid, 4, uuid.RFC_4122)
    assert {uid[19] for uid in drawn} == set("89ab")


def test_two_sources_return_different_uids() -> None:
    first, second = RandomUids(), RandomUids()
    assert not {first() for _ in range(AT_ONCE)} & {second() for _ in range(AT_ONCE)}
