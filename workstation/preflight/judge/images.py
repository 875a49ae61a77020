"""Images: the pull errors of kubelets and container runtimes, as cause and cure. Pure."""

import re
from collections.abc import Mapping

from workstation.preflight.facts import Observed, Pull, known
from workstation.preflight.findings import Finding, failed, ok, skipped, warning
from workstation.preflight.values import Values

# Errors of runtimes, the most specific first, because one message may contain several.
_REASONS: tuple[tuple[re.Pattern[str], str, str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), cause, cure)
    for pattern, cause, cure in (
        (
            r"no match for platform|no image found in manifest list|no matching manifest|exec format error",
            "the registry has it only for other architectures than this node's",
            "push it for this architecture too",
        ),
        (
            r"x509|certificate|http: server gave HTTP response to HTTPS",
            "the node does not trust the registry's certificate",
            "give the registry's CA to the container runtime of every node",
        ),
        (
            r"no such host|connection refused|i/o timeout|network is unreachable|no route to host|deadline exceeded|dial tcp",
            "the node does not reach the registry",
            "check the registry's name and the network of the nodes, or set images.registry to one that they reach",
        ),
        (
            r"manifest unknown|not found|NAME_UNKNOWN|MANIFEST_UNKNOWN",
            "the registry does not have it",
            "push it there, or correct its name or digest in the values",
        ),
        (
            r"unauthorized|401|authorization failed|authentication required|denied|403|insufficient_scope|pull access",
            "the registry refuses these credentials",
            "correct the user name and password of the pull secret, or name the right one in images.pullSecrets",
        ),
        (
            r"ErrImageNeverPull|never pull",
            "it is not on the node, and images.pullPolicy is Never",
            "import it on every node, or use another pullPolicy",
        ),
        (r"InvalidImageName|invalid reference", "its name is not a valid image name", "correct it in the values"),
    )
)
_UNKNOWN = ("it could not be pulled", "see the message")


def secrets(observed: Observed, values: Values) -> Finding:
    """Whether the pull secrets exist and have the right type."""
    if not observed.secrets:
        if values.pull_secrets:
            return skipped("the pull secrets were not read", "check whether they exist in the release namespace")
        return skipped("images.pullSecrets is empty: images are pulled without credentials")
    wrong = [f"{name}: {why}" for name, why in observed.secrets.items() if why]
    if wrong:
        return failed(
            "pull secrets cannot be used",
            "create them in the release namespace first: kubectl create secret docker-registry NAME -n bulkhead-system …",
            wrong,
        )
    return ok(", ".join(observed.secrets))


def pulls(observed: Observed, _values: Values) -> Finding:
    """The state of every image by name; the cure is that of the first failure."""
    found: Mapping[str, Pull] = known(observed.pulls)
    lacking = {name: pull for name, pull in found.items() if not pull.pulled}
    broken = {name: pull for name, pull in lacking.items() if pull.trouble}
    if broken:
        told = [f"{pull.reference} ({name}): {explained(pull.trouble)[0]}: {pull.trouble}" for name, pull in broken.items()]
        causes = sorted({explained(pull.trouble)[0] for pull in broken.values()})
        cures = sorted({explained(pull.trouble)[1] for pull in broken.values()})
        summary = f"{len(broken)} of {len(found)} images cannot be pulled: {'; '.join(causes)}"
        return failed(summary, "; ".join(cures), told)
    if lacking:
        return warning(
            f"{len(lacking)} of {len(found)} images were still being pulled at the end, without an error",
            "run it again: what the nodes have pulled is quick",
            [pull.reference for pull in lacking.values()],
        )
    return ok(f"all {len(found)} images", *(f"{pull.reference} on node {pull.node}" for pull in found.values()))


def explained(message: str) -> tuple[str, str]:
    """Cause and cure for a runtime's message."""
    return next(((cause, cure) for pattern, cause, cure in _REASONS if pattern.search(message)), _UNKNOWN)
