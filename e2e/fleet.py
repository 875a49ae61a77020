"""Tenants that are created before their tests and deleted afterwards: no test waits for a plane to start or to end.

order -> (in the background, two at a time) an older one of the name is removed, the new one created -> take -> a test uses it
      -> leave: its deletion begins -> close: nothing of any tenant is left on the host, or the run fails

Tenants that several tests use are ordered by a function (`begin`), and left together (`leave_all`).
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from e2e import names, tenants
from e2e.api import Api, Obj
from e2e.companions import Companions
from e2e.poll import WaitTimeoutError
from e2e.tenants import Tenant

AT_ONCE = 2
GONE_SECONDS = 150.0
# A third of what planes request by themselves: with thirty of them, the node's cores would have no room for the pods of tests.
_CPU = {"etcd": "8m", "apiServer": "15m", "controllerManager": "3m", "syncer": "7m"}

Ahead = Callable[["Fleet"], Obj | list[Obj]]


@dataclass(slots=True, eq=False)
class Fleet:
    """The tenants of one process of tests; `companions` says who creates and deletes the one that other processes use, too."""

    host: Api
    companions: Companions | None = None
    _orders: dict[str, Future[Tenant]] = field(default_factory=dict, init=False)
    _left: list[str] = field(default_factory=list, init=False)
    _after: list[tuple[str, ...]] = field(default_factory=list, init=False)
    _begun: dict[Ahead, list[Obj]] = field(default_factory=dict, init=False)
    _pool: ThreadPoolExecutor = field(init=False)

    def __post_init__(self) -> None:
        self._pool = ThreadPoolExecutor(AT_ONCE, "fleet")

    def offer(self, name: str, **spec: Any) -> None:
        """A TenantClass like the standard one except for these sections; it exists as long as there are tenants."""
        standard = self.host.get("TenantClass", "standard")["spec"]
        kind = {"apiVersion": names.API_VERSION, "kind": "TenantClass", "metadata": {"name": name}}
        self.host.apply(kind | {"spec": standard | spec})
        self.discard("TenantClass", name)

    def lend(self, name: str, rules: Obj) -> None:
        """A Cohort with these rules; it exists as long as there are tenants."""
        self.host.apply({"apiVersion": names.API_VERSION, "kind": "Cohort", "metadata": {"name": name}, "spec": rules})
        self.discard("Cohort", name)

    def order_of_own_class(self, name: str, *, gpus: int, **spec: Any) -> Obj:
        """Begin to create a tenant with a class of the same name that offers these sections. Returns the Tenant's manifest."""
        self.offer(name, **spec)
        manifest = tenants.manifest(name, gpus=gpus, tenant_class=name)
        self.order(manifest)
        return manifest

    def order(self, manifest: Obj) -> None:
        """Begin to create a tenant, unless it was ordered before."""
        name = manifest["metadata"]["name"]
        if name not in self._orders:
            self._orders[name] = self._pool.submit(self._make, manifest)

    def begin(self, ahead: Ahead) -> None:
        """Order the tenants whose manifests this function returns, once."""
        if ahead not in self._begun:
            found = ahead(self)
            self._begun[ahead] = found if isinstance(found, list) else [found]
            for manifest in self._begun[ahead]:
                self.order(manifest)

    def leave_all(self, ahead: Ahead) -> None:
        """Leave the tenants that `begin` ordered by this function."""
        for manifest in self._begun.pop(ahead, ()):
            self.leave(manifest["metadata"]["name"])

    def take(self, manifest: Obj) -> Tenant:
        """The tenant, Ready and open; waits if it is not ready yet."""
        self.order(manifest)
        return self._orders[manifest["metadata"]["name"]].result()

    def leave(self, name: str) -> None:
        """The tenant is no longer needed by any test; its deletion begins."""
        self.host.delete("Tenant", name)
        self._left.append(name)

    def discard(self, kind: str, name: str, *namespace: str) -> None:
        """Delete what tenants refer to (a class, a cohort), once all tenants that were left are gone."""
        self._after.append((kind, name, *namespace))

    def close(self) -> None:
        """Delete the tenants that were ordered and not left, and wait until nothing of any tenant exists."""
        self._pool.shutdown(cancel_futures=True)
        everybodys = self.companions.name if self.companions else None
        for name in self._orders.keys() - {*self._left, everybodys}:
            self.leave(name)
        if self.companions:
            self.companions.leave(partial(self.leave, self.companions.name))
        rest = [text for name in dict.fromkeys(self._left) if (text := self._gone(name))]
        for kind, name, *namespace in self._after:
            self.host.delete(kind, name, *namespace)
        assert not rest, f"left on the host: {'; '.join(rest)}"

    def _gone(self, name: str) -> str:
        try:
            tenants.wait_gone(self.host, name, seconds=GONE_SECONDS)
        except WaitTimeoutError as exc:
            return str(exc)
        return ""

    def _make(self, manifest: Obj) -> Tenant:
        name = manifest["metadata"]["name"]
        if self.companions and name == self.companions.name:
            self.companions.enter(lambda: self._create(manifest))
        else:
            self._create(manifest)
        tenants.wait_ready(self.host, [name])
        return tenants.open_tenant(name)

    def _create(self, manifest: Obj) -> None:
        # An interrupted run leaves tenants of this name behind, with their content.
        tenants.remove(self.host, manifest["metadata"]["name"])
        self.host.create(_with_small_requests(manifest))


def _with_small_requests(manifest: Obj) -> Obj:
    """The same tenant with a plane that requests little CPU, unless it says what it requests."""
    resources = {component: {"requests": {"cpu": cpu}} for component, cpu in _CPU.items()}
    control = {"resources": resources} | (manifest["spec"].get("controlPlane") or {})
    return manifest | {"spec": manifest["spec"] | {"controlPlane": control}}
