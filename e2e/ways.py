"""The ways by which a tenant's admin has their own API server connect to an address of their choice.

Each way takes the tenant's API, a name for its objects, an address and a port, and returns when its attempt has ended: with an
answer, an error or a deadline. What it made is removed again. Whether anything was reached, only a listener can tell.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Final, TypeAlias

from e2e.api import Api, ApiError, Obj, UnreachableError, path_of
from e2e.poll import WaitTimeoutError, until
from e2e.workloads import expect

Way: TypeAlias = Callable[[Api, str, str, int], None]
SPACE: Final = "default"
_SECONDS: Final = 6.0
_TRIES: Final = 3  # the syncer may write its own status at any moment
_REGISTRATION: Final = "/apis/apiregistration.k8s.io/v1/apiservices"


def webhook(api: Api, name: str, address: str, port: int) -> None:
    """An admission webhook by its URL."""
    with _hooked(api, name, {"url": f"https://{address}:{port}/"}):
        _called(api, name)


def webhook_by_name(api: Api, name: str, address: str, port: int) -> None:
    """An admission webhook by a Service that is another name for the address."""
    meta = {"name": name, "namespace": SPACE}
    spec = {"type": "ExternalName", "externalName": address, "ports": [{"port": port}]}
    service: Obj = {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}
    with _made(api, service), _hooked(api, name, {"service": meta | {"port": port}}):
        _called(api, name)


def conversion(api: Api, name: str, address: str, port: int) -> None:
    """A conversion webhook, called for a version in which objects are not stored."""
    group = f"{name}.example.org"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    versions = [{"name": f"v{n}", "served": True, "storage": n == 1, "schema": schema} for n in (1, 2)]
    hook = {"clientConfig": {"url": f"https://{address}:{port}/"}, "conversionReviewVersions": ["v1"]}
    spec = {
        "group": group,
        "scope": "Cluster",
        "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
        "versions": versions,
        "conversion": {"strategy": "Webhook", "webhook": hook},
    }
    head = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    with _made(api, head | {"metadata": {"name": f"things.{group}"}, "spec": spec}):
        path = f"/apis/{group}/v1/things"
        thing = {"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": {"name": "one"}}
        with contextlib.suppress(WaitTimeoutError):
            until("the definition to be served", lambda: api.request("POST", path, body=thing), seconds=20)
        with _ended():
            api.request("GET", f"/apis/{group}/v2/things/one", timeout=_SECONDS)
        with _ended():
            api.request("DELETE", f"{path}/one", timeout=_SECONDS)


def extension(api: Api, name: str, address: str, port: int) -> None:
    """An extension server behind a Service with an endpoint made by hand."""
    with _service(api, name, address, port):
        group = f"{name}.example.net"
        spec = {
            "group": group,
            "version": "v1",
            "service": {"name": name, "namespace": SPACE, "port": port},
            "insecureSkipTLSVerify": True,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
        }
        body = {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": f"v1.{group}"},
            "spec": spec,
        }
        with _ended():
            api.request("POST", _REGISTRATION, body=body)
        try:
            _asked(api, f"/apis/{group}/v1")
        finally:
            with _ended():
                api.request("DELETE", f"{_REGISTRATION}/v1.{group}")


def service_proxy(api: Api, name: str, address: str, port: int) -> None:
    """The proxy of a Service with an endpoint made by hand, of a pod whose status says that it has the address."""
    with _pod(api, name), _service(api, name, address, port):
        for _ in range(_TRIES):
            with _ended():
                _says(api, name, address)
                api.request("GET", path_of("Service", SPACE, f"https:{name}:{port}") + "/proxy/", timeout=_SECONDS)


def pod_proxy(api: Api, name: str, address: str, port: int) -> None:
    """The proxy of a pod whose status says that it has the address."""
    with _pod(api, name):
        for _ in range(_TRIES):
            with _ended():
                _says(api, name, address)
                api.request("GET", path_of("Pod", SPACE, f"https:{name}:{port}") + "/proxy/", timeout=_SECONDS)


def node_proxy(api: Api, name: str, address: str, port: int) -> None:
    """The proxy of a node that the tenant makes, and the log of a pod that is bound to it."""
    status = {
        "addresses": [{"type": "InternalIP", "address": address}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}
    spec = {"containers": [{"name": "main", "image": "none"}], "nodeName": name}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": SPACE}, "spec": spec}
    paths = (f"{path_of('Node')}/https:{name}:{port}/proxy/", path_of("Pod", SPACE, name) + "/log")
    with _made(api, node), _made(api, pod):
        for _ in range(_TRIES):
            for path in paths:
                with _ended():
                    api.create(node)  # the syncer removes what is not its own
                with _ended():
                    api.request("GET", path, timeout=_SECONDS, raw=True)


WAYS: Final[Mapping[str, Way]] = {
    "an admission webhook": webhook,
    "an admission webhook by another name": webhook_by_name,
    "a conversion webhook": conversion,
    "an extension server": extension,
    "the proxy of a Service": service_proxy,
    "the proxy of a pod": pod_proxy,
    "the proxy of a node": node_proxy,
}


@contextlib.contextmanager
def _ended() -> Iterator[None]:
    """Whatever the API server answers: the listener is the judge."""
    with contextlib.suppress(ApiError, UnreachableError):
        yield


def _asked(api: Api, path: str) -> None:
    """Ask until the API server knows the endpoint, and the host has it, or does not get it."""

    def probe() -> None:
        try:
            api.request("GET", path, timeout=_SECONDS)
        except ApiError as error:
            # Of what it asked it gives the answer, or 502; 404 and 503 are its own as long as it knows no endpoint.
            expect(error.status not in {404, 503}, error.message)

    with contextlib.suppress(WaitTimeoutError, UnreachableError):
        until(f"{path} to be asked", probe, seconds=12, interval=0.4, patience=1)


@contextlib.contextmanager
def _made(api: Api, obj: Obj) -> Iterator[None]:
    with _ended():
        api.create(obj)
    try:
        yield
    finally:
        with _ended():
            api.delete(obj["kind"], obj["metadata"]["name"], obj["metadata"].get("namespace"), grace=0)


def _pod(api: Api, name: str) -> AbstractContextManager[None]:
    """A pod that no scheduler takes."""
    spec = {"containers": [{"name": "main", "image": "none"}], "schedulerName": "of-the-tenant"}
    return _made(api, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": SPACE}, "spec": spec})


def _says(api: Api, name: str, address: str) -> None:
    status = {"status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}}
    api.patch("Pod", name, status, SPACE, subresource="status")


@contextlib.contextmanager
def _service(api: Api, name: str, address: str, port: int) -> Iterator[None]:
    """A Service without a selector, with this endpoint; a real tenant waits until the syncer has mirrored it."""
    meta: dict[str, Any] = {"name": name, "namespace": SPACE}
    ports: list[Obj] = [{"name": "main", "port": port, "protocol": "TCP"}]
    service = {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"ports": [{"name": "main", "port": port}]}}
    marked = meta | {"labels": {"kubernetes.io/service-name": name}}
    slice_: Obj = {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": marked, "addressType": "IPv4"}
    slice_ |= {"endpoints": [{"addresses": [address], "conditions": {"ready": True}}], "ports": ports}
    endpoints = path_of("ConfigMap", SPACE).removesuffix("configmaps") + "endpoints"
    # An API server proxies to no endpoint but a pod's.
    pod = {"kind": "Pod", "namespace": SPACE, "name": name}
    subsets: list[Obj] = [{"addresses": [{"ip": address, "targetRef": pod}], "ports": ports}]
    with _made(api, service), _made(api, slice_):
        with _ended():
            api.request("POST", endpoints, body={"apiVersion": "v1", "kind": "Endpoints", "metadata": meta, "subsets": subsets})
        yield


@contextlib.contextmanager
def _hooked(api: Api, name: str, client: Obj) -> Iterator[None]:
    hook = {
        "name": f"{name}.example.org",
        "clientConfig": client,
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["limitranges"]}],
        "objectSelector": {"matchLabels": {"way": name}},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "timeoutSeconds": 2,
    }
    head = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name},
    }
    with _made(api, head | {"webhooks": [hook]}):
        yield


def _called(api: Api, name: str) -> None:
    """Create until the webhook is called, which the error shows."""
    meta = {"name": name, "namespace": SPACE, "labels": {"way": name}}
    body = {"apiVersion": "v1", "kind": "LimitRange", "metadata": meta, "spec": {"limits": [{"type": "Pod"}]}}

    def probe() -> None:
        try:
            api.create(body)
        except ApiError as error:
            expect(f"{name}.example.org" in error.message, error.message)
            return
        api.delete("LimitRange", name, SPACE)
        expect(False, "not called yet")

    with contextlib.suppress(WaitTimeoutError, UnreachableError):
        until(f"webhook {name} to be called", probe, seconds=20)
