"""From the existing Secrets to the complete key material of a plane: keep what is good, issue the rest.

The service account key and the encryption key have a copy in the API server's Secret. If the key that encrypts the stored
Secrets were lost, the data would be lost, so every place is searched for it before a new one is created.
"""

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bulkhead.api.objects import Obj
from controller.pki import issue
from controller.pki.issue import Known
from controller.plane import pki
from controller.plane.pki import Pair
from controller.plane.secrets import REVOKED_FILE, SERVICE_ACCOUNT_SECRET, KeyMaterial
from controller.plane.spec import PlaneSpec


@dataclass(frozen=True, slots=True)
class Assembled:
    """The material, and what was issued and why."""

    keys: KeyMaterial
    issued: tuple[tuple[str, str], ...]
    put_off: tuple[str, ...] = ()  # due only because of the time, and not renewed for now


class KeysLostError(Exception):
    """The key that encrypts the plane's data is nowhere: another one would make the data unreadable for good."""


class _Notes:
    """Records what is issued and what is put off. It asks at most once whether certificates may be renewed."""

    def __init__(self, may_renew: Callable[[], bool], known: Known) -> None:
        self.known = known
        self._ask = may_renew
        self._may: bool | None = None
        self.issued: list[tuple[str, str]] = []
        self.put_off: list[str] = []

    def may_renew(self, name: str) -> bool:
        """Whether it may be renewed; if not, the name is recorded."""
        if self._may is None:
            self._may = self._ask()
        if not self._may:
            self.put_off.append(name)
        return self._may


def assemble(
    spec: PlaneSpec,
    secrets: Mapping[str, Obj],
    now: datetime,
    *,
    has_data: bool = False,
    may_renew: Callable[[], bool] = lambda: True,
    known: Known | None = None,
) -> Assembled:
    """Complete the key material of a plane.

    `has_data`: there is a volume that an earlier key has encrypted. `may_renew` is called at most once, if something is due
    only because of the time. `known` is what was read from the same plane before. Raises `KeysLostError`.
    """
    known = known or Known()
    known.turn()
    notes = _Notes(may_renew, known)
    issued = notes.issued
    revoked = files_of(secrets.get(pki.authority_secret(pki.USERS))).get(REVOKED_FILE, b"").decode("ascii", "replace")
    authorities = {name: _authority(spec, secrets, name, now, notes) for name in pki.AUTHORITIES}
    if spec.access.certificates_revoked not in {"", revoked}:
        # The key is written together with the request for which it was created: a crash before the write repeats both.
        revoked = spec.access.certificates_revoked
        authorities[pki.USERS] = issue.new_authority(f"bulkhead:{spec.tenant}:{pki.USERS}", now)
        issued.append((pki.authority_secret(pki.USERS), "all certificates are revoked"))
    account, encryption = _plane_keys(secrets, issued, has_data=has_data)
    leaves: dict[str, Pair] = {}
    for name, wanted in pki.leaves(spec).items():
        authority = authorities[wanted.authority]
        pair = _stored_leaf(secrets, name)
        there = known.facts(pair, authority.certificate) if pair else None
        why = pki.due(wanted, there, known.fingerprint(authority.certificate), now)
        if why in pki.BY_TIME and not notes.may_renew(name):
            why = None
        if why is not None or pair is None or there is None:
            pair = issue.issue(wanted, authority, now)
            issued.append((name, why or "missing"))
        leaves[name] = pair
    return Assembled(KeyMaterial(authorities, leaves, account, encryption, revoked), tuple(issued), tuple(notes.put_off))


def ends(keys: KeyMaterial, spec: PlaneSpec, known: Known) -> dict[str, datetime]:
    """When each certificate and CA of a plane ends, by `<secret>/<name>` or the CA's Secret."""
    found = {pki.authority_secret(name): known.authority_end(pair) for name, pair in keys.authorities.items()}
    for name, wanted in pki.leaves(spec).items():
        facts = known.facts(keys.leaves[name], keys.authorities[wanted.authority].certificate)
        found[name] = facts.not_after if facts is not None else None
    return {name: end for name, end in found.items() if end is not None}


def _authority(spec: PlaneSpec, secrets: Mapping[str, Obj], name: str, now: datetime, notes: _Notes) -> Pair:
    files = files_of(secrets.get(pki.authority_secret(name)))
    pair = Pair(files.get("tls.crt", b""), files.get("tls.key", b""))
    end = notes.known.authority_end(pair)
    # A CA must outlive every leaf that it may still sign.
    if end is not None and (now + pki.LEAF_LIFE < end or not notes.may_renew(pki.authority_secret(name))):
        return pair
    notes.issued.append((pki.authority_secret(name), "missing" if end is None else "at the end of its life"))
    return issue.new_authority(f"bulkhead:{spec.tenant}:{name}", now)


def _plane_keys(secrets: Mapping[str, Obj], issued: list[tuple[str, str]], *, has_data: bool) -> tuple[Pair, str]:
    own, copy = files_of(secrets.get(SERVICE_ACCOUNT_SECRET)), files_of(secrets.get("pki-apiserver"))
    account = issue.service_account_pair(own.get("sa.key", b"")) or issue.service_account_pair(copy.get("sa.key", b""))
    if account is None:
        issued.append((SERVICE_ACCOUNT_SECRET, "missing"))
        account = issue.new_service_account_pair()
    for key in (own.get("encryption.key", b"").decode("ascii", "replace"), _encryption_copy(copy.get("encryption.json", b""))):
        if issue.usable_encryption_key(key):
            return account, key
    if has_data:
        raise KeysLostError(
            f"the key that the plane's Secrets are encrypted with is neither in Secret {SERVICE_ACCOUNT_SECRET} "
            "(encryption.key) nor in Secret pki-apiserver (encryption.json), and the plane's volume has data: no other key is "
            "created over it. Restore one of the Secrets from a backup; or give up the data by deleting the plane's volume "
            "claims and its pods"
        )
    issued.append((f"{SERVICE_ACCOUNT_SECRET}/encryption.key", "missing"))
    return account, issue.new_encryption_key()


def _encryption_copy(config: bytes) -> str:
    document = _json(config)
    try:
        return str(document["resources"][0]["providers"][0]["secretbox"]["keys"][0]["secret"])
    except (KeyError, IndexError, TypeError):
        return ""


def _stored_leaf(secrets: Mapping[str, Obj], name: str) -> Pair | None:
    secret, stem = name.split("/")
    files = files_of(secrets.get(secret))
    if f"{stem}.crt" in files and f"{stem}.key" in files:
        return Pair(files[f"{stem}.crt"], files[f"{stem}.key"])
    return embedded(files)


def embedded(files: Mapping[str, bytes]) -> Pair | None:
    """The client certificate inside a kubeconfig; None if there is none."""
    document = _json(files.get("kubeconfig") or b"")
    try:
        user = document["users"][0]["user"]
        return Pair(base64.b64decode(user["client-certificate-data"]), base64.b64decode(user["client-key-data"]))
    except (KeyError, IndexError, TypeError, ValueError):
        return None


def files_of(secret: Obj | None) -> dict[str, bytes]:
    """The files of a Secret; files that cannot be read are left out."""
    if secret is None:
        return {}
    files: dict[str, bytes] = {}
    for key, value in (secret.get("data") or {}).items():
        try:
            files[key] = base64.b64decode(value, validate=True)
        except (ValueError, TypeError, binascii.Error):
            continue
    return files


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return None
