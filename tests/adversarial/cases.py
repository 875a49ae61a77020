"""The cases: what a hostile tenant submits, read once from the data files. Pure but for reading them."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from syncer.translate import TenantView
from tests.kit import translationsamples as samples
from tests.kit import yamlfiles

HERE: Final = Path(__file__).parent
CASES: Final[dict[str, Any]] = {case["id"]: case for case in yamlfiles.load(samples.HERE / "adversarial.yaml")}
PODS: Final = {name: case for name, case in CASES.items() if "object" not in case}
# By operation, the cases that the host lets in, and why that is harmless; and those of which an API server ignores the attack.
HARMLESS: Final[dict[str, dict[str, str]]] = yamlfiles.load(HERE / "harmless.yaml")
# The outcome of an attack that is accepted and changes nothing. It is neither refused nor let in, and is listed by name.
IGNORED: Final = "ignored"


def ignored(operation: str) -> dict[str, str]:
    """The cases whose attack an API server ignores at an operation, and why."""
    return HARMLESS.get(f"ignored in {operation}", {})


def view_of(changes: Any) -> TenantView:
    """The view of a case, of a tenant of its own for each kind of view."""
    name = hashlib.sha256(json.dumps(changes, sort_keys=True).encode()).hexdigest()[:8] if changes else "plain"
    return replace(samples.view(changes), tenant=f"a{name}")
