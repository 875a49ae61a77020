"""What a snapshot has beside the store: keys, Tenant, slice and record. It holds secrets and is stored encrypted. Pure."""

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from bulkhead.api.objects import Obj

FORMAT: Final = 1
LONGEST: Final = 4 * 1024 * 1024  # bytes
_FIELDS: Final = frozenset({"format", "record", "tenant", "serviceSlice", "secrets"})
# Of a Tenant's metadata: the rest belongs to the API server that stores it.
_KEPT: Final = ("name", "uid", "labels", "annotations")


class BundleError(ValueError):
    """A bundle cannot be read; the message says why, and quotes nothing of it."""


@dataclass(frozen=True, slots=True, repr=False)
class Bundle:
    """Everything of a plane that is not in its store. It has no text form, so that no key gets into a log.

    secrets: the Secrets from which all others can be recreated, by name and file.
    """

    record: str
    tenant: Obj
    service_slice: str
    secrets: Mapping[str, Mapping[str, bytes]]

    def data(self) -> bytes:
        """The bytes to encrypt. Raises BundleError if there are too many."""
        meta = {key: value for key, value in self.tenant["metadata"].items() if key in _KEPT}
        content = {
            "format": FORMAT,
            "record": self.record,
            "tenant": {"metadata": meta, "spec": self.tenant.get("spec") or {}},
            "serviceSlice": self.service_slice,
            "secrets": {
                name: {file: base64.b64encode(value).decode() for file, value in sorted(files.items())}
                for name, files in sorted(self.secrets.items())
            },
        }
        data = json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
        if len(data) > LONGEST:
            raise BundleError(f"Tenant and keys have {len(data)} bytes together, and at most {LONGEST} are stored")
        return data


def read(data: bytes) -> Bundle:
    """The bundle of decrypted bytes. Raises BundleError."""
    if len(data) > LONGEST:
        raise BundleError(f"it is larger than {LONGEST} bytes")
    try:
        found: Any = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BundleError("it is not JSON") from error
    if not isinstance(found, dict) or found.keys() != _FIELDS or found["format"] != FORMAT:
        raise BundleError(f"it is not of format {FORMAT}")
    tenant, record, service_slice = found["tenant"], found["record"], found["serviceSlice"]
    if not isinstance(tenant, dict) or not isinstance(tenant.get("metadata"), dict) or not isinstance(tenant.get("spec"), dict):
        raise BundleError("its tenant is not an object with metadata and spec")
    if not isinstance(record, str) or not isinstance(service_slice, str):
        raise BundleError("its record or slice is not a text")
    return Bundle(record, tenant, service_slice, _secrets(found["secrets"]))


def _secrets(found: Any) -> dict[str, dict[str, bytes]]:
    if not isinstance(found, dict) or not all(isinstance(files, dict) for files in found.values()):
        raise BundleError("its secrets are not objects")
    try:
        return {
            name: {file: base64.b64decode(value, validate=True) for file, value in files.items()}
            for name, files in found.items()
        }
    except (ValueError, TypeError, binascii.Error) as error:
        raise BundleError("a file of its secrets is not base64") from error
