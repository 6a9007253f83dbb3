"""Generated names, chosen by the controller; upstream lets the server generate them (generateName).

Names derive from the observed state: a retry from the same state chooses the same names, so that a creation with
unknown outcome is not repeated under another name. Error texts are adapted to read as if the server had generated the
name.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from hashlib import blake2b

import msgspec

from kcm.protocols.hashing import SAFE_ALPHABET
from kcm.protocols.messages.outcomes import Failure, Forbidden
from kcm.protocols.objects import Key, Object, make_key, name_of, namespace_of, resource_version_of, uid_of

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LONGEST_BASE = 58  # of a generated name. Source: apiserver pkg/storage/names/generate.go
_SUFFIX = 5  # characters

# The beginnings of rejections by the validating plugins ResourceQuota, LimitRanger, PodSecurity and
# ValidatingAdmissionPolicy.
_BY_VALIDATION = re.compile(
    r"exceeded quota: |failed quota: |status unknown for quota: |quota usage is negative |insufficient quota to "
    r"|\[?(minimum|maximum) \S+ usage per |\[?\S+ max limit to request ratio per "
    r"|violates PodSecurity |ValidatingAdmissionPolicy '"
)


def generate_name(owner: str) -> str:
    """Return the generateName of an owner's pods: "<owner>-", or "<owner>" if that is not a valid prefix.

    Source: getPodsPrefix, with apimachinery's NameIsDNSSubdomain for prefixes.
    """
    prefix = f"{owner}-"
    masked = f"{prefix[:-2]}a"  # a name must not end with a dash, but a prefix may
    return prefix if len(masked) <= 253 and _SUBDOMAIN.fullmatch(masked) else owner


def generated_names(owner: Object, count: int, *, taken: Callable[[Key], bool], base: str | None = None) -> list[str]:
    """Return names for `count` new dependents of this owner, derived from its uid and resourceVersion.

    taken: report whether a dependent with this key exists. base: prefix of the names, if it is not the owner's name.
    """
    namespace = namespace_of(owner)
    prefix = (generate_name(name_of(owner)) if base is None else base)[:_LONGEST_BASE]
    seed = f"{uid_of(owner)}/{resource_version_of(owner)}/"
    names: dict[str, None] = {}
    number = 0
    while len(names) < count:
        name = prefix + _suffix(f"{seed}{number}")
        number += 1
        if not taken(make_key(namespace, name)):
            names[name] = None
    return list(names)


def generated_name(owner: Object, purpose: str, *, taken: Callable[[Key], bool]) -> str:
    """Return a name for the dependent with this purpose, for example the name of its node; see generated_names."""
    namespace, prefix = namespace_of(owner), generate_name(name_of(owner))[:_LONGEST_BASE]
    seed = f"{uid_of(owner)}/{resource_version_of(owner)}/{purpose}/"
    names = (prefix + _suffix(f"{seed}{number}") for number in itertools.count())
    return next(name for name in names if not taken(make_key(namespace, name)))


def _suffix(seed: str) -> str:
    number = int.from_bytes(blake2b(seed.encode(), digest_size=8).digest(), "little")
    letters = ""
    for _ in range(_SUFFIX):
        number, letter = divmod(number, len(SAFE_ALPHABET))
        letters += SAFE_ALPHABET[letter]
    return letters


def as_if_generated(failure: Failure, name: str, *, base: str) -> Failure:
    """Return the rejection of an object with this chosen name, with the text for an object with generateName=base.

    The server generates the name after mutating and before validating admission. So texts of mutating plugins contain
    the base (`pods "web-" is forbidden: error looking up service account …`), and texts of validating plugins the
    name. A plugin that is not listed counts as mutating.

    Source: kubernetes v1.36 apiserver pkg/admission/errors.go, extractResourceName, and
    pkg/registry/rest/create.go, AdmissionToValidateObjectFunc.
    """
    if not isinstance(failure, Forbidden):
        return failure
    before, subject, because = failure.message.partition(f'"{name}" is forbidden: ')
    if not subject or _BY_VALIDATION.match(because):
        return failure
    return msgspec.structs.replace(failure, message=f'{before}"{base}" is forbidden: {because}')
