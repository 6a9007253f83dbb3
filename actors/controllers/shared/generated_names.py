"""Generation of object names by the controller; upstream lets the server generate them (generateName).

The names are derived from the owner's uid and resourceVersion, so that a retry uses the same names: if the outcome of a
creation is unknown, it is not repeated under another name. Error texts are changed to those that upstream's clients see
for an object with generateName.
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
_LONGEST_BASE = 58  # characters of a generated name before its suffix. Source: apiserver pkg/storage/names/generate.go
_SUFFIX = 5  # characters

# The beginnings of the texts with which the validating admission plugins ResourceQuota, LimitRanger, PodSecurity and
# ValidatingAdmissionPolicy reject an object.
_BY_VALIDATION = re.compile(
    r"exceeded quota: |failed quota: |status unknown for quota: |quota usage is negative |insufficient quota to "
    r"|\[?(minimum|maximum) \S+ usage per |\[?\S+ max limit to request ratio per "
    r"|violates PodSecurity |ValidatingAdmissionPolicy '"
)


def generate_name(owner: str) -> str:
    """Return the value of generateName for the pods of an owner, from the owner's name.

    This is "<owner>-", or "<owner>" if "<owner>-" is not a valid prefix of a name.
    Source: getPodsPrefix, with apimachinery's NameIsDNSSubdomain for prefixes.
    """
    prefix = f"{owner}-"
    masked = f"{prefix[:-2]}a"  # a name must not end with a dash, but a prefix may
    return prefix if len(masked) <= 253 and _SUBDOMAIN.fullmatch(masked) else owner


def generated_names(owner: Object, count: int, *, taken: Callable[[Key], bool], base: str | None = None) -> list[str]:
    """Return `count` unused names for new dependents of an owner. Equal arguments give equal names.

    owner: its uid and resourceVersion determine the suffixes
    taken: reports whether an object with this key exists
    base: prefix of the names; by default generate_name of the owner's name
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
    """Return an unused name for the dependent with this purpose, derived from the owner and the purpose.

    purpose: text that distinguishes the dependents of an owner, for example the name of a node
    taken: reports whether an object with this key exists
    """
    namespace, prefix = namespace_of(owner), generate_name(name_of(owner))[:_LONGEST_BASE]
    seed = f"{uid_of(owner)}/{resource_version_of(owner)}/{purpose}/"
    names = (prefix + _suffix(f"{seed}{number}") for number in itertools.count())
    return next(name for name in names if not taken(make_key(namespace, name)))


def lasting_name(owner: Object, purpose: str, *, base: str, taken: Callable[[Key], bool]) -> str:
    """Return an unused name for the dependent with this purpose, which is the same for every version of the owner.

    purpose: text that distinguishes the dependents of an owner
    base: prefix of the name
    taken: reports whether an object with this key exists, or the name must not be used again
    """
    namespace, prefix, seed = namespace_of(owner), base[:_LONGEST_BASE], f"{uid_of(owner)}/{purpose}/"
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
    """Change the text of a failed creation to the text for an object with generateName=`base` instead of this name.

    Only rejections by mutating admission plugins change, because the server generates names after mutating and before
    validating admission. So their texts contain the base (`pods "web-" is forbidden: error looking up service
    account …`), and the texts of validating plugins contain the name. Unknown plugins count as mutating.

    Source: kubernetes v1.36 apiserver pkg/admission/errors.go, extractResourceName, and
    pkg/registry/rest/create.go, AdmissionToValidateObjectFunc.
    """
    if not isinstance(failure, Forbidden):
        return failure
    before, subject, because = failure.message.partition(f'"{name}" is forbidden: ')
    if not subject or _BY_VALIDATION.match(because):
        return failure
    return msgspec.structs.replace(failure, message=f'{before}"{base}" is forbidden: {because}')
