"""One JSON object a line on standard error, each with the tenant and, where there is one, the object it is about.

Callers say `log.info("host pod created", extra=about("Pod", key))`. Nothing from inside an object but its kind, namespace and
name is ever logged: values may be secrets, and the tenant chooses them.
"""

import logging
import sys
import time
from typing import Any, Final

import msgspec

_FIELDS: Final = ("kind", "object", "detail")
_encode = msgspec.json.Encoder().encode


def about(kind: str, key: object, **detail: object) -> dict[str, Any]:
    """The `extra` of a log call about one object."""
    return {"kind": kind, "object": str(key), "detail": {name: str(value)[:1000] for name, value in detail.items()} or None}


class _Json(logging.Formatter):
    def __init__(self, tenant: str) -> None:
        super().__init__()
        self._tenant = tenant

    def format(self, record: logging.LogRecord) -> str:
        """Write one record as one JSON object."""
        line: dict[str, Any] = {
            "time": f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(record.created))}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "tenant": self._tenant,
            "logger": record.name,
            "message": record.getMessage()[:4000],
        }
        for name in _FIELDS:
            value = getattr(record, name, None)
            if value is not None:
                line[name] = value
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)[:8000]
        return _encode(line).decode()


def configure(tenant: str, level: str = "INFO") -> None:
    """Send every logger of this process to standard error as JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json(tenant))
    logging.basicConfig(level=level, handlers=[handler], force=True)
