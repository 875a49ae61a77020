"""List the pods of a namespace, then print their changes.

KUBECONFIG=team-a.yaml python list_and_watch_pods.py --namespace default --seconds 60
"""

import argparse
import time

from kubernetes import client, config, watch

GONE, UNAUTHORIZED = 410, 401


def show(event: str, pod: client.V1Pod) -> None:
    node = pod.spec.node_name or "no node yet"
    print(f"{event:<9} {pod.metadata.name} {pod.status.phase} ({node})", flush=True)


def list_and_watch(namespace: str, seconds: float) -> None:
    """Print the present pods, then each change, for this many seconds."""
    end = time.monotonic() + seconds
    core = client.CoreV1Api()
    while (left := int(end - time.monotonic())) > 0:
        try:
            found = core.list_namespaced_pod(namespace)
            for pod in found.items:
                show("IS THERE", pod)
            # The watch begins at the list's resourceVersion, so no change between the two is lost.
            since = found.metadata.resource_version
            for event in watch.Watch().stream(
                core.list_namespaced_pod, namespace, resource_version=since, timeout_seconds=left
            ):
                show(event["type"], event["object"])
        except client.ApiException as error:
            if error.status == UNAUTHORIZED:  # the plugin's credential is no longer valid: get a new one from the plugin
                time.sleep(1)
                config.load_config()
                core = client.CoreV1Api()
            elif error.status != GONE:  # GONE: the watch was too slow and the server no longer has its changes: list again
                raise


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--namespace", default="default")
    parser.add_argument("--seconds", type=float, default=60.0)
    words = parser.parse_args()
    config.load_config()
    list_and_watch(words.namespace, words.seconds)


if __name__ == "__main__":
    main()
