"""What tenants may choose of what their class offers: modes, shared objects, providers, names, backups. Pure."""

from collections.abc import Iterator

from bulkhead.api.untrusted import mappings
from controller.decide import backup, deletion, exposure
from controller.decide.bounds.question import Excess, Question
from controller.sections import section_of, text_or_none
from controller.shares.spec import FIELDS, offered


def modes(question: Question) -> Iterator[Excess]:
    """The mode must be Slurm if the class offers nothing else; another policy checks whether the class offers Slurm."""
    offered = section_of(question.offer, "scheduling").get("modes")
    mode = section_of(question.asked, "scheduling").get("mode") or "Kubernetes"
    if offered and mode not in offered and mode != "Slurm":
        message = f"spec.scheduling.mode: {mode} is not allowed: the class offers only {', '.join(offered)}"
        yield Excess(("scheduling", "mode"), message)


def shared(question: Question) -> Iterator[Excess]:
    """Shared objects must be those that the class lists."""
    for field in FIELDS:
        known = offered(question.offer, field)
        chosen = mappings(question.asked.get(field))
        foreign = [str(issuer.get("name")) for issuer in chosen if issuer.get("name") not in known]
        if foreign:
            bound = ", ".join(known) or "none"
            message = f"spec.{field}: {', '.join(foreign)} is not what the class shares: {bound}"
            yield Excess((field,), message, [issuer for issuer in chosen if issuer.get("name") in known])


def issuers(question: Question) -> Iterator[Excess]:
    """Identity providers must be those of the class."""
    asked, offered = (section_of(side, "access") for side in (question.asked, question.offer))
    known = {str(issuer.get("name")) for issuer in mappings(offered.get("issuers"))}
    # In a Tenant of an older version the field may have another shape, which names none.
    wanted = mappings(asked.get("oidc"))
    kept = [issuer for issuer in wanted if str(issuer.get("issuer")) in known]
    for name in (str(issuer.get("issuer")) for issuer in wanted if issuer not in kept):
        message = f"not one that the class has (access.issuers): {', '.join(sorted(known)) or 'it has none'}"
        yield Excess(("access", "oidc"), f"spec.access.oidc[{name}]: {message}", kept)


def exposed(question: Question) -> Iterator[Excess]:
    """The type must be one that the class offers, and the names must be the tenant's."""
    asked, offer = (section_of(side, "exposure") for side in (question.asked, question.offer))
    own = exposure.default_type(offer, question.domains, has_proxy=question.has_proxy)
    allowed = dict.fromkeys([own, *(offer.get("allowedTypes") or ()), "None"])
    wanted = text_or_none(asked, "type")
    if wanted and wanted not in allowed:
        message = f"spec.exposure.type: {wanted} is not one that the class allows: {', '.join(allowed)}"
        yield Excess(("exposure", "type"), message)
    stems = [f"{question.tenant}.{domain}" for domain in offer.get("hostnameDomains") or () if domain in question.domains]
    names = list(asked.get("hostnames") or ())
    own_names = [name for name in names if any(name == stem or name.endswith(f".{stem}") for stem in stems)]
    for name in names:
        if name not in own_names:
            bound = ", ".join(f"{stem} and below" for stem in stems) or "none"
            message = f"spec.exposure.hostnames: {name} is not one of this tenant's names: {bound}"
            yield Excess(("exposure", "hostnames"), message, own_names)


def backups(question: Question) -> Iterator[Excess]:
    """Snapshots may be taken as often and kept as long as the class says."""
    for path, message, instead in backup.beyond(*(section_of(side, "backup") for side in (question.asked, question.offer))):
        yield Excess(("backup", *path), message, instead)


def kept_planes(question: Question) -> Iterator[Excess]:
    """A plane may be kept only if the class says for how long."""
    for message in deletion.beyond(question.asked, question.offer):
        yield Excess(("deletionPolicy",), message)
