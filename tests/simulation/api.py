"""The verbs of an API server over a `Store`: create, read, list, replace, patch, delete, with the checks that matter here.

    request(method, path, params, body, …) ──> Route ──> verb ──> Answer(status, body)      one call is one atomic step

What differs from kind to kind (defaults, graceful deletion, subresources, admission) stands in `kinds`. Watches are read from
the store's history by `wire`. `docs/decisions/0015-simulation.md` says how it is compared with a real API server.
"""

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from bulkhead.api.objects import Obj
from bulkhead.kube.objects import Key, Resource, key_of
from bulkhead.kube.resources import NAMESPACES, PODS, all_resources
from tests.simulation import merging
from tests.simulation.store import Store, copied, kind_of
from tests.simulation.virtualtime import stamp

_BY_PLURAL = {(each.group, each.version, each.plural): each for each in all_resources()}
_CONTENT_TYPES: Mapping[str, Callable[[Any, Any], Any]] = {
    "application/merge-patch+json": merging.merge,
    "application/strategic-merge-patch+json": merging.strategic,
}
# Empty, these are not stored.
_EMPTIED = ("labels", "annotations", "ownerReferences", "finalizers")


class Refused(Exception):  # noqa: N818 -- reads as what the server does
    """An answer with an error status."""

    def __init__(self, status: int, reason: str, message: str, *, cause: str = "", field: str = "", name: str = "") -> None:
        super().__init__(message)
        self.name = name
        self.status, self.reason, self.message, self.cause, self.field = status, reason, message, cause, field

    def body(self) -> Obj:
        details: Obj = {"causes": [{"reason": self.cause, "field": self.field}]} if self.cause else {}
        # What is missing is named; without a name it is the kind that is not served.
        details |= {"name": self.name} if self.name else {}
        return {
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": self.message,
            "reason": self.reason, "code": self.status, "details": details,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Answer:
    """What goes back over the wire."""

    status: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Route:
    """Where a path leads."""

    r: Resource
    namespace: str | None = None
    name: str | None = None
    subresource: str | None = None

    @property
    def key(self) -> Key:
        return Key(self.namespace or "", self.name or "")


@dataclass(frozen=True, slots=True)
class Call:
    """One request, decoded."""

    method: str
    route: Route
    params: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    content_type: str = "application/json"
    accept: str = "application/json"
    user: str = "admin"


def route(path: str) -> Route:
    """Read a path of the API."""
    parts = path.strip("/").split("/")
    group, version, rest = ("", parts[1], parts[2:]) if parts[0] == "api" else (parts[1], parts[2], parts[3:])
    namespace = None
    if rest[0] == "namespaces" and len(rest) >= 3 and (group, version, rest[2]) in _BY_PLURAL:
        namespace, rest = rest[1], rest[2:]
    r = _BY_PLURAL[group, version, rest[0]]
    return Route(r, namespace, rest[1] if len(rest) > 1 else None, "/".join(rest[2:]) or None)


class Api:
    """One API server."""

    def __init__(self, name: str, now: Callable[[], float]) -> None:
        from tests.simulation import kinds

        self.name = name
        self.now = now
        self.store = Store(now)
        # Open watches, broken when the server goes away.
        self.breaks: list[Callable[[], None]] = []
        self._rules = kinds.Rules(self)
        self._uids = 0
        self._suffixes = 0

    # -- for the tests and the actors: calls that never fail on the way

    def do(self, method: str, r: Resource, body: Any = None, *, user: str = "admin", **more: Any) -> Obj:
        """Make a call as this user; a refusal is raised."""
        meta = (body or {}).get("metadata") or {} if isinstance(body, dict) else {}
        namespace = more.pop("namespace", None) or meta.get("namespace")
        name = more.pop("name", None) or (meta.get("name") if method != "POST" else None)
        where = Route(r, namespace if r.namespaced else None, name, more.pop("subresource", None))
        found: Obj = self.verb(Call(method, where, body=body, user=user, **more))
        return found

    def get(self, r: Resource, name: str, namespace: str = "") -> Obj | None:
        found = self.store.get(r, Key(namespace, name))
        return None if found is None else copied(found)

    # -- the wire's way in

    def answer(self, call: Call) -> Answer:
        """Make a call and put what comes of it into bytes."""
        try:
            found = self.verb(call)
        except Refused as refused:
            return Answer(refused.status, msgspec.json.encode(refused.body()))
        return Answer(201 if call.method == "POST" else 200, msgspec.json.encode(found))

    def verb(self, call: Call) -> Obj:
        """One call, one step."""
        where = call.route
        if call.method == "GET":
            return self._list(call) if where.name is None else self._read(call)
        if call.method == "POST":
            if where.subresource:
                return self._rules.subresource(call, self._held(where))
            return self._create(call)
        if call.method == "PUT":
            return self._update(call, lambda _held: copied(call.body))
        if call.method == "PATCH":
            return self._patch(call)
        return self._delete(call)

    def uid(self) -> str:
        """A UID that never was."""
        self._uids += 1
        return f"{self.name}-{self._uids:08d}"

    # -- reading

    def _held(self, where: Route) -> Obj:
        held = self.store.get(where.r, where.key)
        if held is None:
            raise Refused(404, "NotFound", f'{where.r} "{where.name}" not found', name=where.name)
        return held

    def _read(self, call: Call) -> Obj:
        return self._held(call.route)

    def _list(self, call: Call) -> Obj:
        r, params = call.route.r, call.params
        version, after = self.store.version, None
        if params.get("continue"):
            token = json.loads(base64.b64decode(params["continue"]))
            version, after = token["version"], Key(*token["after"])
            if version < self.store.compacted:
                raise Refused(410, "Expired", "The provided continue parameter is too old")
        elif params.get("resourceVersion"):
            version = int(params["resourceVersion"])
        kind, namespace = kind_of(r), call.route.namespace
        past = version != self.store.version
        found = self.store.at(kind, version, namespace) if past else self.store.all_of(kind, namespace)
        chosen = [each for each in found if selected(each, params) and (after is None or key_of(each) > after)]
        limit = int(params.get("limit") or 0) or len(chosen)
        page, rest = chosen[:limit], chosen[limit:]
        meta: Obj = {"resourceVersion": str(version)}
        if rest:
            token = json.dumps({"version": version, "after": list(key_of(page[-1]))})
            meta["continue"] = base64.b64encode(token.encode()).decode()
        lean = "PartialObjectMetadata" in call.accept
        items = [shown(r, each, lean=lean, typed=False) for each in page]
        return {"kind": f"{r.kind}List", "apiVersion": r.api_version, "metadata": meta, "items": items}

    # -- writing

    def _create(self, call: Call) -> Obj:
        where, body = call.route, copied(call.body)
        meta = body.setdefault("metadata", {})
        if where.r.namespaced and meta.setdefault("namespace", where.namespace) != where.namespace:
            raise Refused(400, "BadRequest", "the namespace of the object does not match the namespace of the request")
        if meta.get("resourceVersion"):
            raise Refused(400, "BadRequest", "resourceVersion should not be set on objects to be created")
        if not meta.get("name") and meta.get("generateName"):
            self._suffixes += 1
            meta["name"] = f"{meta['generateName']}{self._suffixes:05d}"
        if not meta.get("name"):
            raise Refused(422, "Invalid", "name or generateName is required")
        self._check_space(where)
        body |= {"apiVersion": where.r.api_version, "kind": where.r.kind}
        for gone in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
            meta.pop(gone, None)
        for empty in _EMPTIED:
            if not meta.get(empty):
                meta.pop(empty, None)
        meta |= {"uid": self.uid(), "creationTimestamp": stamp(self.now())}
        # Admission comes before the storage: a quota refuses a pod whose name is taken as well.
        self._rules.prepare(where.r, body)
        if self.store.get(where.r, key_of(body)) is not None:
            self._rules.undo(where.r, body)
            raise Refused(409, "AlreadyExists", f'{where.r} "{meta["name"]}" already exists')
        return self.store.put(where.r, body, call.user)

    def _check_space(self, where: Route) -> None:
        if not where.r.namespaced:
            return
        space = self.store.get(NAMESPACES, Key("", where.namespace or ""))
        if space is None:
            raise Refused(404, "NotFound", f'namespaces "{where.namespace}" not found', name=where.namespace)
        if space["metadata"].get("deletionTimestamp"):
            message = f"unable to create new content in namespace {where.namespace} because it is being terminated"
            raise Refused(403, "Forbidden", message, cause="NamespaceTerminating")

    def _patch(self, call: Call) -> Obj:
        apply = _CONTENT_TYPES.get(call.content_type)
        if apply is None:
            raise Refused(415, "UnsupportedMediaType", call.content_type)
        return self._update(call, lambda held: apply(held, call.body))

    def _update(self, call: Call, change: Callable[[Obj], Obj]) -> Obj:
        where = call.route
        held = self._held(where)
        news = change(copied(held))
        meta, old = news.setdefault("metadata", {}), held["metadata"]
        self._check_preconditions(where, meta, old, patch=call.method == "PATCH")
        if meta.get("name", old["name"]) != old["name"]:
            raise Refused(400, "BadRequest", "the name of the object does not match the name on the URL")
        for fixed in ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds",
                      "resourceVersion", "generation", "generateName"):  # fmt: skip
            if fixed in old:
                meta[fixed] = old[fixed]
            else:
                meta.pop(fixed, None)
        for empty in _EMPTIED:
            if not meta.get(empty):
                meta.pop(empty, None)
        news |= {"apiVersion": held["apiVersion"], "kind": held["kind"]}
        self._rules.updated(where, held, news)
        if news == held:
            return held
        if finished(news):
            # The last finalizer is removed: one commit deletes the object, and its watches receive its last state.
            final = self._removed(where, call.user)
            news["metadata"]["resourceVersion"] = final["metadata"]["resourceVersion"]
            return news
        return self.store.put(where.r, news, call.user)

    def _check_preconditions(self, where: Route, meta: Mapping[str, Any], old: Mapping[str, Any], *, patch: bool) -> None:
        text = f'Operation cannot be fulfilled on {where.r} "{old["name"]}": '
        changed = f"{text}the object has been modified; please apply your changes to the latest version"
        stale = meta.get("resourceVersion") and meta["resourceVersion"] != old["resourceVersion"]
        if meta.get("uid") and meta["uid"] != old["uid"]:
            # A patch that names another UID is an attempt to change it, unless its version says that it came too late.
            if patch and not stale:
                text = f'{where.r.kind} "{old["name"]}" is invalid: metadata.uid: field is immutable'
                raise Refused(422, "Invalid", text, cause="FieldValueInvalid", field="metadata.uid")
            raise Refused(409, "Conflict", f"{text}Precondition failed: UID in precondition: {meta['uid']}")
        if stale:
            raise Refused(409, "Conflict", changed)

    # -- deleting

    def _delete(self, call: Call) -> Obj:
        where, options = call.route, call.body or {}
        held = self._held(where)
        demands = options.get("preconditions") or {}
        for name, found in (("uid", held["metadata"]["uid"]), ("resourceVersion", held["metadata"]["resourceVersion"])):
            if demands.get(name) and demands[name] != found:
                text = f'Operation cannot be fulfilled on {where.r} "{where.name}": Precondition failed: {name}'
                raise Refused(409, "Conflict", text)
        if where.r == PODS:
            return self._delete_pod(call, held, options.get("gracePeriodSeconds"))
        if where.r == NAMESPACES or held["metadata"].get("finalizers"):
            if held["metadata"].get("deletionTimestamp"):
                return held
            dying = copied(held)
            dying["metadata"]["deletionTimestamp"] = stamp(self.now())
            if where.r == NAMESPACES:
                dying["status"] = {"phase": "Terminating"}
            else:
                dying["metadata"]["deletionGracePeriodSeconds"] = 0
            return self.store.put(where.r, dying, call.user)
        final = self._removed(where, call.user)
        if self._rules.answers_with_object(where.r):
            return final
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}

    def _delete_pod(self, call: Call, held: Obj, asked: int | None) -> Obj:
        where, meta = call.route, held["metadata"]
        if meta.get("deletionTimestamp"):
            left = meta.get("deletionGracePeriodSeconds")
            if left is None or asked is None or asked >= left:
                return self._removed(where, call.user) if left is None and not meta.get("finalizers") else held
            grace = asked
        else:
            grace = self._rules.grace(held, asked)
        dying = copied(held)
        if not meta.get("deletionTimestamp") and meta.get("generation"):
            dying["metadata"]["generation"] = meta["generation"] + 1
        dying["metadata"] |= {"deletionTimestamp": stamp(self.now() + grace), "deletionGracePeriodSeconds": grace}
        stored = self.store.put(PODS, dying, call.user)
        return self._removed(where, call.user) if finished(stored) else stored

    def _removed(self, where: Route, user: str) -> Obj:
        final = self.store.remove(where.r, where.key, user)
        self._rules.undo(where.r, final)
        return final


def finished(obj: Obj) -> bool:
    """Whether an object that is being deleted has nothing left to wait for."""
    meta = obj["metadata"]
    return bool(meta.get("deletionTimestamp")) and not meta.get("finalizers") and meta.get("deletionGracePeriodSeconds") == 0


def selected(obj: Obj, params: Mapping[str, str]) -> bool:
    """Label and field selectors of equalities, and of labels that are not there."""
    labels = obj["metadata"].get("labels") or {}
    for term in filter(None, (params.get("labelSelector") or "").split(",")):
        key, _, value = term.partition("=")
        if term.startswith("!"):
            if term[1:] in labels:
                return False
        elif labels.get(key) != value.lstrip("="):
            return False
    for term in filter(None, (params.get("fieldSelector") or "").split(",")):
        path, _, value = term.partition("=")
        found: Any = obj
        for part in path.split("."):
            found = found.get(part) if isinstance(found, dict) else None
        if (found or "") != value:
            return False
    return True


def shown(r: Resource, obj: Obj, *, lean: bool, typed: bool = True) -> Obj:
    """An object as an answer carries it: whole, or its metadata alone; items of a list without their type."""
    if lean:
        return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}
    if typed:
        return obj
    return {key: value for key, value in obj.items() if key not in {"apiVersion", "kind"}}
