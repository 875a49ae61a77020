"""The recipes for builders say what the recipes without one say: packages, versions, programs, environment, user."""

import re
import shlex

import pytest

from workstation.hostcluster.binaries.versions import recipe
from workstation.hostcluster.images import python_root
from workstation.hostcluster.images.build import PROJECT
from workstation.images import catalogue

IMAGES = PROJECT / "images"
_BUILD = re.compile(r"^    (docker build .*)$", re.MULTILINE)
_PROGRAMS = {
    "etcd": ("etcd",),
    "coredns": ("coredns",),
    "kubernetes": ("kube-apiserver", "kube-controller-manager"),
}


def commands() -> dict[str, list[str]]:
    """The commands of the pages, by the image that they make."""
    text = "".join((IMAGES / page).read_text() for page in ("README.md", "slurm/README.md"))
    found = [shlex.split(line) for line in _BUILD.findall(text)]
    return {words[words.index("-t") + 1].rpartition("/")[2]: words for words in found}


def argument(words: list[str], name: str) -> str:
    given = [words[at + 1] for at, word in enumerate(words) if word == "--build-arg"]
    return next((each.partition("=")[2] for each in given if each.partition("=")[0] == name), "")


def test_every_image_has_a_recipe_under_its_own_name() -> None:
    assert {image.title for image in catalogue.published()} - {"proxy"} >= commands().keys()
    lacking = {image.name for image in catalogue.published() if image.title not in commands()}
    assert lacking <= {"proxy"}
    assert all((IMAGES / name / "Dockerfile").is_file() for name in lacking)


@pytest.mark.parametrize("name", _PROGRAMS)
def test_programs_are_built_of_the_same_packages_with_the_same_stamps(name: str) -> None:
    words = next(words for title, words in commands().items() if title.startswith(f"{name}:"))
    wanted = recipe(name)
    assert argument(words, "COMPONENT") == name
    assert argument(words, "LDFLAGS") == wanted.ldflags
    targets = dict(each.split("=") for each in argument(words, "TARGETS").split())
    assert tuple(targets) == _PROGRAMS[name]
    modules = (PROJECT / "workstation/hostcluster/binaries" / name / "go.mod").read_text()
    tools = set(re.findall(r"^(?:tool |\t)([a-z0-9./-]+)$", modules, re.MULTILINE))
    assert set(targets.values()) <= tools | {wanted.package}
    assert not wanted.tags
    assert not wanted.cgo
    assert words[words.index("--target") + 1] == ("coredns" if name == "coredns" else "programs")


def test_the_controllers_image_has_the_same_packages_environment_and_user() -> None:
    text = (IMAGES / "bulkhead" / "Dockerfile").read_text().replace("\\\n", " ")
    final = text.rpartition("\nFROM ")[2]
    named = re.search(r"--no-install-recommends\s+([a-z0-9 .+-]+);", final)
    assert named is not None
    assert sorted(named[1].split()) == sorted(python_root.PACKAGES)
    assert f"debian:{python_root.SUITE}-slim" in text
    assert f"COPY --from=site /site/ /{python_root.SITE}/" in final
    copied = set(re.findall(rf"^COPY ([a-z]+)/ /{python_root.APP}/\1/$", final, re.MULTILINE))
    assert copied == set(python_root._OWN_PACKAGES)
    assert "USER 65532:65532" in final


def test_its_dependencies_are_those_of_the_lock() -> None:
    wanted = python_root.runtime_requirements(PROJECT / "requirements.lock")
    found = (IMAGES / "bulkhead" / "requirements.txt").read_text()
    assert found == wanted, "write it again: runtime_requirements of requirements.lock"
