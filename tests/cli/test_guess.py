"""Suggestions for a mistyped name: similar names, and nothing if none is similar."""

import argparse

import pytest

from workstation.cli.quotas.why import _meant

HERE = ["train-0 -n default", "done -n default", "train-1 -n ml", "web -n ml", "train-1 -n default"]


@pytest.mark.parametrize(
    ("pod", "namespace", "said"),
    [
        ("crash", "default", "list them"),
        ("zzz", "a-namespace-with-a-long-name", "list them"),
        ("trian-0", "default", "did you mean train-0 -n default or train-1 -n default?"),
        ("train-2", "ml", "did you mean train-1 -n ml or train-0 -n default?"),
        ("web", "default", "did you mean web -n ml?"),
    ],
)
def test_pods_are_alike_by_their_own_names_and_not_by_that_of_their_namespace(pod: str, namespace: str, said: str) -> None:
    assert _meant(argparse.Namespace(pod=pod, namespace=namespace), HERE, "list them") == said
