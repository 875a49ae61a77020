"""What pages and comments name exists: files, folders, modules and what is in them, tests, `make` targets, links."""

import importlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.kit import yamlfiles

ROOT = Path(__file__).parents[2]
PAGES = sorted({*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")})
TOPS = "bulkhead|charts|ci|controller|crds|docs|e2e|examples|frontdoor|gpumetrics|images|syncer|tests|workstation"
SPAN = re.compile(r"`([^`\n]+)`")
PATH = re.compile(rf"(?:{TOPS})/[\w./-]*")
BRACES = re.compile(r"\{([^{}]*)\}")
TEST = re.compile(r"(tests/[\w/]+\.py)::(\w+)")
FILE = re.compile(r"[\w/]+\.py")
MODULE = re.compile(r"(?:bulkhead|ci|controller|e2e|syncer|tests)(?:\.\w+)+")
RUN = re.compile(r"python3? -(?:u )?m ((?:bulkhead|ci|controller|e2e|syncer|tests)[\w.]*)")
TARGET = re.compile(r"make ([a-z][a-z0-9-]*)")
# What `make` is given to choose by: the variable of a command, and the Makefile's list of what may stand there.
CHOICES = {"SUITE": "SUITES", "NAME": "BENCHES", "SPECS": "ALL_SPECS"}
CHOSEN = re.compile(r"make [a-z0-9-]+(?: \w+=\S+)*? (SUITE|NAME|SPECS)=([\w-]+)")
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
# They look like modules: a group of the API, and a program of Kubernetes.
NO_MODULES = ("bulkhead.dev", "e2e.test")


@cache
def files() -> frozenset[str]:
    found = [*ROOT.glob("*.py"), *(path for top in TOPS.split("|") for path in (ROOT / top).rglob("*.py"))]
    return frozenset(f"/{path.relative_to(ROOT)}" for path in found)


@cache
def targets() -> frozenset[str]:
    return frozenset(re.findall(r"^([a-z][a-z0-9-]*):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))


@cache
def choices(variable: str) -> frozenset[str]:
    found = re.search(rf"^{CHOICES[variable]} := (.*)$", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    assert found is not None
    return frozenset(found[1].split())


def spelled_out(text: str) -> list[str]:
    """A text with `{a,b}` in it, once for each."""
    found = BRACES.search(text)
    if found is None:
        return [text]
    return [one for each in found[1].split(",") for one in spelled_out(text[: found.start()] + each + text[found.end() :])]


def resolves(dotted: str) -> bool:
    """Whether it is a module, or something inside one."""
    parts = dotted.split(".")
    for count in range(len(parts), 0, -1):
        path = ROOT.joinpath(*parts[:count])
        if not path.is_dir() and not path.with_suffix(".py").is_file():
            continue
        found = importlib.import_module(".".join(parts[:count]))
        for part in parts[count:]:
            if not hasattr(found, part) and part not in getattr(found, "__annotations__", {}):
                return False
            found = getattr(found, part, None)
        return True
    return False


@cache
def values_of_the_chart() -> frozenset[str]:
    """Each value with the names above it: `controller.issuerProxy`."""
    return frozenset(_paths(yamlfiles.load(ROOT / "charts" / "bulkhead" / "values.yaml")))


def _paths(given: dict[str, Any], above: str = "") -> Iterator[str]:
    for name, value in given.items():
        yield above + name
        if isinstance(value, dict):
            yield from _paths(value, f"{above}{name}.")


def there(span: str) -> bool:
    """Whether a text in backticks that looks like a file, a module or a test is one; what looks like nothing of ours is."""
    if (test := TEST.fullmatch(span)) is not None:
        path = ROOT / test[1]
        return path.is_file() and re.search(rf"def {test[2]}\b", path.read_text()) is not None
    if PATH.fullmatch(span):
        return (ROOT / span).exists()
    if FILE.fullmatch(span):
        return any(each.endswith(f"/{span}") for each in files())
    return not MODULE.fullmatch(span) or span.startswith(NO_MODULES) or span in values_of_the_chart() or resolves(span)


def wrong(page: Path) -> list[str]:
    text = page.read_text()
    links = [] if page.suffix == ".py" else LINK.findall(text)
    found = [f"link {link}" for link in links if "://" not in link and not (page.parent / link).exists()]
    found += [f"make {target}" for target in TARGET.findall("\n".join(SPAN.findall(text))) if target not in targets()]
    chosen = CHOSEN.findall("\n".join(SPAN.findall(text)))
    found += [f"{variable}={value}" for variable, value in chosen if value not in choices(variable)]
    for whole in SPAN.findall(text):
        for span in spelled_out(whole):
            found += [f"python -m {module}" for module in RUN.findall(span) if not resolves(module)]
            found += [span] if not there(span) else []
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_names_what_there_is(page: Path) -> None:
    assert wrong(page) == []


@pytest.mark.parametrize("top", ["bulkhead", "ci", "controller", "e2e", "syncer", "tests"])
def test_a_comment_names_what_there_is(top: str) -> None:
    found = {str(path.relative_to(ROOT)): wrong(path) for path in sorted((ROOT / top).rglob("*.py"))}
    assert {path: names for path, names in found.items() if names} == {}
