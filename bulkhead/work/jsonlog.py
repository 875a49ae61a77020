"""One JSON object a line on standard error: how every long-running process of the platform logs.

    _log.info("tenant ready", extra={"tenant": "acme"})  ──>  {"time": …, "level": "info", …, "message": …, "tenant": …}

Times are UTC. What a call gives as `extra` becomes fields of their own, where it is text, a number or a mapping of such; none
replaces a field of the line. Texts are bounded, because tenants choose what many of them quote.
"""

import json
import logging
import sys
import time
from collections.abc import Mapping
from typing import Any, Final

import msgspec

_MESSAGE_LIMIT: Final = 4000
_ERROR_LIMIT: Final = 8000
_OWN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_encode: Final = msgspec.json.Encoder(enc_hook=str).encode


class JsonFormatter(logging.Formatter):
    """Writes a record as one JSON object; `always` are fields of every line."""

    def __init__(self, always: Mapping[str, str]) -> None:
        super().__init__()
        self._always = always

    def format(self, record: logging.LogRecord) -> str:
        """Write one record."""
        line: dict[str, Any] = {
            "time": f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(record.created))}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            **self._always,
            "logger": record.name,
            "message": record.getMessage()[:_MESSAGE_LIMIT],
        }
        for name, value in vars(record).items():
            if name not in _OWN and isinstance(value, str | int | float | dict):
                line.setdefault(name, value)
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)[:_ERROR_LIMIT]
        try:
            return _encode(line).decode()
        except UnicodeEncodeError:
            # A surrogate without its other half: JSON can only escape it.
            return json.dumps(line, default=str)


def configure(level: str, **always: str) -> None:
    """Send every logger of this process to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter(always))
    logging.basicConfig(level=level, handlers=[handler], force=True)
