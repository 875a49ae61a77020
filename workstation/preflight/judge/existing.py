"""What exists already: an installation, leftovers of one, other vendors' webhooks, limits of the release namespace. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

import bulkhead
from bulkhead.api import labels as marks
from bulkhead.api.names import GROUP
from bulkhead.api.untrusted import mapping, mappings, sequence, text
from workstation.preflight.facts import Obj, Observed, Unseen, need
from workstation.preflight.findings import Finding, failed, ok, warning
from workstation.preflight.values import Values

# A tenant's namespaces as the controller creates them, to match webhooks' selectors.
_TENANT = "bh-example"
_NAMESPACES: tuple[Mapping[str, str], ...] = (
    {"kubernetes.io/metadata.name": _TENANT, "bulkhead.dev/namespace": "plane"} | marks.made_for("example"),
    {"kubernetes.io/metadata.name": f"{_TENANT}-work", "bulkhead.dev/namespace": "work"} | marks.made_for("example"),
)
# The objects that Bulkhead writes there.
_WRITTEN = {
    ("", "pods"), ("", "services"), ("", "configmaps"), ("", "secrets"), ("", "persistentvolumeclaims"),
    ("", "serviceaccounts"), ("apps", "statefulsets"), ("apps", "deployments"), ("networking.k8s.io", "networkpolicies"),
    ("discovery.k8s.io", "endpointslices"),
}  # fmt: skip


def installation(observed: Observed, _values: Values) -> Finding:
    """No installation, or a complete one; CRDs or policies without a controller are leftovers."""
    crds = [_name(crd) for crd in need(observed, "customresourcedefinitions") if _name(crd).endswith(f".{GROUP}")]
    controllers = list(_seen(observed, "controllers"))
    policies = [_name(policy) for policy in _seen(observed, "admission policies") if _is_ours(policy)]
    hooks = [
        f"{_name(each)} (webhook)" for kind in ("validating webhooks", "mutating webhooks") for each in _seen(observed, kind)
        if _is_ours(each)
    ]  # fmt: skip
    if controllers:
        where = ", ".join(
            f"{_namespace(each)}: {_label(each, 'app.kubernetes.io/version') or 'unknown'}" for each in controllers
        )
        if len(controllers) > 1:
            return failed(
                f"there are {len(controllers)} installations: {where}", "uninstall all but one: they share the same CRDs"
            )
        if hooks:
            cure = "delete these webhook configurations: this version has none, and no service answers them"
            return warning("there is an installation, with webhooks of another version", cure, hooks)
        if (other := _namespace(controllers[0])) != observed.namespace:
            cure = f"upgrade that one (`preflight --namespace {other}`), or uninstall it first"
            return failed(f"there is an installation in another namespace ({where})", cure)
        return ok(f"already installed ({where}): this would upgrade it to {bulkhead.__version__}")
    remains = [*crds, *policies, *hooks]
    return _leftovers(observed, remains) if remains else ok("Bulkhead is not installed")


def _leftovers(observed: Observed, remains: list[str]) -> Finding:
    owners = {_owner(policy) for policy in _seen(observed, "admission policies") if _is_ours(policy)} - {("", "")}
    others = sorted(f"{name} in {there}" for name, there in owners if there != observed.namespace)
    if others:
        return failed(
            f"there are leftovers of another release ({', '.join(others)}), which helm does not hand over to a new one",
            "install with the name and namespace of that release, or delete them; deleting the CRDs deletes every Tenant",
            remains,
        )
    return warning(
        "there are leftovers of an installation, and no controller",
        "install the version that left them, or delete them; deleting the CRDs deletes every Tenant",
        remains,
    )


def namespace(observed: Observed, _values: Values) -> Finding:
    """Limits and defaults of the release namespace, if it exists."""
    name = observed.namespace
    there = [namespace for namespace in need(observed, "namespaces") if _name(namespace) == name]
    if not there:
        return ok(f"{name} does not exist yet")
    if mapping(there[0].get("metadata")).get("deletionTimestamp"):
        return failed(f"{name} is being deleted", "wait until it is gone")
    told = [f"LimitRange {_name(limits)}: sets its own limits for the controller" for limits in _seen(observed, "limitranges")]
    told += [f"ResourceQuota {_name(quota)}: {_hard(quota)}" for quota in _seen(observed, "resourcequotas") if _hard(quota)]
    if told:
        cure = "make sure that the controller fits (50m CPU, 512Mi memory for each replica), or use a namespace without limits"
        return warning(f"{name} has limits", cure, told)
    level = _label(there[0], "pod-security.kubernetes.io/enforce") or "not set"
    return ok(f"{name}: no limits, Pod Security level {level}")


def webhooks(observed: Observed, _values: Values) -> Finding:
    """Webhooks with failurePolicy Fail that are called for what Bulkhead writes into its namespaces."""
    told = []
    for kind in ("validating webhooks", "mutating webhooks"):
        for each in need(observed, kind):
            told += [
                f"{_name(each)}: {text(hook.get('name'))}" for hook in mappings(each.get("webhooks"), 64)
                if _meets(hook, observed.namespace)
            ]  # fmt: skip
    if told:
        return warning(
            f"{len(told)} webhooks with failurePolicy Fail are called for objects in Bulkhead's namespaces",
            "exclude these namespaces by namespaceSelector (bulkhead.dev/tenant DoesNotExist), or make sure that the webhook "
            "always answers: while it does not, no tenant's pod starts; hostMetadataDomains must allow what it adds to pods",
            told,
        )
    return ok("none")


def _meets(hook: Mapping[str, Any], release: str) -> bool:
    if text(hook.get("failurePolicy")) not in {"", "Fail"} or not any(_rule(rule) for rule in mappings(hook.get("rules"), 64)):
        return False
    namespaces = ({"kubernetes.io/metadata.name": release}, *_NAMESPACES)
    return any(selects(mapping(hook.get("namespaceSelector")), labels) for labels in namespaces)


def _rule(rule: Mapping[str, Any]) -> bool:
    groups, resources = (
        {text(word) for word in sequence(rule.get(name))[:64]} for name in ("apiGroups", "resources")
    )  # fmt: skip
    if text(rule.get("scope")) == "Cluster" or not {"CREATE", "UPDATE", "*"} & set(map(text, sequence(rule.get("operations")))):
        return False
    return any(groups & {group, "*"} and resources & {name, "*", "*/*"} for group, name in _WRITTEN)


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether a label selector matches; an empty one matches everything."""
    if any(labels.get(str(key)) != value for key, value in mapping(selector.get("matchLabels")).items()):
        return False
    return all(_holds(expression, labels) for expression in mappings(selector.get("matchExpressions"), 64))


def _holds(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, values = text(expression.get("key")), sequence(expression.get("values"))
    match text(expression.get("operator")):
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
    return False


def _hard(quota: Obj) -> str:
    return ", ".join(f"{key}={value}" for key, value in list(mapping(mapping(quota.get("spec")).get("hard")).items())[:6])


def _owner(obj: Obj) -> tuple[str, str]:
    """The name and namespace of the release of Helm to which an object belongs."""
    notes = mapping(mapping(obj.get("metadata")).get("annotations"))
    return text(notes.get("meta.helm.sh/release-name")), text(notes.get("meta.helm.sh/release-namespace"))


def _is_ours(obj: Obj) -> bool:
    return _name(obj).startswith("bulkhead-") or _name(obj).endswith(f".{GROUP}")


def _seen(observed: Observed, name: str) -> Iterator[Obj]:
    found = observed.lists.get(name, ())
    yield from (() if isinstance(found, Unseen) else found)


def _name(obj: Obj) -> str:
    return text(mapping(obj.get("metadata")).get("name"))


def _namespace(obj: Obj) -> str:
    return text(mapping(obj.get("metadata")).get("namespace"))


def _label(obj: Obj, key: str) -> str:
    return text(mapping(mapping(obj.get("metadata")).get("labels")).get(key))
