"""From a Tenant's reconcile to the order for its Slurm cluster: on, with its keys, or off until only its volumes are left."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from bulkhead.api.objects import Obj
from controller.plane.spec import PlaneSpec
from controller.slurm.cluster import Order
from controller.slurm.decide.status import Found
from controller.slurm.keystore import KeyStore, is_off
from controller.slurm.loop import SlurmLoops
from controller.slurm.spec import KEYS, LoginSpec, SlurmImages, SlurmSpec
from controller.slurm.ssh.authorities import Authorities
from controller.slurm.ssh.desks import Desks

_log = logging.getLogger(__name__)
_NO_IMAGES: Final = SlurmImages(slurm="", mariadb="")


@dataclass(frozen=True, slots=True)
class Ordered:
    """What a Tenant's reconcile knows about its Slurm cluster: whether it is wanted, and the last results."""

    wanted: bool
    found: Found | None = None
    spec: SlurmSpec | None = None


class Ordering:
    """Orders clusters."""

    def __init__(self, keys: KeyStore, loops: SlurmLoops, authorities: Authorities, desks: Desks) -> None:
        self._keys = keys
        self._loops = loops
        self._authorities = authorities
        self._desks = desks

    async def order(
        self, plane: PlaneSpec, tenant: Obj, secrets_there: Mapping[str, Obj], spec: SlurmSpec | None
    ) -> Ordered | None:
        """Order a tenant's cluster; None when nothing of one is left. `secrets_there` are the plane's on the host, by name."""
        secret = secrets_there.get(KEYS)
        if spec is None:
            return await self._switched_off(plane, secret)
        spread = self._loops.spread(plane.tenant)
        keys, name = await self._keys.current(plane, tenant, secret, spread, name=spec.cluster_name)
        kept = "" if name == spec.cluster_name else _keeps_its_name(spec.cluster_name, name)
        spec = replace(spec, cluster_name=name)
        trusted = await self._certificates(plane, tenant, spec, spread)
        found = self._loops.order(plane.tenant, Order(spec, keys, trusted=trusted, kept=kept))
        return Ordered(wanted=True, found=found, spec=spec)

    async def hold(self, plane: PlaneSpec, tenant: Obj, secrets_there: Mapping[str, Obj], logins: SlurmSpec) -> None:
        """Leave a cluster that is refused as it was ordered last, but for its keys, its users and what opens its login nodes.

        If this process has ordered nothing yet, only these are kept up to date.
        """
        secret, last = secrets_there.get(KEYS), self._loops.last_order(plane.tenant)
        if secret is None or is_off(secret) or (last is not None and not last.on):
            return
        spec, spread = logins, self._loops.spread(plane.tenant)
        if last is not None and not last.logins_only:
            spec = replace(last.spec, users=logins.users, login=_restricted(last.spec.login, logins.login))
        keys, name = await self._keys.current(plane, tenant, secret, spread, name=spec.cluster_name)
        trusted = await self._certificates(plane, tenant, spec, spread)
        only = last is None or last.logins_only
        self._loops.order(plane.tenant, Order(replace(spec, cluster_name=name), keys, trusted=trusted, logins_only=only))

    def runs(self, tenant: str) -> bool:
        """Whether the tenant's cluster has a task."""
        return self._loops.runs(tenant)

    async def forget(self, tenant: str) -> None:
        """End the tasks of a tenant's cluster."""
        await self._desks.forget(tenant)
        await self._loops.forget(tenant)

    async def _certificates(
        self, plane: PlaneSpec, tenant: Obj, spec: SlurmSpec, spread: Mapping[str, datetime]
    ) -> tuple[str, ...]:
        """Answer requests for ssh certificates if any user may make one; returns the public keys that login nodes trust."""
        if spec.login is None or not spec.certificates:
            await self._desks.forget(plane.tenant)
            return ()
        authority = await self._authorities.current(plane, tenant, spread)
        self._desks.open(plane.tenant, spec.login.forwarding)
        return authority.trusted

    async def _switched_off(self, plane: PlaneSpec, secret: Obj | None) -> Ordered | None:
        await self._desks.forget(plane.tenant)
        if secret is None or is_off(secret):
            await self._loops.forget(plane.tenant)
            return None
        # Its jobs have the grace period that the Tenant gave and its class allowed.
        lease = self._loops.lease(plane.tenant)
        nothing = SlurmSpec(tenant=plane.tenant, cluster_name=plane.tenant, version="", images=_NO_IMAGES, lease=lease)
        found = self._loops.order(plane.tenant, Order(nothing, self._keys.of(secret), on=False))
        if not self._loops.removed(plane.tenant):
            return Ordered(wanted=False, found=found)
        _log.info("Slurm is switched off and removed; its volumes stay", extra={"tenant": plane.tenant})
        await self._keys.mark_off(plane)
        await self._loops.forget(plane.tenant)
        return None


def _restricted(login: LoginSpec | None, wanted: LoginSpec | None) -> LoginSpec | None:
    if login is None or wanted is None:
        return login
    return replace(login, root_keys=wanted.root_keys, keys=wanted.keys, revoked=wanted.revoked)


def _keeps_its_name(wanted: str, name: str) -> str:
    return (
        f"spec.scheduling.slurm.clusterName: the cluster is still called {name!r} and not {wanted!r}, because its state and "
        f"its accounts contain that name; next: set clusterName to {name}"
    )
