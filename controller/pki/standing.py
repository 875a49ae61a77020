"""The existing leaf certificates of a plane, whatever its Tenant requests now: which are due, and their renewals.

For planes that are not reconciled otherwise. A certificate that is renewed here has the content and the CA of the previous one.
A certificate that is broken, or whose CA does not exist here, is left alone, because an admin may be working on it. No CA is
created: another one would restart the plane.
"""

from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from bulkhead.api.objects import Obj
from controller.pki import issue
from controller.pki.issue import Known
from controller.pki.material import embedded, files_of
from controller.plane import pki
from controller.plane.pki import CertFacts, CertSpec, Pair
from controller.plane.secrets import digest, read_once

_KUBECONFIG: Final = "kubeconfig"


@dataclass(frozen=True, slots=True, repr=False)
class Standing:
    """One certificate that is due, its place and its CA."""

    secret: str
    file: str  # the name before `.crt`, or that of a kubeconfig
    pair: Pair
    facts: CertFacts
    authority: str


def due(secrets: Mapping[str, Obj], now: datetime, known: Known) -> list[Standing]:
    """Every certificate that is due and would live longer when renewed; `known` is what was read from the plane before."""
    known.turn()
    authorities = authorities_of(secrets, known)
    found = []
    for secret, obj in sorted(secrets.items()):
        for file, pair in _leaves(secret, files_of(obj)):
            signed = _signed(pair, authorities, known)
            if signed is None:
                continue
            name, facts = signed
            end = known.authority_end(authorities[name])
            if (
                facts.key_fits
                and now >= pki.renewal(facts)
                and end is not None
                and min(now + pki.LEAF_LIFE, end) > facts.not_after
            ):
                found.append(Standing(secret, file, pair, facts, name))
    return found


def renewed(standing: Standing, secrets: Mapping[str, Obj], now: datetime, known: Known) -> dict[str, bytes]:
    """The files of its Secret with the renewed certificate."""
    facts = standing.facts
    same = CertSpec(standing.authority, facts.user, facts.usage, facts.groups, facts.dns, facts.addresses)
    pair = issue.issue(same, authorities_of(secrets, known)[standing.authority], now)
    if standing.file != _KUBECONFIG:
        return {f"{standing.file}.crt": pair.certificate, f"{standing.file}.key": pair.key}
    config = files_of(secrets[standing.secret])[_KUBECONFIG]
    for old, new in ((standing.pair.certificate, pair.certificate), (standing.pair.key, pair.key)):
        config = config.replace(b64encode(old), b64encode(new))
    return {_KUBECONFIG: config}


def loaded(secret: str, secrets: Mapping[str, Obj]) -> str | None:
    """A digest of what the process with a Secret loads only at its start; None if the Secret lacks its client certificate."""
    files = files_of(secrets.get(secret))
    both = _client_and_serving(secret, secrets)
    return None if both is None else read_once(secret, *both, files)


def loaded_formerly(secret: str, secrets: Mapping[str, Obj]) -> str | None:
    """The digest that earlier releases wrote of the same content: it covered fewer certificates."""
    both = _client_and_serving(secret, secrets)
    return None if both is None else digest(*both)


def _client_and_serving(secret: str, secrets: Mapping[str, Obj]) -> tuple[bytes, bytes] | None:
    pair = embedded(files_of(secrets.get(secret)))
    serving = files_of(secrets.get(pki.authority_secret("serving")))
    return None if pair is None else (pair.certificate, serving.get("tls.crt", b""))


def authorities_of(secrets: Mapping[str, Obj], known: Known) -> dict[str, Pair]:
    """The existing CAs that can sign."""
    found = {}
    for name in pki.AUTHORITIES:
        files = files_of(secrets.get(pki.authority_secret(name)))
        pair = Pair(files.get("tls.crt", b""), files.get("tls.key", b""))
        if known.authority_end(pair) is not None:
            found[name] = pair
    return found


def ending(secrets: Mapping[str, Obj], now: datetime, known: Known) -> dict[str, datetime]:
    """The CAs that are due for replacement, and when each ends."""
    ends = {name: known.authority_end(pair) for name, pair in authorities_of(secrets, known).items()}
    return {name: end for name, end in ends.items() if end is not None and now + pki.LEAF_LIFE >= end}


def ends(secrets: Mapping[str, Obj], known: Known) -> dict[str, datetime]:
    """When each certificate and CA of a plane ends, by `<secret>/<name>` or the CA's Secret, as `controller.pki.material`."""
    authorities = authorities_of(secrets, known)
    found = {pki.authority_secret(name): known.authority_end(pair) for name, pair in authorities.items()}
    for secret, obj in secrets.items():
        for file, pair in _leaves(secret, files_of(obj)):
            signed = _signed(pair, authorities, known)
            if signed is not None:
                found[f"{secret}/{'client' if file == _KUBECONFIG else file}"] = signed[1].not_after
    return {name: end for name, end in found.items() if end is not None}


def _leaves(secret: str, files: Mapping[str, bytes]) -> Iterator[tuple[str, Pair]]:
    if secret.startswith(pki.authority_secret("")):
        return
    for name in sorted(files):
        stem = name.removesuffix(".crt")
        if stem != name and f"{stem}.key" in files:
            yield stem, Pair(files[name], files[f"{stem}.key"])
    inside = embedded(files)
    if inside is not None:
        yield _KUBECONFIG, inside


def _signed(pair: Pair, authorities: Mapping[str, Pair], known: Known) -> tuple[str, CertFacts] | None:
    """The CA that signed a certificate, and the certificate's facts; None if no existing CA did."""
    for name, authority in authorities.items():
        facts = known.facts(pair, authority.certificate)
        if facts is None:
            return None
        if facts.authority:
            return name, facts
    return None
