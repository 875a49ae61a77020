"""Variables by which container runtimes hand out devices, whose they are, and the values that each reads as "none".

A runtime that is told by environment needs no request: an image with `NVIDIA_VISIBLE_DEVICES=all` baked in gets every GPU of
its node. So each container is given the closing values of all vendors, and with a device of one vendor those of the others.
They lie in ConfigMaps of the work namespace, one for "none" and one for each vendor that is offered. A host pod's containers
name one last in `envFrom`: that beats the image and every `envFrom` before it, and costs a pod less than one variable would.

The values differ on purpose. `void` is nothing to NVIDIA's runtime and everything to Habana's; Ascend's fails on any word.
What is here twice, in the host's admission policy too (charts/bulkhead/templates/_devices.tpl), a test holds together.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

# The name carries a version: the ConfigMaps cannot be changed, so that kubelets do not watch them. Other values, another name.
ENVIRONMENT: Final = "devices-v1"
DRIVER_CAPABILITIES: Final = "NVIDIA_DRIVER_CAPABILITIES"
# What a tenant may have of a driver: no `display`, whose device belongs to the whole node.
CAPABILITIES: Final = ("compat32", "compute", "graphics", "utility", "video")


@dataclass(frozen=True, slots=True)
class Vendor:
    """One vendor's runtime: the domains of its resources, its variables, and what changes for a container that asks for it."""

    name: str
    domains: tuple[str, ...]
    closed: dict[str, str]
    # Left to the vendor's device plugin where one of its devices is asked for.
    left: frozenset[str]
    # Other values there.
    instead: dict[str, str] = field(default_factory=dict)


VENDORS: Final = (
    Vendor(
        "nvidia",
        ("nvidia.com",),
        {
            "NVIDIA_VISIBLE_DEVICES": "void",
            # Acted upon beside the devices: those of the whole node, or those of the fabric and the network.
            **dict.fromkeys(
                (
                    "NVIDIA_MIG_CONFIG_DEVICES",
                    "NVIDIA_MIG_MONITOR_DEVICES",
                    "NVIDIA_IMEX_CHANNELS",
                    "NVIDIA_GDRCOPY",
                    "NVIDIA_GDS",
                    "NVIDIA_MOFED",
                    "NVIDIA_NVSWITCH",
                ),
                "",
            ),
        },
        frozenset({"NVIDIA_VISIBLE_DEVICES"}),
        {DRIVER_CAPABILITIES: ",".join(CAPABILITIES)},
    ),
    Vendor("amd", ("amd.com",), {"AMD_VISIBLE_DEVICES": "none"}, frozenset({"AMD_VISIBLE_DEVICES"})),
    Vendor("habana", ("habana.ai",), {"HABANA_VISIBLE_DEVICES": "none"}, frozenset({"HABANA_VISIBLE_DEVICES"})),
    Vendor("ascend", ("huawei.com",), {"ASCEND_VISIBLE_DEVICES": ""}, frozenset({"ASCEND_VISIBLE_DEVICES"})),
    Vendor("mthreads", ("mthreads.com",), {"MTHREADS_VISIBLE_DEVICES": "void"}, frozenset({"MTHREADS_VISIBLE_DEVICES"})),
    Vendor(
        "hygon",
        ("hygon.com",),
        dict.fromkeys(("HCU_VISIBLE_DEVICES", "DCU_VISIBLE_DEVICES"), "void")
        | dict.fromkeys(("VHCU_VISIBLE_DEVICES", "MIG_VISIBLE_DEVICES"), ""),
        frozenset({"HCU_VISIBLE_DEVICES", "DCU_VISIBLE_DEVICES", "VHCU_VISIBLE_DEVICES", "MIG_VISIBLE_DEVICES"}),
        # Read together with its own: `void` here would take away what was granted there.
        {"NVIDIA_VISIBLE_DEVICES": ""},
    ),
    Vendor(
        "iluvatar",
        ("iluvatar.com", "iluvatar.ai"),
        dict.fromkeys(("ILUVATAR_COREX_VISIBLE_DEVICES", "IX_VISIBLE_DEVICES"), "void"),
        frozenset({"ILUVATAR_COREX_VISIBLE_DEVICES", "IX_VISIBLE_DEVICES"}),
        {"NVIDIA_VISIBLE_DEVICES": ""},
    ),
    Vendor("cambricon", ("cambricon.com",), {"CAMBRICON_VISIBLE_DEVICES": ""}, frozenset({"CAMBRICON_VISIBLE_DEVICES"})),
    # Documented: read by the vendor's OCI hook, which its older device plugins need.
    Vendor("neuron", ("aws.amazon.com",), {"AWS_NEURON_VISIBLE_DEVICES": ""}, frozenset({"AWS_NEURON_VISIBLE_DEVICES"})),
    # Documented for `docker run` with the vendor's toolkit, and set by its device plugin; the second beside the first.
    Vendor(
        "enflame",
        ("enflame.com",),
        dict.fromkeys(("ENFLAME_VISIBLE_DEVICES", "TENCENT_VISIBLE_DEVICES"), ""),
        frozenset({"ENFLAME_VISIBLE_DEVICES", "TENCENT_VISIBLE_DEVICES"}),
    ),
    Vendor("vastai", ("vastaitech.com",), {"VASTAI_VISIBLE_DEVICES": ""}, frozenset({"VASTAI_VISIBLE_DEVICES"})),
    # Less sure: named beside the runtimes of others only, and closed because it costs nothing.
    Vendor("metax", ("metax-tech.com",), {"METAX_VISIBLE_DEVICES": ""}, frozenset({"METAX_VISIBLE_DEVICES"})),
    Vendor("biren", ("birentech.com",), {"BIREN_VISIBLE_DEVICES": ""}, frozenset({"BIREN_VISIBLE_DEVICES"})),
)
# Options of what is granted, for the platform and the device plugins alone; and names that no runtime is known to read now.
_OPTIONS: Final = frozenset(
    {
        "ASCEND_RUNTIME_OPTIONS", "ASCEND_RUNTIME_MOUNTS", "ASCEND_VNPU_SPECS", "ASCEND_ALLOW_LINK",
        "NVIDIA_CTK_MODE", "NVIDIA_FABRIC_IMEX_MGMT", "NVIDIA_RUNTIME_MODE",
        # What `AWS_`, a prefix that many give their credentials, leaves of a name: no ConfigMap or Secret has such a key.
        "NEURON_VISIBLE_DEVICES",
    }
)  # fmt: skip
# Variables that no tenant sets.
VARIABLES: Final = frozenset(name for vendor in VENDORS for name in vendor.closed) | _OPTIONS
# Habana's runtime compares beginnings of names; what swarms of Docker were given devices by, some runtimes read to this day.
PREFIXES: Final = ("DOCKER_RESOURCE_", "HABANA_VISIBLE_DEVICES")


def vendor_of(resource: str) -> Vendor | None:
    """The vendor whose device plugin gives a resource; None where no vendor is known."""
    domain = resource.partition("/")[0]
    return next((vendor for vendor in VENDORS if domain in vendor.domains), None)


def vendors_of(resources: Iterable[str]) -> tuple[Vendor, ...]:
    """The vendors of some resources, each once, in the order of their names."""
    found = {vendor.name: vendor for resource in resources if (vendor := vendor_of(resource)) is not None}
    return tuple(found[name] for name in sorted(found))


def environment(vendor: Vendor | None = None) -> dict[str, str]:
    """The variables of a container that asks for devices of this vendor, or for none."""
    found = {name: value for known in VENDORS for name, value in known.closed.items()}
    if vendor is not None:
        found = {name: value for name, value in found.items() if name not in vendor.left} | vendor.instead
    return dict(sorted(found.items()))


def environment_name(base: str, vendor: Vendor | None = None) -> str:
    """The ConfigMap with these variables."""
    return base if vendor is None else f"{base}-{vendor.name}"


def hands_out_devices(variable: str) -> bool:
    """Whether some runtime may take a variable of this name for a wish for devices."""
    plain = variable.strip()
    return plain in VARIABLES or plain.startswith(PREFIXES)


def could_hand_out_devices(prefix: str) -> bool:
    """Whether a prefix, with a key behind it that may reach the host, comes to the name of such a variable."""
    plain = prefix.strip()
    spelled = any(name.startswith(plain) and name.removeprefix(plain) not in VARIABLES for name in VARIABLES)
    begun = any(name.startswith(plain) for name in (*PREFIXES, DRIVER_CAPABILITIES))
    return bool(prefix) and (spelled or begun or plain.startswith(PREFIXES))
