"""How a class bounds the isolation of its tenants' pods, and which addresses they may reach. Pure."""

from collections.abc import Iterator
from ipaddress import IPv4Network, IPv6Network, collapse_addresses, ip_network
from typing import Any, Final

from controller.decide.bounds.question import Excess, Question, Section, choice
from controller.sections import section_of, text_or_none

# From the loosest to the tightest.
_POD_SECURITY: Final = ("baseline", "restricted")


def pod_security(question: Question) -> Iterator[Excess]:
    """Pod Security may only become tighter."""
    asked, offered = _isolation(question)
    level, least = str(asked.get("podSecurity") or ""), str(offered.get("podSecurity") or _POD_SECURITY[0])
    if level and _POD_SECURITY.index(level) < _POD_SECURITY.index(least):
        message = f"spec.isolation.podSecurity: {level} is looser than the {least} of the class; leave it out"
        yield Excess(("isolation", "podSecurity"), message)


def runtime_class(question: Question) -> Iterator[Excess]:
    """The RuntimeClass must be the class's, or one that it lists."""
    asked, offered = _isolation(question)
    yield from choice(
        ("isolation", "runtimeClassName"),
        text_or_none(asked, "runtimeClassName"),
        text_or_none(offered, "runtimeClassName"),
        offered.get("allowedRuntimeClasses"),
    )


def user_namespaces(question: Question) -> Iterator[Excess]:
    """User namespaces must stay on if the class has them on."""
    asked, offered = _isolation(question)
    if asked.get("userNamespaces") is False and offered.get("userNamespaces") is True:
        message = "spec.isolation.userNamespaces: false is not allowed: the class requires true; leave it out"
        yield Excess(("isolation", "userNamespaces"), message)


def egress(question: Question) -> Iterator[Excess]:
    """Egress CIDRs must be inside what the class sets or lists."""
    asked, offered = (section_of(side, "network") for side in _isolation(question))
    listed = [*(offered.get("egressCIDRs") or ()), *(offered.get("allowedEgressCIDRs") or ())]
    wanted = list(asked.get("egressCIDRs") or ())
    for cidr in wanted:
        if not _contained(cidr, listed):
            bound = ", ".join(map(str, listed)) or "none"
            message = f"spec.isolation.network.egressCIDRs: {cidr} is not inside what the class allows: {bound}"
            # Never left out as a whole: the class's own list could be wider than the requested one.
            yield Excess(("isolation", "network", "egressCIDRs"), message, _common(wanted, listed))


def _isolation(question: Question) -> tuple[Section, Section]:
    return section_of(question.asked, "isolation"), section_of(question.offer, "isolation")


def _network(cidr: Any) -> IPv4Network | IPv6Network | None:
    try:
        return ip_network(str(cidr), strict=False)
    except ValueError:
        return None


def _contained(cidr: Any, allowed: list[Any]) -> bool:
    """Whether a network is inside others. Neighbours are joined first: two halves allow a network across their border."""
    asked = _network(cidr)
    return asked is not None and any(_inside(asked, range_) for range_ in _joined(allowed))


def _common(asked: list[Any], allowed: list[Any]) -> list[str]:
    """The common part of two lists of networks. Of two networks one is inside the other, or they are disjoint."""
    ours, theirs = _joined(asked), _joined(allowed)
    found = {one if _inside(one, other) else other for one in ours for other in theirs if _meet(one, other)}
    return [str(range_) for range_ in _joined(sorted(map(str, found)))]


def _joined(listed: list[Any]) -> list[IPv4Network | IPv6Network]:
    networks = [_network(cidr) for cidr in listed]
    four = collapse_addresses(range_ for range_ in networks if isinstance(range_, IPv4Network))
    six = collapse_addresses(range_ for range_ in networks if isinstance(range_, IPv6Network))
    return [*four, *six]


def _inside(one: IPv4Network | IPv6Network, other: IPv4Network | IPv6Network) -> bool:
    if isinstance(one, IPv4Network):
        return isinstance(other, IPv4Network) and one.subnet_of(other)
    return isinstance(other, IPv6Network) and one.subnet_of(other)


def _meet(one: IPv4Network | IPv6Network, other: IPv4Network | IPv6Network) -> bool:
    return _inside(one, other) or _inside(other, one)
