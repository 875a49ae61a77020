"""Which of the syncer's settings a running syncer takes over, and which need another process. Pure.

The controller writes the settings into ConfigMap `syncer`; a Deployment is rolled out again only for what is read once. The
names are those of the file (`syncer/settings.py`).
"""

from collections.abc import Mapping
from typing import Any, Final

CONFIG_MAP: Final = "syncer"
FILE: Final = "settings.json"
# The audience of the token by which a syncer asks for its tenant's GPU metrics.
GPU_AUDIENCE: Final = "bulkhead-gpumetrics"
# Where the same program serves network and disk figures of the tenant's pods.
FIGURES_PATH: Final = "/figures"
# How fast logs and sessions (exec, attach, port-forward) of a tenant pass its syncer, unless the settings say otherwise.
LOG_BYTES_PER_SECOND: Final = 4 << 20
SESSION_BYTES_PER_SECOND: Final = 8 << 20
# What a tenant's pods, those that have ended among them, may have on the host together, unless the settings say otherwise. The
# syncer's copy of the host's pods has room for twice as much.
POD_BYTES: Final = 128 << 20
MAX_POD_BYTES: Final = 192 << 20
# How long a pod may go on after its deletion, unless its tenant's class allows less.
GRACE_SECONDS: Final = 3600
# How many endpoints a tenant's Services may have on the host together: of each its ports, once for each pod. At least so many,
# and so many for each pod that the tenant may have.
SERVICE_ENDPOINTS: Final = 20_000
SERVICE_ENDPOINTS_OF_POD: Final = 20
MAX_SERVICE_ENDPOINTS: Final = 100_000_000

# Numbers, bounds and names that the syncer looks up for each object. All other settings say who the tenant is, what to watch,
# or where to listen.
READ_AGAIN: Final = frozenset(
    {
        "limits",
        "mostPerPod",
        "mostLimitRequestRatio",
        "mostPerClaim",
        "mostPodBytes",
        "mostServiceEndpoints",
        "containerDefaults",
        "gatedResources",
        "gatedGangs",
        "allowedTolerations",
        "enforcedTolerations",
        "podSecurity",
        "userNamespaces",
        "preferUserNamespaces",
        "allowedSeccompProfiles",
        "allowedAppArmorProfiles",
        "runtimeClassName",
        "allowedRuntimeClasses",
        "priorityClassName",
        "allowedPriorityClasses",
        "allowedStorageClasses",
        "pullSecret",
        "ownImages",
        "drainSeconds",
        "maxGraceSeconds",
        "logBytesPerSecond",
        "sessionBytesPerSecond",
    }
)


def read_once(told: Mapping[str, Any]) -> dict[str, Any]:
    """The settings for which a syncer has to be started again."""
    return {name: value for name, value in told.items() if name not in READ_AGAIN}
