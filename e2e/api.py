"""A small synchronous client for one Kubernetes API server, independent of Bulkhead's own.

It knows only paths and JSON. Each thread has one connection, and every call has a deadline. It retries only a request on an
idle connection that the server had closed. Any other failure here would also be a failure for a tenant.

    kubeconfig file -> Api -> get / list / create / patch / apply / delete / watch
"""

import base64
import contextlib
import http.client
import json
import socket
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import yaml

Obj = dict[str, Any]

# The errors at the next use of an idle connection that the server has closed.
_CLOSED = (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError, ssl.SSLEOFError, ssl.SSLZeroReturnError)

# A tenant's certificate is valid for one hour.
_GOOD_SECONDS = 40 * 60.0

# kind -> (path prefix, plural, namespaced), for the kinds that the end-to-end tests use.
KINDS: Final[Mapping[str, tuple[str, str, bool]]] = {
    "Namespace": ("/api/v1", "namespaces", False),
    "Node": ("/api/v1", "nodes", False),
    "PersistentVolume": ("/api/v1", "persistentvolumes", False),
    "Pod": ("/api/v1", "pods", True),
    "ConfigMap": ("/api/v1", "configmaps", True),
    "Secret": ("/api/v1", "secrets", True),
    "Service": ("/api/v1", "services", True),
    "ServiceAccount": ("/api/v1", "serviceaccounts", True),
    "Event": ("/api/v1", "events", True),
    "ResourceQuota": ("/api/v1", "resourcequotas", True),
    "LimitRange": ("/api/v1", "limitranges", True),
    "PersistentVolumeClaim": ("/api/v1", "persistentvolumeclaims", True),
    "EndpointSlice": ("/apis/discovery.k8s.io/v1", "endpointslices", True),
    "Deployment": ("/apis/apps/v1", "deployments", True),
    "DaemonSet": ("/apis/apps/v1", "daemonsets", True),
    "StatefulSet": ("/apis/apps/v1", "statefulsets", True),
    "HorizontalPodAutoscaler": ("/apis/autoscaling/v2", "horizontalpodautoscalers", True),
    "Job": ("/apis/batch/v1", "jobs", True),
    "NetworkPolicy": ("/apis/networking.k8s.io/v1", "networkpolicies", True),
    "ServiceCIDR": ("/apis/networking.k8s.io/v1", "servicecidrs", False),
    "PodDisruptionBudget": ("/apis/policy/v1", "poddisruptionbudgets", True),
    "Role": ("/apis/rbac.authorization.k8s.io/v1", "roles", True),
    "RoleBinding": ("/apis/rbac.authorization.k8s.io/v1", "rolebindings", True),
    "ClusterRole": ("/apis/rbac.authorization.k8s.io/v1", "clusterroles", False),
    "ClusterRoleBinding": ("/apis/rbac.authorization.k8s.io/v1", "clusterrolebindings", False),
    "Lease": ("/apis/coordination.k8s.io/v1", "leases", True),
    "DeviceClass": ("/apis/resource.k8s.io/v1", "deviceclasses", False),
    "ResourceClaim": ("/apis/resource.k8s.io/v1", "resourceclaims", True),
    "ResourceClaimTemplate": ("/apis/resource.k8s.io/v1", "resourceclaimtemplates", True),
    "ResourceSlice": ("/apis/resource.k8s.io/v1", "resourceslices", False),
    "PriorityClass": ("/apis/scheduling.k8s.io/v1", "priorityclasses", False),
    "RuntimeClass": ("/apis/node.k8s.io/v1", "runtimeclasses", False),
    "PodGroup": ("/apis/scheduling.k8s.io/v1alpha2", "podgroups", True),
    "CustomResourceDefinition": ("/apis/apiextensions.k8s.io/v1", "customresourcedefinitions", False),
    "ValidatingWebhookConfiguration": (
        "/apis/admissionregistration.k8s.io/v1",
        "validatingwebhookconfigurations",
        False,
    ),
    "MutatingAdmissionPolicy": ("/apis/admissionregistration.k8s.io/v1", "mutatingadmissionpolicies", False),
    "Tenant": ("/apis/bulkhead.dev/v1alpha1", "tenants", False),
    "TenantClass": ("/apis/bulkhead.dev/v1alpha1", "tenantclasses", False),
    "Cohort": ("/apis/bulkhead.dev/v1alpha1", "cohorts", False),
    "TenantSnapshot": ("/apis/bulkhead.dev/v1alpha1", "tenantsnapshots", False),
    "TenantRestore": ("/apis/bulkhead.dev/v1alpha1", "tenantrestores", False),
    "NodeSet": ("/apis/slurm.bulkhead.dev/v1alpha1", "nodesets", True),
    "SharedVolume": ("/apis/bulkhead.dev/v1alpha1", "sharedvolumes", False),
}


class ApiError(Exception):
    """The API server answered with an error status."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message

    @property
    def is_startup_refusal(self) -> bool:
        """A plane that just started may refuse an admin for a moment, until it has loaded its RBAC objects."""
        return self.status == 403 and ("RBAC" in self.message or 'User "bulkhead:host:' in self.message)


class UnreachableError(Exception):
    """No answer came: refused, timed out, or cut off."""


def path_of(kind: str, namespace: str | None = None, name: str | None = None) -> str:
    """The URL path of a collection, or of one object; no namespace means all of them."""
    prefix, plural, namespaced = KINDS[kind]
    path = f"{prefix}/namespaces/{namespace}/{plural}" if namespaced and namespace else f"{prefix}/{plural}"
    return f"{path}/{name}" if name else path


class _Connection(http.client.HTTPSConnection):
    """An HTTPS connection whose certificate is checked against a given name."""

    def __init__(self, host: str, port: int, *, context: ssl.SSLContext, name: str, timeout: float) -> None:
        super().__init__(host, port, context=context, timeout=timeout)
        self._tls = context
        self._name = name

    def connect(self) -> None:
        raw = socket.create_connection((self.host, self.port), self.timeout)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self.sock = self._tls.wrap_socket(raw, server_hostname=self._name)
        except BaseException:
            raw.close()
            raise

    def __del__(self) -> None:
        # An API keeps one connection for each thread. A thread ends without closing it, and so does the test that made the API.
        self.close()


class Api:
    """One API server, reached with the first context of a kubeconfig."""

    def __init__(self, kubeconfig: Path, *, timeout: float = 15.0, renew: Callable[[], None] | None = None) -> None:
        """`renew` writes the file again, with a certificate that is valid for one hour."""
        self._file = kubeconfig
        self._renew = renew
        self._loaded = time.monotonic()
        self._renewing = threading.Lock()
        self.timeout = timeout
        config = yaml.safe_load(kubeconfig.read_text())
        cluster = config["clusters"][0]["cluster"]
        self._user = config["users"][0]["user"]
        url = urlsplit(cluster["server"])
        if url.hostname is None:
            raise ValueError(f"kubeconfig {kubeconfig}: server {cluster['server']!r} has no host")
        self.host = url.hostname
        self.port = url.port or 443
        self._name = cluster.get("tls-server-name") or self.host
        self._context = _tls_context(cluster, self._user)
        self._local = threading.local()
        self._user_asked = ""

    def impersonating(self, user: str) -> "Api":
        """The same API server, which answers as it would answer this user; only an admin may ask so."""
        other = Api(self._file, timeout=self.timeout, renew=self._renew)
        other._user_asked = user
        return other

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig file, with a certificate that is valid for at least 20 minutes."""
        self._keep_good()
        return self._file

    def get(self, kind: str, name: str, namespace: str | None = None) -> Obj:
        return self._object(self.request("GET", path_of(kind, namespace, name)))

    def find(self, kind: str, name: str, namespace: str | None = None) -> Obj | None:
        """The object, or None when it is not there."""
        try:
            return self.get(kind, name, namespace)
        except ApiError as exc:
            if exc.status == 404:
                return None
            raise

    def snapshot(self, kind: str, namespace: str | None = None, *, labels: str = "", fields: str = "") -> tuple[list[Obj], str]:
        """The objects, and their resource version: a watch from this version neither misses nor repeats a change."""
        query = {key: value for key, value in (("labelSelector", labels), ("fieldSelector", fields)) if value}
        items: list[Obj] = []
        while True:
            page = self._object(self.request("GET", path_of(kind, namespace), query=query | {"limit": "500"}))
            items += page.get("items") or []
            metadata = page.get("metadata", {})
            if not (token := metadata.get("continue")):
                return items, str(metadata.get("resourceVersion", ""))
            query = query | {"continue": token}

    def list(self, kind: str, namespace: str | None = None, *, labels: str = "", fields: str = "") -> list[Obj]:
        return self.snapshot(kind, namespace, labels=labels, fields=fields)[0]

    def create(self, obj: Obj, namespace: str | None = None) -> Obj:
        space = namespace or obj["metadata"].get("namespace")
        return self._object(self.request("POST", path_of(obj["kind"], space), body=obj))

    def patch(self, kind: str, name: str, body: Obj, namespace: str | None = None, *, subresource: str = "") -> Obj:
        path = path_of(kind, namespace, name) + (f"/{subresource}" if subresource else "")
        return self._object(self.request("PATCH", path, body=body, content_type="application/merge-patch+json"))

    def apply(self, obj: Obj) -> Obj:
        path = path_of(obj["kind"], obj["metadata"].get("namespace"), obj["metadata"]["name"])
        query = {"fieldManager": "bulkhead-e2e", "force": "true"}
        return self._object(self.request("PATCH", path, body=obj, query=query, content_type="application/apply-patch+yaml"))

    def delete(self, kind: str, name: str, namespace: str | None = None, *, grace: int | None = None) -> bool:
        """Ask for deletion; False when it was not there."""
        body: Obj = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        if grace is not None:
            body["gracePeriodSeconds"] = grace
        try:
            self.request("DELETE", path_of(kind, namespace, name), body=body)
        except ApiError as exc:
            if exc.status == 404:
                return False
            raise
        return True

    def token(self, account: str, namespace: str, *, seconds: int = 600) -> str:
        spec = {"expirationSeconds": seconds}
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        answer = self._object(self.request("POST", path_of("ServiceAccount", namespace, account) + "/token", body=body))
        return str(answer["status"]["token"])

    def text(self, path: str, query: Mapping[str, str] | None = None) -> str:
        answer = self.request("GET", path, query=query, raw=True)
        return answer if isinstance(answer, str) else json.dumps(answer)

    def ready(self) -> bool:
        try:
            return self.text("/readyz") == "ok"
        except (ApiError, UnreachableError):
            return False

    def request(
        self,
        method: str,
        path: str,
        *,
        body: Obj | None = None,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        raw: bool = False,
        timeout: float | None = None,
    ) -> Obj | str:
        """One call. Raises `ApiError` for an error status, and `UnreachableError` if no answer comes within the deadline."""
        target = f"{path}?{urlencode(query)}" if query else path
        payload = None if body is None else json.dumps(body).encode()
        headers = self._headers() | ({} if body is None else {"Content-Type": content_type})
        for fresh in (False, True):
            connection, reused = self._connection(fresh=fresh, timeout=timeout or self.timeout)
            try:
                connection.request(method, target, body=payload, headers=headers)
                response = connection.getresponse()
                data = response.read()
            except _CLOSED as exc:
                self._drop()
                if reused and not fresh:
                    continue  # an idle connection that the server had closed says nothing about the server
                raise UnreachableError(f"{method} {path}: {type(exc).__name__}: {exc}") from exc
            except (OSError, http.client.HTTPException) as exc:
                self._drop()
                raise UnreachableError(f"{method} {path}: {type(exc).__name__}: {exc}") from exc
            return _answer(response.status, data, raw=raw)
        raise UnreachableError(f"{method} {path}: the connection was closed twice")

    def watch(
        self, kind: str, namespace: str | None = None, *, version: str, seconds: float, labels: str = ""
    ) -> Iterator[Obj]:
        """The events of one watch, at most `seconds` long, on a connection of its own."""
        query = {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": version}
        query |= {"timeoutSeconds": str(max(1, int(seconds)))}
        if labels:
            query["labelSelector"] = labels
        connection = self.connect(timeout=seconds + 5.0)
        deadline = time.monotonic() + seconds
        try:
            connection.request("GET", f"{path_of(kind, namespace)}?{urlencode(query)}", headers=self._headers())
            response = connection.getresponse()
            if response.status != 200:
                _answer(response.status, response.read(), raw=False)
            while time.monotonic() < deadline:
                line = response.readline()
                if not line:
                    return
                yield json.loads(line)
        except (OSError, http.client.HTTPException) as exc:
            raise UnreachableError(f"watch {kind}: {type(exc).__name__}: {exc}") from exc
        finally:
            connection.close()

    def connect(self, *, timeout: float) -> http.client.HTTPSConnection:
        """A new connection with the client certificate, for protocols that this class does not implement."""
        self._keep_good()
        return self._open(timeout=timeout)

    def collection_version(self, kind: str, namespace: str | None = None) -> str:
        page = self._object(self.request("GET", path_of(kind, namespace), query={"limit": "1"}))
        return str(page["metadata"]["resourceVersion"])

    def _keep_good(self) -> None:
        with self._renewing:
            if self._renew is None or time.monotonic() < self._loaded + _GOOD_SECONDS:
                return
            self._renew()
            config = yaml.safe_load(self._file.read_text())
            self._context = _tls_context(config["clusters"][0]["cluster"], config["users"][0]["user"])
            self._local = threading.local()
            self._loaded = time.monotonic()

    def _headers(self) -> dict[str, str]:
        headers = {"Accept": "application/json", "User-Agent": "bulkhead-e2e"}
        if token := self._user.get("token"):
            headers["Authorization"] = f"Bearer {token}"
        if self._user_asked:
            headers["Impersonate-User"] = self._user_asked  # for a ServiceAccount the server adds its groups
        return headers

    def _open(self, *, timeout: float) -> _Connection:
        return _Connection(self.host, self.port, context=self._context, name=self._name, timeout=timeout)

    def _connection(self, *, fresh: bool, timeout: float) -> tuple[_Connection, bool]:
        self._keep_good()
        held: _Connection | None = getattr(self._local, "connection", None)
        if held is None or fresh:
            self._drop()
            held = self._open(timeout=timeout)
            self._local.connection = held
            return held, False
        held.timeout = timeout
        if held.sock is not None:
            held.sock.settimeout(timeout)
        return held, True

    def _drop(self) -> None:
        held: _Connection | None = getattr(self._local, "connection", None)
        if held is not None:
            with contextlib.suppress(OSError):
                held.close()
        self._local.connection = None

    @staticmethod
    def _object(answer: Obj | str) -> Obj:
        if isinstance(answer, str):
            raise UnreachableError(f"expected an object, got text: {answer[:200]}")
        return answer


def _answer(status: int, data: bytes, *, raw: bool) -> Obj | str:
    text = data.decode("utf-8", "replace")
    if status < 300 and raw:
        return text
    try:
        decoded: Any = json.loads(text)
    except ValueError:
        decoded = None
    if status < 300:
        return decoded if isinstance(decoded, dict) else text
    if isinstance(decoded, dict):
        raise ApiError(status, str(decoded.get("reason") or "Unknown"), str(decoded.get("message") or text[:500]))
    raise ApiError(status, "Unknown", text[:500])


def _tls_context(cluster: Mapping[str, Any], user: Mapping[str, Any]) -> ssl.SSLContext:
    """A context that trusts only the cluster's CA, and presents the user's certificate if there is one."""
    authority = _bytes(cluster, "certificate-authority").decode()
    context = ssl.create_default_context(cadata=authority)
    certificate = _bytes(user, "client-certificate")
    if certificate:
        with tempfile.NamedTemporaryFile(prefix="bulkhead-e2e-") as bundle:  # the ssl module loads from files only
            bundle.write(certificate + b"\n" + _bytes(user, "client-key"))
            bundle.flush()
            context.load_cert_chain(bundle.name)
    return context


def _bytes(section: Mapping[str, Any], key: str) -> bytes:
    if data := section.get(f"{key}-data"):
        return base64.b64decode(data)
    if path := section.get(key):
        return Path(path).read_bytes()
    return b""
