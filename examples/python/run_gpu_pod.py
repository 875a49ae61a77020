"""Run a command in a pod with GPUs, print its logs while it runs, and end with its exit code.

KUBECONFIG=team-a.yaml python run_gpu_pod.py --gpus 1 --image docker.io/library/busybox:1.36 -- ls -l /dev/nvidia0
"""

import argparse
import sys
import time
from collections.abc import Sequence

from kubernetes import client, config, watch

GPU = "nvidia.com/gpu"


def start(core: client.CoreV1Api, namespace: str, image: str, gpus: int, command: Sequence[str]) -> str:
    """Create the pod; the API server gives it a name."""
    container = client.V1Container(
        name="main",
        image=image,
        command=list(command),
        resources=client.V1ResourceRequirements(limits={GPU: str(gpus)}, requests={"cpu": "100m", "memory": "64Mi"}),
    )
    pod = client.V1Pod(
        metadata=client.V1ObjectMeta(generate_name="gpu-"),
        spec=client.V1PodSpec(containers=[container], restart_policy="Never"),
    )
    return str(core.create_namespaced_pod(namespace, pod).metadata.name)


def wait_until_it_runs(core: client.CoreV1Api, namespace: str, name: str, seconds: float) -> None:
    """Print each reason for which the pod waits, once: condition PodScheduled reports an exhausted quota, for example."""
    told, end = "", time.monotonic() + seconds
    while True:
        pod = core.read_namespaced_pod(name, namespace)
        if pod.status.phase != "Pending":
            return
        reasons = [
            f"{condition.reason}: {condition.message}"
            for condition in pod.status.conditions or ()
            if condition.status == "False" and condition.message
        ]
        if reasons and reasons[0] != told:
            told = reasons[0]
            print(told, file=sys.stderr, flush=True)
        if time.monotonic() > end:
            sys.exit(f"pod {name} does not run after {seconds:.0f} s; kubectl describe pod -n {namespace} {name} says more")
        time.sleep(0.5)


def exit_code(core: client.CoreV1Api, namespace: str, name: str) -> int:
    """The container's exit code. Waits until it has ended, because its logs end a moment earlier."""
    while True:
        (container,) = core.read_namespaced_pod(name, namespace).status.container_statuses
        if container.state.terminated:
            return int(container.state.terminated.exit_code)
        time.sleep(0.2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--namespace", default="default")
    parser.add_argument("--image", required=True)
    parser.add_argument("--gpus", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=600.0, help="how long it may wait for GPUs")
    parser.add_argument("command", nargs="+")
    words = parser.parse_args()
    config.load_config()
    core = client.CoreV1Api()
    name = start(core, words.namespace, words.image, words.gpus, words.command)
    try:
        wait_until_it_runs(core, words.namespace, name, words.seconds)
        for line in watch.Watch().stream(core.read_namespaced_pod_log, name, words.namespace, follow=True):
            print(line, flush=True)
        code = exit_code(core, words.namespace, name)
    finally:
        core.delete_namespaced_pod(name, words.namespace)
    sys.exit(code)


if __name__ == "__main__":
    main()
