"""Random uids are UUIDs of version 4."""

from __future__ import annotations

import uuid

from kcm.runtime.apiserver.core.uids import AT_ONCE, RandomUids


def test_each_is_another_uuid_of_version_4() -> None:
    uids = RandomUids()
    drawn = [uids() for _ in range(2 * AT_ONCE + 1)]
    assert len(set(drawn)) == len(drawn)
    for one in drawn:
        parsed = uuid.UUID(one)
        assert (str(parsed), parsed.version, parsed.variant) == (one, 4, uuid.RFC_4122)
    assert {one[19] for one in drawn} == set("89ab")


def test_two_sources_share_nothing() -> None:
    one, other = RandomUids(), RandomUids()
    assert not {one() for _ in range(AT_ONCE)} & {other() for _ in range(AT_ONCE)}
