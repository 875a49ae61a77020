"""A tenant's Secret on the host: data only, and only of types that nothing on the host acts upon.

A Secret of type service-account-token would be filled in by the host's controller manager with a token of the host, so it
is never copied. Types that the host does not know become Opaque: pods mount them just as well.
"""

import base64
import binascii
from typing import Final

from bulkhead.api.objects import Obj
from syncer.translate import metadata, schema
from syncer.translate.kinds import configmap
from syncer.translate.reasons import Reason, Untranslatable
from syncer.translate.schema import TEXT, Dropped, MapOf, Struct, Text, Translated
from syncer.translate.view import TenantView

OPAQUE: Final = "Opaque"
_PASSING_TYPES: Final = frozenset(
    {
        OPAQUE,
        "kubernetes.io/basic-auth",
        "kubernetes.io/dockercfg",
        "kubernetes.io/dockerconfigjson",
        "kubernetes.io/ssh-auth",
        "kubernetes.io/tls",
    }
)
_REFUSED_TYPES: Final = frozenset({"kubernetes.io/service-account-token", "bootstrap.kubernetes.io/token"})

SECRET: Final = Struct(
    {
        "apiVersion": Dropped("fixed"),
        "kind": Dropped("fixed"),
        "metadata": Translated("metadata"),
        "data": MapOf(TEXT, 10_000),
        "stringData": Dropped("only ever written, an API server never returns it"),
        "type": Text(253),
        "immutable": Dropped("the host copy follows a recreated Secret of the same name"),
    }
)


def to_host(virtual: Obj, view: TenantView) -> Obj:
    """The host Secret for `virtual`."""
    identity = metadata.identity("Secret", virtual)
    plain = schema.struct(virtual, SECRET, "")
    wanted = plain.get("type") or OPAQUE
    if wanted in _REFUSED_TYPES:
        raise Untranslatable(
            Reason.NOT_ALLOWED, f"Secrets of type {wanted} stay in this cluster; mount a projected token instead", "type"
        )
    data = configmap.carried(plain.get("data", {}), "data")
    for key, value in data.items():
        _check_base64(key, value)
    configmap.check_size((data,))
    host: Obj = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata.host_metadata(identity, virtual, view),
        "type": wanted if wanted in _PASSING_TYPES else OPAQUE,
    }
    return host | {"data": data} if data else host


def _check_base64(key: str, value: str) -> None:
    try:
        base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Untranslatable(Reason.MALFORMED, "not base64", schema.key_path("data", key)) from error
