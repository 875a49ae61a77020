"""A person at an identity provider, as a program: follows redirects, fills in the password form, enters a code."""

import os
import sys
from pathlib import Path

from tests.kit.dex import PASSWORD, Dex

_BROWSER = """#!{python}
import pathlib, ssl, sys, urllib.error, urllib.parse, urllib.request
tls = ssl.create_default_context(cafile={ca!r})
opener = urllib.request.build_opener(urllib.request.ProxyHandler({{}}), urllib.request.HTTPSHandler(context=tls))
with pathlib.Path({log!r}).open("a") as log:
    log.write(sys.argv[1] + "\\n")
query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(sys.argv[1]).query))
# Another program on this machine answers first, without the state.
for forged in ("?code=x&state=x", "?code=x", "?error=access_denied"):
    try:
        opener.open(query["redirect_uri"] + forged, timeout=10)
        sys.exit("believed")
    except urllib.error.HTTPError as error:
        assert error.code == 400
page = opener.open(sys.argv[1].replace("/auth?", "/auth/local?"), timeout=10)
form = urllib.parse.urlencode({{"login": "{user}@example.org", "password": {password!r}}}).encode()
last = opener.open(page.geturl(), data=form, timeout=10)
assert b"You may close this page" in last.read(), last.geturl()
"""


class Browser:
    """The browser program, and the pages that it was shown."""

    def __init__(self, dex: Dex, folder: Path, user: str = "ada") -> None:
        self.program = folder / "browser"
        self._log = folder / "browser.log"
        text = _BROWSER.format(
            python=sys.executable, ca=str(dex.folder / "ca.crt"), log=str(self._log), user=user, password=PASSWORD
        )
        self.program.write_text(text)
        self.program.chmod(0o700)

    @property
    def environment(self) -> dict[str, str]:
        return {"BROWSER": str(self.program), "PATH": os.environ["PATH"]}

    @property
    def shown(self) -> list[str]:
        """The URLs with which it was opened."""
        return self._log.read_text().splitlines() if self._log.exists() else []
