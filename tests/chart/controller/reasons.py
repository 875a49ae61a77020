"""The texts with which the policies refuse the controller `requests.REFUSED`: without a rule the text is another, or none.

A request that two policies refuse is listed twice: either policy may come first.
"""

# The message begins with this.
REASONS: dict[str, tuple[str, ...]] = {
    "controller: binds here only bulkhead-syncer-nodes, and not ": (
        "a ClusterRoleBinding to a syncer's rights",
        "one of another name",
        "one to read Secrets",
        "one to everything",
        "the pull secret everywhere",
        "pods of all namespaces",
    ),
    "controller: writes only cluster-scoped objects that are marked as a tenant's, and named after it": (
        "one of another name",
        "the node reader for another tenant",
        "a range without a tenant",
        "a range of another's name",
        "a remnant without its mark",
        "a range that is marked as a remnant",
        "a volume of another's name",
        "a volume without a mark",
    ),
    "controller: a tenant's ClusterRoleBinding is named after its plane's namespace, with -syncer-nodes": (
        "the node reader under another name",
        "the node reader for another tenant",
    ),
    "controller: binds a syncer's roles to that tenant's syncer alone, and its own to itself": (
        "the node reader to another's syncer",
        "the node reader to a workload",
        "the node reader without a subject",
        "work for a second subject",
        "work for another's syncer",
        "work for a user of that name",
        "work for the controller",
        "work in another tenant's namespace",
        "work in another's namespace",  # of two policies, the server tells either
        "the pull secret for a syncer",
        "pods for a syncer",
        "Secrets for a syncer",
    ),
    "controller: binds here only bulkhead-syncer-work, ": (
        "a namespace's role of everything",
        "a role and no ClusterRole",
        "the plane's in the work namespace",
        "Secrets of the work namespace",
        "another's Secrets",
        "Secrets of the system",
    ),
    "controller: binds here only bulkhead-syncer-plane, bulkhead-controller-secrets, and not ": (
        "work in the plane's namespace",
        "pods of a plane",
    ),
    "controller: writes only in namespaces that are marked as a tenant's, and named after it, and what it metered": (
        "work in another's namespace",
        "the pull secret elsewhere",
        "another's pods",
        "another's Secrets",
        "Secrets of the system",
        "elsewhere",
        "in the namespace of what is shared",
        "in a namespace that only looks like a tenant's",
        "a way in for another namespace",
        "a way in for the system",
    ),
    "controller: creates, changes and deletes only namespaces that are marked as a tenant's, and named after it": (
        "another's namespace",
        "a namespace named after another",
        "a namespace that is not marked",
    ),
    "controller: Pod Security is enforced in bh-team-d-work, at baseline or restricted of v1.36": (
        "a namespace without a level",
        "a namespace that allows everything",
        "a level of a former version",
        "a level without a version",
    ),
    "controller: Pod Security is enforced in bh-team-d, at restricted of v1.36": (
        "a plane's namespace at the workloads' level",
    ),
    "controller: on a namespace it writes no labels but its own": ("a namespace with a label that others act on",),
    "controller: a shared volume is of type nfs or csi": (
        "a volume of a node's files",
        "a volume of a type that is not shared",
    ),
    "controller: a shared volume is one tenant's, and is kept when it goes": (
        "a volume for another tenant",
        "a volume for the system",
        "a volume of another's name",
        "a volume without a mark",
        "a volume that is emptied when it goes",
    ),
    "controller: makes claims of shared volumes and of planes alone, and volumes for the former": (
        "a volume without a claim",
        "a volume for a claim of the tenant's own",
        "a claim of the tenant's own",
        "a claim of the host's default class",
        "a claim of a plane of no member",
        "a claim of a plane among the tenant's",
        "a claim of a plane that takes a volume",
        "a claim of a plane with data from elsewhere",
    ),
    "controller: a shared volume is of no StorageClass": ("a volume of a class",),
    "controller: a volume that is shared read-only says so": (
        "a read-only volume that can be written to",
        "a read-only CSI volume that can be written to",
        "a read-only volume that is mounted otherwise",
    ),
    "controller: a shared volume is read-only where its claim's name says so": ("a read-only volume for writers",),
    "controller: a claim of a shared volume is in the tenant's work namespace, and for a volume of its own": (
        "a claim in the plane's namespace",
        "a claim of anything",
        "a claim of what comes first",
        "a claim with data from elsewhere",
    ),
}
