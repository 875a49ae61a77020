"""Which HTTP proxy the environment gives an address, as kubectl and docker read it: HTTPS_PROXY, HTTP_PROXY and NO_PROXY."""

import contextlib
from ipaddress import ip_address, ip_network
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass


def proxy_of_environment(address: str) -> str:
    """The URL of the proxy that `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY` give an address; empty for none.

    As kubectl and docker read them: a proxy without a scheme speaks HTTP, and `NO_PROXY` may have ports and networks.
    httpx would read `ALL_PROXY` too, and fail where that names a SOCKS proxy, which kubectl passes by.
    """
    parts = urlsplit(address)
    host, place = parts.hostname or "", parts.netloc.rpartition("@")[2]
    proxies = getproxies()
    if proxy_bypass(host) or proxy_bypass(place) or _is_within(host, proxies.get("no", "")):
        return ""
    proxy = proxies.get(parts.scheme, "")
    return proxy if "://" in proxy or not proxy else f"http://{proxy}"


def _is_within(host: str, listed: str) -> bool:
    """Whether an address is of a network in `NO_PROXY`."""
    for entry in listed.split(","):
        with contextlib.suppress(ValueError):
            if "/" in entry and ip_address(host) in ip_network(entry.strip(), strict=False):
                return True
    return False
