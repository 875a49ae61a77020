"""How a class bounds the planes of its tenants: their pods, their volumes and stores, their CPU and memory. Pure."""

from collections.abc import Iterator
from typing import Any

from bulkhead.api.planecpu import usual_cpu_limit
from bulkhead.api.planevolume import STORAGE_SIZE
from bulkhead.api.quantity import InvalidQuantityError, mebibytes
from controller.decide.bounds.question import Excess, Question, Section, choice, is_more, larger
from controller.plane.budgets import COMPONENTS, Budget, usual_budget
from controller.plane.sizing import STORE_QUOTA_MIB, VOLUME_SHARE, quota_of_volume
from controller.sections import over, section_of, text_or_none


def replicas(question: Question) -> Iterator[Excess]:
    """A plane must not have more pods than the class allows."""
    asked, offered = _control_plane(question)
    wanted = int(asked.get("replicas") or 1)
    most = max(int(offered.get("replicas") or 1), int(offered.get("maxReplicas") or 1))
    if wanted > most:
        message = f"spec.controlPlane.replicas: {wanted} is more than the {most} that the class allows (maxReplicas)"
        # A plane that was built with this number of members keeps it.
        yield Excess(("controlPlane", "replicas"), message, wanted)


def storage_size(question: Question) -> Iterator[Excess]:
    """The volume under etcd must not be larger than the class allows."""
    asked, offered = (section_of(side, "storage") for side in _control_plane(question))
    own = offered.get("size") or STORAGE_SIZE
    most = larger(offered.get("maxSize"), own)
    if asked.get("size") and is_more(asked["size"], most):
        message = (
            f"spec.controlPlane.storage.size: {asked['size']} is more than the {most} that the class allows (storage.maxSize)"
        )
        yield Excess(("controlPlane", "storage", "size"), message)


def store_quota(question: Question) -> Iterator[Excess]:
    """A store must not be larger than the class allows, nor than its volume has room for, in addition to copies and logs."""
    asked, offered = (section_of(side, "storage") for side in _control_plane(question))
    most = _most_quota(offered)
    path = ("controlPlane", "storage", "quota")
    wanted = asked.get("quota")
    if wanted and is_more(wanted, most):
        message = f"{wanted} is more than the {most} that the class allows (storage.maxQuota)"
        yield Excess(path, f"spec.{'.'.join(path)}: {message}")
        return
    size = asked.get("size") or offered.get("size") or STORAGE_SIZE
    # If neither class nor Tenant sets a quota, planes on small volumes keep the built-in one.
    quota = wanted or offered.get("quota")
    if quota and quota != f"{STORE_QUOTA_MIB}Mi" and mebibytes(quota) * VOLUME_SHARE > mebibytes(size):
        room = f"is more than a quarter of the volume of {size}: raise controlPlane.storage.size, or lower the quota"
        whose = "" if wanted else " of the class"
        # If the quota is the class's, the tenant's volume is too small.
        at = path if wanted else ("controlPlane", "storage", "size")
        yield Excess(at, f"spec.{'.'.join(path)}: {quota}{whose} {room}")


def quota_mib(storage: Section) -> int:
    """The size of a plane's store in MiB, from its Tenant's section merged over its class's.

    By default it follows the volume.
    """
    try:
        if storage.get("quota"):
            return mebibytes(storage["quota"])
        most = max(STORE_QUOTA_MIB, mebibytes(storage["maxQuota"])) if storage.get("maxQuota") else None
        followed = quota_of_volume(mebibytes(storage.get("size") or STORAGE_SIZE))
    except InvalidQuantityError:
        return STORE_QUOTA_MIB
    return followed if most is None else min(followed, most)


def _most_quota(offered: Section) -> Any:
    """The largest quota that a class allows: by default its own, or what follows from the largest volume."""
    if offered.get("quota") or offered.get("maxQuota"):
        return larger(offered.get("maxQuota"), offered.get("quota") or f"{STORE_QUOTA_MIB}Mi")
    return f"{quota_mib({'size': larger(offered.get('maxSize'), offered.get('size') or STORAGE_SIZE)})}Mi"


def storage_class(question: Question) -> Iterator[Excess]:
    """The StorageClass must be that of the class or the installation, or one that the class lists."""
    asked, offered = (section_of(side, "storage") for side in _control_plane(question))
    yield from choice(
        ("controlPlane", "storage", "className"),
        text_or_none(asked, "className"),
        text_or_none(offered, "className") or question.storage_class or None,
        offered.get("allowedClassNames"),
    )


def components(question: Question) -> Iterator[Excess]:
    """No component of the plane may request or use more than the class allows."""
    asked, offered = _control_plane(question)
    # Computed for the store that the class allows: a larger store needs more memory, which comes with its quota.
    quota = max(quota_mib(section_of(control, "storage")) for control in (offered, over(offered, asked)))
    replicas = int(asked.get("replicas") or offered.get("replicas") or 1)
    for field, attribute in COMPONENTS.items():
        wanted = section_of(section_of(asked, "resources"), field)
        own, most = (section_of(section_of(offered, part), field) for part in ("resources", "maxResources"))
        budgets = _budget(usual_budget(attribute, quota, replicas))
        if offered.get("cpuLimits") != "None":
            most_cpu = larger(section_of(most, "requests").get("cpu"), section_of(own, "requests").get("cpu"))
            budgets["limits"]["cpu"] = usual_cpu_limit(attribute, str(most_cpu or budgets["requests"]["cpu"]))
        for kind, built_in in budgets.items():
            usual, highest = built_in | section_of(own, kind), section_of(most, kind)
            for name, value in sorted(section_of(wanted, kind).items()):
                limit = larger(highest.get(name), usual.get(name))
                if limit is not None and is_more(value, limit):
                    path = ("controlPlane", "resources", field, kind, name)
                    message = f"spec.{'.'.join(path)}: {value} is more than the {limit} that the class allows (maxResources)"
                    yield Excess(path, message)


def _control_plane(question: Question) -> tuple[Section, Section]:
    return section_of(question.asked, "controlPlane"), section_of(question.offer, "controlPlane")


def _budget(usual: Budget) -> dict[str, dict[str, str]]:
    requests = {"cpu": usual.cpu, "memory": usual.memory}
    return {"requests": requests, "limits": {"memory": f"{usual.memory_limit_mib}Mi"}}
