"""What the Slurm benchmark runs on a cluster, and how its answers become figures. Pure: text in, numbers out.

Each script runs on a login node, the same way in a tenant's cluster and in the plain one. The way into the login node is not
measured.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from e2e.chaos.percentiles import percentile

# A process of its own submits each job, as users' scripts do; the script polls the queue until it is empty.
BATCH = """
begin=$(date +%s%N)
for n in $(seq "$1"); do sbatch -Q -p "$2" --mem=1 -o /dev/null --wrap true > /dev/null || exit 1; done
submitted=$(date +%s%N)
while [ -n "$(squeue -h -o %i | head -n 1)" ]; do sleep 0.2; done
echo "$begin $submitted $(date +%s%N)"
"""

LATENCY = """
for n in $(seq "$1"); do
  a=$(date +%s%N); srun -p "$2" --mem=1 hostname > /dev/null || exit 1; b=$(date +%s%N); echo $((b - a))
done
"""

# Held jobs, so that only their number is a load for slurmctld.
QUEUE = """
for n in $(seq "$1"); do sbatch -Q --hold -p "$2" --array=1-1000 -o /dev/null --wrap true > /dev/null || exit 1; done
for n in 1 2 3 4 5 6 7 8 9 10; do a=$(date +%s%N); squeue -h -r | wc -l >&2; b=$(date +%s%N); echo $((b - a)); done
scancel -u "$(id -un)"
"""

# MPICH over TCP: Open MPI refuses to connect two nodes that share an address, as the plain ones do.
RING = (
    *("env", "UCX_TLS=tcp,self", "salloc", "--quiet", "-N", "2", "-n", "2", "--mem=64", "mpirun.mpich"),
    *("mpi-ring", "--bytes", "4194304", "--repeats", "100"),
)


def batch(text: str, jobs: int) -> dict[str, float]:
    """Jobs a second, submitted and completed, from the three moments that BATCH prints."""
    begin, submitted, ended = (int(word) for word in text.split())
    if not begin < submitted <= ended:
        raise ValueError(f"batch: moments out of order: {text!r}")
    return {
        "submit_per_s": round(jobs / ((submitted - begin) / 1e9), 2),
        "complete_per_s": round(jobs / ((ended - begin) / 1e9), 2),
    }


def milliseconds(text: str) -> dict[str, float]:
    """The median and the 95th percentile of nanoseconds, one value a line."""
    values = [int(line) / 1e6 for line in text.split()]
    if not values:
        raise ValueError("latency: nothing was measured")
    return {"p50_ms": round(percentile(values, 50), 1), "p95_ms": round(percentile(values, 95), 1)}


def ring(text: str) -> float:
    """The bandwidth that `mpi-ring` printed, in MB/s."""
    line = next((line for line in text.splitlines() if line.startswith("{")), None)
    if line is None:
        raise ValueError(f"ring: no result in {text[:200]!r}")
    return float(json.loads(line)["mb_per_s"])


def ratios(tenant: Mapping[str, Any], plain: Mapping[str, Any]) -> dict[str, float]:
    """Tenant compared with plain, larger is better; for latencies, plain divided by tenant."""
    return {
        "submit": _ratio(tenant["batch"]["submit_per_s"], plain["batch"]["submit_per_s"]),
        "complete": _ratio(tenant["batch"]["complete_per_s"], plain["batch"]["complete_per_s"]),
        "srun": _ratio(plain["srun"]["p50_ms"], tenant["srun"]["p50_ms"]),
        "ring": _ratio(tenant["ring_mb_per_s"], plain["ring_mb_per_s"]),
    }


def _ratio(one: float, other: float) -> float:
    if other <= 0:
        raise ValueError(f"ratio: {one} to {other}")
    return round(one / other, 3)


def median_of(rounds: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Each figure's median over the rounds."""
    return {name: round(percentile([round_[name] for round_ in rounds], 50), 2) for name in rounds[0]}
