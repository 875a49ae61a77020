"""The images that Bulkhead publishes, and the texts of their labels.

An image is published if its recipe's name begins with `docker.io/bulkhead/`. A new recipe in
`workstation.hostcluster.images.build` also needs a line in `ABOUT` here, and a name in `images` of the chart's values; tests
require both. Names and data only.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from workstation.hostcluster.images import build

_OURS: Final = "docker.io/bulkhead/"


@dataclass(frozen=True, slots=True)
class About:
    """What an image is, for its labels: description, source and licence of the programs in it."""

    description: str
    source: str = ""
    licences: str = ""


@dataclass(frozen=True, slots=True)
class Image:
    """One published image; the chart's values have it under `images.<name>`."""

    name: str
    tag: str
    recipe: build.Recipe
    about: About

    @property
    def title(self) -> str:
        """Name and tag."""
        return f"{self.name}:{self.tag}"


class UnknownImageError(ValueError):
    """No image has this name; the text lists the known ones."""


ABOUT: Final[Mapping[str, About]] = {
    "bulkhead": About("Controller and syncer of Bulkhead"),
    "kubernetes": About(
        "API server and controller manager of a tenant's plane", "https://github.com/kubernetes/kubernetes", "Apache-2.0"
    ),
    "etcd": About("Store of a tenant's plane", "https://github.com/etcd-io/etcd", "Apache-2.0"),
    "coredns": About("Name service of a tenant", "https://github.com/coredns/coredns", "Apache-2.0"),
    "slurm": About("Slurm's daemons and the tools of its users", "https://github.com/SchedMD/slurm", "GPL-2.0-or-later"),
    "proxy": About("HAProxy in front of tenants' API servers", "https://github.com/haproxy/haproxy", "GPL-2.0-or-later"),
    "mariadb": About("Database behind Slurm's accounting", "https://github.com/MariaDB/server", "GPL-2.0-only"),
}


def published() -> tuple[Image, ...]:
    """Every image that a cluster needs, from the recipes."""
    recipes = {**build.RECIPES, **build.SLURM_RECIPES}
    found = []
    for full, recipe in recipes.items():
        if full.startswith(_OURS):
            name, _, tag = full.removeprefix(_OURS).partition(":")
            found.append(Image(name, tag, recipe, ABOUT.get(name, About(name))))
    return tuple(sorted(found, key=lambda image: image.name))


def chosen(names: Iterable[str]) -> tuple[Image, ...]:
    """The images with these names; all images if no name is given."""
    there = {image.name: image for image in published()}
    wanted = list(dict.fromkeys(names))
    if unknown := [name for name in wanted if name not in there]:
        raise UnknownImageError(f"no image is called {', '.join(unknown)}; the images are {', '.join(there)}")
    return tuple(there[name] for name in wanted) if wanted else tuple(there.values())
