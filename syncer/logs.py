"""What a log line of the syncer says about the object that it is about.

Callers say `_log.info("host pod created", extra=about("Pod", key))`. Nothing from inside an object but its kind, namespace and
name is ever logged: values may be secrets, and the tenant chooses them.
"""

from typing import Any


def about(kind: str, key: object, **detail: object) -> dict[str, Any]:
    """The `extra` of a log call about one object."""
    return {"kind": kind, "object": str(key), "detail": {name: str(value)[:1000] for name, value in detail.items()} or None}
