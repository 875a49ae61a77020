"""One HTML file with the picture, its style and its script in it. It loads nothing. Pure.

picture ──> JSON in an inert element ──> the script draws it, text as text
style, script ──> digests ──> Content-Security-Policy: nothing else runs, whatever a tenant's name contains
"""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Final

# In this order: each part uses those before it.
_SCRIPTS: Final = ("dom.js", "bars.js", "queue.js", "map.js", "tenants.js", "live.js", "detail.js", "own.js", "page.js")
_STYLES: Final = ("console.css",)


@cache
def _asset(names: Sequence[str]) -> str:
    folder = files("workstation.console") / "assets"
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in names)


def script() -> str:
    """The whole script, in one function, so that it adds no names to the page."""
    return f'"use strict";(() => {{\n{_asset(_SCRIPTS)}\n}})();'


def policy(*, live: bool) -> str:
    """The Content-Security-Policy: our own script and style by their digests, and for the live page its own server."""
    connect = "'self'" if live else "'none'"
    return (
        f"default-src 'none'; script-src '{_digest(script())}'; style-src '{_digest(_asset(_STYLES))}'; "
        f"connect-src {connect}; img-src data:; base-uri 'none'; form-action 'none'"
    )


def document(data: Mapping[str, Any] | None, *, live: bool, way: str = "live") -> str:
    """The page; `data` is the picture, None if the page gets it from its server, whose kind is `way`."""
    return _PAGE.format(
        policy=policy(live=live).replace('"', "&quot;"),
        style=_asset(_STYLES),
        script=script(),
        way=way if live else "file",
        data=embedded(data),
    )


def embedded(data: Any) -> str:
    """JSON that cannot end the element it stands in, nor open a comment there."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="referrer" content="no-referrer">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Bulkhead</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body data-way="{way}">
<noscript><p>This page draws its picture with its own script. Allow scripts, or run: bulkhead top</p></noscript>
<script type="application/json" id="picture">{data}</script>
<script>{script}</script>
</body>
</html>
"""
