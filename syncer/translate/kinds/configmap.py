"""A tenant's ConfigMap on the host: its data under a name of ours. `immutable` stays behind, for the name may be reused."""

import re
from collections.abc import Iterable
from typing import Any, Final

from bulkhead.api.objects import Obj
from syncer.translate import metadata, schema
from syncer.translate.podspec import environment
from syncer.translate.reasons import Reason, Untranslatable
from syncer.translate.schema import TEXT, Dropped, MapOf, Struct, Translated
from syncer.translate.view import TenantView

_KEY: Final = re.compile(r"[-._a-zA-Z0-9]{1,253}")
_SIZE_LIMIT: Final = 1 << 20

CONFIG_MAP: Final = Struct(
    {
        "apiVersion": Dropped("fixed"),
        "kind": Dropped("fixed"),
        "metadata": Translated("metadata"),
        "data": MapOf(TEXT, 10_000),
        "binaryData": MapOf(TEXT, 10_000),
        "immutable": Dropped("the host copy follows a recreated ConfigMap of the same name"),
    }
)


def to_host(virtual: Obj, view: TenantView) -> Obj:
    """The host ConfigMap for `virtual`."""
    identity = metadata.identity("ConfigMap", virtual)
    plain = schema.struct(virtual, CONFIG_MAP, "")
    content = {field: carried(plain.get(field, {}), field) for field in ("data", "binaryData")}
    check_size(content.values())
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata.host_metadata(identity, virtual, view),
        **{field: found for field, found in content.items() if found},
    }


def carried(data: dict[str, Any], field: str) -> dict[str, str]:
    """The entries that go to the host, in a fixed order."""
    for key in data:
        if not _KEY.fullmatch(key):
            raise Untranslatable(Reason.MALFORMED, f"{key[:64]!r} is not a valid key", field)
    return dict(sorted(environment.without_device_keys(data).items()))


def check_size(contents: Iterable[dict[str, str]]) -> None:
    """Refuse data that no API server would store."""
    size = sum(len(key) + len(value.encode()) for content in contents for key, value in content.items())
    if size > _SIZE_LIMIT * 3 // 2:  # base64 makes four bytes of three
        raise Untranslatable(Reason.TOO_LARGE, f"{size} bytes of data", "data")
