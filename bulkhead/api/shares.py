"""Secrets and ConfigMaps of the host that planes are given: what a class names, and what a Tenant chooses of it. Types only.

Only a class names objects of the host, all of one namespace that the installation keeps for them. A name is the same on the
host and in planes, so a Tenant that chooses one can be read without the class beside it.
"""

from typing import Annotated, Any, Final

from pydantic import Field

from bulkhead.api.fields import LABEL_KEYS, ApiModel, DnsLabel, DnsName, LabelKey, LabelValue, Rule, model_rules, rules

MOST: Final = 16
_BY_NAME: Final[dict[str, Any]] = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
# The plane's own controllers write it into every namespace.
_OWN_CA: Final[Rule] = {
    "rule": "self.all(each, each.name != 'kube-root-ca.crt')",
    "message": "kube-root-ca.crt is in every namespace already, with the plane's own CA",
}


class SharedNamespaces(ApiModel):
    """Namespaces of a plane: these names, or those with all these labels; all but kube-* where it has neither."""

    model_config = model_rules(
        {"rule": "!(has(self.names) && has(self.matchLabels))", "message": "either names or matchLabels"},
    )
    names: Annotated[list[DnsLabel], Field(max_length=64)] | None = Field(
        None,
        description="Their names; a namespace that does not exist yet gets it once it is created.",
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )
    match_labels: dict[LabelKey, LabelValue] | None = Field(
        None, max_length=16, description="Labels that they all have.", json_schema_extra=rules(LABEL_KEYS)
    )


class Share(ApiModel):
    """One object that a Tenant chooses."""

    name: DnsName = Field(description="Its name, as the class lists it.")
    namespaces: SharedNamespaces | None = Field(
        None, description="Namespaces of the plane that get it; those of the class by default."
    )


class ClassShare(ApiModel):
    """One object that a class gives."""

    name: DnsName = Field(
        description="Its name: of the object in the host's namespace of shared objects, and of each copy in planes."
    )
    namespaces: SharedNamespaces | None = Field(
        None, description="Namespaces of the plane that get it, unless the Tenant names others; by default all but kube-*."
    )
    on_request: bool = Field(False, description="Whether only tenants that name it get it.")


class ClassSharedSecret(ClassShare):
    """One Secret that a class gives."""

    image_pull_secret: bool = Field(
        False,
        description="Whether pods pull images with it by default: the ServiceAccount default of each of these namespaces "
        "names it. It must be of type kubernetes.io/dockerconfigjson.",
    )


SharedSecrets = Annotated[list[ClassSharedSecret], Field(max_length=MOST)]
SharedConfigMaps = Annotated[list[ClassShare], Field(max_length=MOST)]
ChosenShares = Annotated[list[Share], Field(max_length=MOST)]
SHARED: Final[dict[str, Any]] = _BY_NAME
SHARED_CONFIG_MAPS: Final[dict[str, Any]] = _BY_NAME | rules(_OWN_CA)
