"""The release and its objects: whole, of one version, and as the chart wrote them. Pure."""

from collections.abc import Iterator
from typing import Final

from bulkhead.api.names import GROUP
from bulkhead.api.untrusted import mapping, mappings, sequence, text
from workstation.doctor.compare import COMPARED, difference
from workstation.doctor.facts import Key, Seen, key_of
from workstation.doctor.release import Release
from workstation.preflight.facts import NotSeenError, Obj, Unseen, known, need
from workstation.preflight.findings import Finding, failed, ok, skipped, warning

POLICY: Final = "ValidatingAdmissionPolicy"
BINDING: Final = "ValidatingAdmissionPolicyBinding"
# Helm applies on the server: without the option it refuses to overwrite a field that another client has changed.
_AGAIN: Final = "run `helm upgrade --force-conflicts` with the same values; it restores what the chart wrote"
# What a client adds to a list whose values are a set stays there: Helm has no field that it could overwrite.
_POLICIES_AGAIN: Final = f"delete a binding whose actions were changed; then {_AGAIN}"
_DEFINITIONS: Final = ("cohorts", "sharedvolumes", "tenantclasses", "tenantrestores", "tenants", "tenantsnapshots")
_VERSION_LABEL: Final = "app.kubernetes.io/version"


def version(seen: Seen) -> Finding:
    """The release, the controller and this command have one version."""
    release: Release = known(seen.release)
    running = sorted(
        {
            text(mapping(mapping(obj.get("metadata")).get("labels")).get(_VERSION_LABEL))
            for obj in need(seen.cluster, "controllers")
        }
    )
    if len(need(seen.cluster, "controllers")) > 1:
        return failed("there are several installations", "uninstall all but one: they share the same definitions")
    if release.status != "deployed":
        cure = "`helm history` says why; `helm rollback` it, or if no revision was deployed, uninstall it and install it again"
        return failed(f"the last revision of the release {release.name} is {release.status}", cure)
    if running and running != [release.version]:
        cure = "run `helm upgrade` again; a Deployment that was edited by hand keeps another version"
        return failed(f"the chart is of {release.version}, the controller of {', '.join(running)}", cure)
    if release.version != seen.client_version:
        cure = "use the command of the chart's version, so that both mean the same"
        return warning(f"the chart is of {release.version}, this command of {seen.client_version}", cure)
    return ok(f"{release.name} {release.version}, revision {release.revision}")


def objects(seen: Seen) -> Finding:
    """No object of the release is missing."""
    release: Release = known(seen.release)
    gone = [words(key) for key, live in seen.live.items() if live is None]
    if gone:
        return failed(f"{len(gone)} of {len(release.objects)} objects of the chart are gone", _AGAIN, gone)
    unread = [f"{words(key)}: {live.reason}" for key, live in seen.live.items() if isinstance(live, Unseen)]
    if len(unread) == len(seen.live):
        raise NotSeenError(unread[0] if unread else "the release has no objects")
    return ok(f"{len(seen.live) - len(unread)} of {len(release.objects)} looked at", *unread)


def policies(seen: Seen) -> Finding:
    """The policies that decide a second time on all that syncers and the controller write."""
    there = {_name(policy) for policy in need(seen.cluster, "admission policies")}
    bindings = need(seen.cluster, "admission bindings")
    wrong = [
        f"{_name(binding)} binds {text(mapping(binding.get('spec')).get('policyName'))}, which is gone"
        for binding in bindings
        if _name(binding).startswith("bulkhead-") and text(mapping(binding.get("spec")).get("policyName")) not in there
    ]
    bound = {text(mapping(binding.get("spec")).get("policyName")) for binding in bindings if _denies(binding)}
    wrong += [f"{name} is bound by nothing that denies" for name in sorted(there - bound) if name.startswith("bulkhead-")]
    if not isinstance(seen.release, Unseen):
        wrong += [change for kind in (POLICY, BINDING) for change in _changed(seen, seen.release, (kind,))]
    if not any(name.startswith("bulkhead-") for name in there):
        wrong.append("no policy of Bulkhead is there")
    if wrong:
        cause = f"{len(wrong)} admission policies are missing, not in force or changed: a hostile tenant may reach the host"
        return failed(cause, _POLICIES_AGAIN, wrong)
    ours = sum(name.startswith("bulkhead-") for name in there)
    compared = "" if isinstance(seen.release, Release) else " (not compared with the chart: Helm's release could not be read)"
    return ok(f"{ours} policies, all bound{compared}")


def rights(seen: Seen) -> Finding:
    """Roles, bindings, NetworkPolicies and seats at the host's API."""
    changed = list(_changed(seen, known(seen.release), tuple(COMPARED - {POLICY, BINDING, "PrometheusRule"})))
    if changed:
        return failed(f"{len(changed)} objects were changed by hand", f"{_AGAIN}; put what you need into the values", changed)
    return ok("as the chart wrote them")


def alerts(seen: Seen) -> Finding:
    """The PrometheusRule, if the values ask for it."""
    release: Release = known(seen.release)
    rules = [obj for obj in release.objects if obj.get("kind") == "PrometheusRule"]
    if not rules:
        return skipped("monitoring is off in the values", "set monitoring.enabled, or load charts/bulkhead/rules/alerts.yaml")
    changed = list(_changed(seen, release, ("PrometheusRule",)))
    if changed:
        return warning("the alerts are not those of the chart", _AGAIN, changed)
    return ok("as the chart wrote them; whether a Prometheus selects them, its page /rules shows")


def definitions(seen: Seen) -> Finding:
    """Definitions are there, accepted, and store only versions that they serve."""
    crds = {_name(crd): crd for crd in need(seen.cluster, "customresourcedefinitions")}
    wrong = [f"{name}.{GROUP} is gone" for name in _DEFINITIONS if f"{name}.{GROUP}" not in crds]
    for name in _DEFINITIONS:
        crd = crds.get(f"{name}.{GROUP}")
        if crd is None:
            continue
        if mapping(crd.get("metadata")).get("deletionTimestamp"):
            wrong.append(f"{name}.{GROUP} is being deleted, with every object of its kind")
        status = mapping(crd.get("status"))
        served = {
            text(version.get("name"))
            for version in mappings(mapping(crd.get("spec")).get("versions"), 16)
            if version.get("served")
        }
        old = sorted(set(map(text, sequence(status.get("storedVersions")))) - served)
        if old:
            wrong.append(f"{name}.{GROUP} has objects stored as {', '.join(old)}, which is not served")
        established = {
            text(condition.get("status"))
            for condition in mappings(status.get("conditions"), 16)
            if condition.get("type") == "Established"
        }
        if established == {"False"}:
            wrong.append(f"{name}.{GROUP} is not established")
    if wrong:
        cure = "restart the controller, which applies its definitions; what is stored in an old version must be written again"
        return failed(f"{len(wrong)} definitions are not as they should be", cure, wrong)
    return ok(f"{len(_DEFINITIONS)} definitions")


def identity(seen: Seen) -> Finding:
    """The Secret that signs planes' records. Only its metadata was read."""
    if need(seen.cluster, "identity"):
        return ok("it is there; that a copy is kept outside of this cluster cannot be seen from here (docs/backup.md)")
    cure = "put the Secret bulkhead-identity back from your backup: without it every Tenant reports IdentityInDoubt"
    return failed("Secret bulkhead-identity is gone", cure)


def _changed(seen: Seen, release: Release, chosen: tuple[str, ...]) -> Iterator[str]:
    """The objects of these kinds that differ from what the chart wrote. What is gone is told by `objects`."""
    for wanted in release.objects:
        if wanted.get("kind") not in chosen:
            continue
        key = key_of(wanted, seen.namespace)
        live = seen.live.get(key, Unseen("it was not read"))
        if live is None:
            yield f"{words(key)} is gone"
        elif not isinstance(live, Unseen) and (path := difference(wanted, live)):
            yield f"{words(key)}: {path} is not what the chart wrote"


def _denies(binding: Obj) -> bool:
    return "Deny" in sequence(mapping(binding.get("spec")).get("validationActions"))


def words(key: Key) -> str:
    """An object in words: ClusterRole bulkhead-login, Deployment bulkhead-system/bulkhead-controller."""
    _, kind, namespace, name = key
    alone = kind.startswith(("Cluster", "Validating", "Priority", "Flow")) or kind == "Namespace"
    return f"{kind} {name}" if alone else f"{kind} {namespace}/{name}"


def _name(obj: Obj) -> str:
    return text(mapping(obj.get("metadata")).get("name"))
