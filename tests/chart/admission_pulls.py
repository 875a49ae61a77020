"""What a syncer might do with the platform's own credentials for its registry."""

from typing import Any

from bulkhead.api.names import PULL_SECRET
from tests.chart.admission_objects import CLOSED, GRANTED, Change, debugger, pod
from workstation.hostcluster.images.build import MARIADB, SLURM

PULLED = {"imagePullSecrets": [{"name": PULL_SECRET}]}

REFUSED: dict[str, dict[str, Any]] = {
    "another image with the platform's credentials": pod(**PULLED),
    "another image beside the platform's": pod(
        {"image": SLURM}, initContainers=[{"name": "i", "image": "x", "envFrom": CLOSED}], **PULLED
    ),
    "another version of the platform's image": pod({"image": f"{SLURM}-x"}, **PULLED),
    "another image as a volume": pod({"image": SLURM}, volumes=[{"name": "v", "image": {"reference": "x"}}], **PULLED),
    "the platform's credentials in a volume": pod(volumes=[{"name": "v", "secret": {"secretName": PULL_SECRET}}]),
    "the platform's credentials among others": pod(
        volumes=[{"name": "v", "projected": {"sources": [{"secret": {"name": "s"}}, {"secret": {"name": PULL_SECRET}}]}}]
    ),
    "the platform's credentials in a variable": pod(
        {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": PULL_SECRET, "key": ".dockerconfigjson"}}}]}
    ),
    "the platform's credentials in all variables": pod({"envFrom": [{"secretRef": {"name": PULL_SECRET}}, *GRANTED]}),
    "the platform's credentials in an init container": pod(
        initContainers=[
            {
                "name": "i",
                "image": "x",
                "envFrom": CLOSED,
                "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": PULL_SECRET, "key": "a"}}}],
            }
        ]
    ),
}
ALLOWED: dict[str, dict[str, Any]] = {
    "the platform's own image": pod({"image": SLURM}, **PULLED),
    "the platform's own images": pod({"image": MARIADB}, volumes=[{"name": "v", "image": {"reference": SLURM}}], **PULLED),
    "credentials of the tenant's own": pod(imagePullSecrets=[{"name": "mine"}]),
}
CHANGES = {
    "a debugger of another image": Change(
        pod({"image": SLURM}, **PULLED), {"spec": {"ephemeralContainers": [debugger()]}}, "ephemeralcontainers"
    ),
    "a debugger with the platform's credentials": Change(
        pod(),
        {"spec": {"ephemeralContainers": [debugger(envFrom=[*CLOSED, {"secretRef": {"name": PULL_SECRET}}])]}},
        "ephemeralcontainers",
    ),
    "an image that becomes another": Change(
        pod({"image": SLURM}, **PULLED), {"spec": {"containers": pod()["spec"]["containers"]}}
    ),
}
CHANGES_ALLOWED = {
    "a debugger of the platform's own image": Change(
        pod({"image": SLURM}, **PULLED), {"spec": {"ephemeralContainers": [debugger(image=SLURM)]}}, "ephemeralcontainers"
    ),
}
KEPT = {"an image of the platform's from before": pod({"image": f"{SLURM}-before"}, **PULLED)}
REASONS = {
    "pod: the platform's pull secret is for the platform's own images": (
        "another image with the platform's credentials",
        "another image beside the platform's",
        "another version of the platform's image",
        "another image as a volume",
    ),
    "pod: no volume with the platform's pull secret": (
        "the platform's credentials in a volume",
        "the platform's credentials among others",
    ),
    "pod: no variable of the platform's pull secret": (
        "the platform's credentials in a variable",
        "the platform's credentials in all variables",
        "the platform's credentials in an init container",
    ),
}
REASONS_OF_CHANGES = {
    "pod: the platform's pull secret is for the platform's own images": (
        "a debugger of another image",
        "an image that becomes another",
    ),
    "pod: no variable of the platform's pull secret": ("a debugger with the platform's credentials",),
}
