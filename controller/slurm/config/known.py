"""The keys of Slurm 26.05's files: those a tenant may set, and those that are the platform's, each with the reason.

Data only, all in lower case because Slurm's keys know no case. A key in neither list is refused as unknown: slurmctld would not
start with it.
"""

from collections.abc import Mapping
from typing import Final


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_AUTH = "it decides whose requests the daemons believe"
_WHERE = "it decides where the daemons listen and find each other"
_STATE = "the daemons' files lie on volumes and mounts that the platform makes"
_FENCE = "the pod is the only fence around a job, and cgroups cannot be used inside it"
_PROGRAM = "it would run a program inside the daemons' pods, where the cluster's keys are"
_PLUGIN = "it would load code into the daemons"
_NODES = "nodes come from the node sets alone"
_SIZE = "it is given by the node set's own fields, from which the pod is made"
_ACCOUNTING = "it is given by the field accounting"
_RETURN = "lost workers must come back by themselves"
_POWER = "the number of workers is the lease's"

SLURM_CONF_RESERVED: Final[Mapping[str, str]] = (
    dict.fromkeys(("authtype", "authalttypes", "authaltparameters", "authinfo", "credtype", "cryptotype", "slurmuser"), _AUTH)
    | dict.fromkeys(
        ("slurmduser", "jobcredentialprivatekey", "jobcredentialpubliccertificate", "tlstype", "tlsparameters"), _AUTH
    )
    | dict.fromkeys(("certmgrtype", "certmgrparameters", "certgentype", "certgenparameters", "usepam", "hashplugin"), _AUTH)
    | dict.fromkeys(("slurmctldhost", "slurmctldaddr", "slurmctldport", "slurmdport", "controlmachine", "controladdr"), _WHERE)
    | dict.fromkeys(("backupcontroller", "backupaddr", "clustername", "communicationparameters", "metricstype"), _WHERE)
    | dict.fromkeys(("federationparameters", "accountingstorageexternalhost", "httpparsertype", "urlparsertype"), _WHERE)
    | dict.fromkeys(("statesavelocation", "slurmdspooldir", "slurmctldpidfile", "slurmdpidfile", "tmpfs"), _STATE)
    | dict.fromkeys(("slurmctldlogfile", "slurmdlogfile", "slurmschedlogfile", "slurmctldsyslogdebug"), _STATE)
    | dict.fromkeys(("slurmdsyslogdebug", "logtimeformat", "include"), _STATE)
    | dict.fromkeys(("proctracktype", "taskplugin", "taskpluginparam", "prologflags", "jobcontainertype"), _FENCE)
    | dict.fromkeys(("jobacctgathertype", "jobacctgatherparams", "namespacetype", "containertype", "corespecplugin"), _FENCE)
    | dict.fromkeys(("selecttype", "grestypes", "maxnodecount", "allowspecresourcesusage"), _FENCE)
    | dict.fromkeys(("prolog", "epilog", "prologslurmctld", "epilogslurmctld", "healthcheckprogram", "rebootprogram"), _PROGRAM)
    | dict.fromkeys(("resvprolog", "resvepilog", "mailprog", "unkillablestepprogram", "slurmctldprimaryonprog"), _PROGRAM)
    | dict.fromkeys(("slurmctldprimaryoffprog", "prepplugins", "prepparameters", "srunprolog", "srunepilog"), _PROGRAM)
    | dict.fromkeys(("taskprolog", "taskepilog", "sallocdefaultcommand", "dependencyprogram"), _PROGRAM)
    | dict.fromkeys(("plugindir", "plugstackconfig", "slurmctldplugstack", "jobsubmitplugins", "clifilterplugins"), _PLUGIN)
    | dict.fromkeys(("burstbuffertype", "burstbufferparameters", "nodefeaturesplugins", "mcsplugin", "mcsparameters"), _PLUGIN)
    | dict.fromkeys(("prioritysitefactorplugin", "prioritysitefactorparameters", "switchtype", "switchparameters"), _PLUGIN)
    | dict.fromkeys(("acctgatherenergytype", "acctgatherprofiletype", "acctgatherinterconnecttype"), _PLUGIN)
    | dict.fromkeys(("acctgatherfilesystemtype", "extsensorstype", "launchtype", "routeplugin", "powerplugin"), _PLUGIN)
    | dict.fromkeys(("prioritytype", "schedulertype", "preempttype", "topologyplugin"), _PLUGIN)
    | dict.fromkeys(("jobcomptype", "jobcomphost", "jobcomploc", "jobcompparams", "jobcomppass", "jobcompport"), _PLUGIN)
    | dict.fromkeys(("jobcompuser", "jobcomppassscript"), _PLUGIN)
    | dict.fromkeys(("nodename", "nodeset", "partitionname", "downnodes", "frontendname", "port"), _NODES)
    | dict.fromkeys(
        ("accountingstoragetype", "accountingstoragehost", "accountingstorageport", "accountingstorageuser"), _ACCOUNTING
    )
    | dict.fromkeys(("accountingstoragepass", "accountingstoragebackuphost", "accountingstorageloc"), _ACCOUNTING)
    | dict.fromkeys(("accountingstorageparameters", "accountingstorageenforce"), _ACCOUNTING)
    | dict.fromkeys(("returntoservice", "jobrequeue"), _RETURN)
    | dict.fromkeys(("resumeprogram", "resumefailprogram", "suspendprogram", "suspendtime", "suspendtimeout"), _POWER)
    | dict.fromkeys(("resumerate", "resumetimeout", "suspendrate", "suspendexcnodes", "suspendexcparts"), _POWER)
    | dict.fromkeys(("suspendexcstates", "powerparameters"), _POWER)
)

SLURM_CONF: Final = _names(
    """
    accountingstoragetres accountingstoreflags acctgathernodefreq batchstarttimeout bcastexclude bcastparameters completewait
    cpufreqdef cpufreqgovernors debugflags defcpupergpu defmempercpu defmempergpu defmempernode dependencyparameters
    disablerootjobs eiotimeout enforcepartlimits epilogmsgtime fairsharedampeningfactor firstjobid getenvtimeout gpufreqdef
    groupupdateforce groupupdatetime healthcheckinterval inactivelimit interactivestepoptions jobacctgatherfrequency
    jobfileappend keepalivetime killonbadexit killwait launchparameters licenses maildomain maxarraysize maxbatchrequeue
    maxdbdmsgs maxjobcount maxjobid maxmempercpu maxmempernode maxstepcount maxtaskspernode messagetimeout metricsauthusers
    metricsparameters minjobage mpidefault mpiparams overtimelimit preemptexempttime preemptmode preemptparameters
    prioritycalcperiod prioritydecayhalflife
    priorityfavorsmall priorityflags prioritymaxage priorityparameters priorityusageresetperiod priorityweightage
    priorityweightassoc priorityweightfairshare priorityweightjobsize priorityweightpartition priorityweightqos
    priorityweighttres privatedata prologepilogtimeout propagateprioprocess propagateresourcelimits
    propagateresourcelimitsexcept reconfigflags requeueexit requeueexithold resvoverrun sbcastparameters schedulerparameters
    schedulertimeslice scronparameters selecttypeparameters slurmctlddebug slurmctldparameters slurmctldtimeout slurmddebug
    slurmdparameters slurmdtimeout slurmschedloglevel srunportrange tcptimeout topologyparam trackwckey treewidth
    unkillablesteptimeout vsizefactor waittime x11parameters
    """
)

PARTITION_RESERVED: Final[Mapping[str, str]] = dict.fromkeys(("partitionname", "nodes", "nodeset", "include"), _NODES) | {
    "allocnodes": "every login node may submit",
    "topology": "the topology comes from the nodes' labels",
}

PARTITION: Final = _names(
    """
    allowaccounts allowgroups allowqos alternate cpubind default defaulttime defcpupergpu defmempercpu defmempergpu
    defmempernode denyaccounts denyqos disablerootjobs exclusivetopo exclusiveuser gracetime hidden jobdefaults lln
    maxcpuspernode maxcpuspersocket maxmempercpu maxmempernode maxnodes maxtime minnodes oversubscribe overtimelimit
    preemptmode priority priorityjobfactor prioritytier qos reqresv rootonly shared state tresbillingweights
    """
)

NODE_RESERVED: Final[Mapping[str, str]] = (
    dict.fromkeys(
        ("nodename", "nodehostname", "nodeaddr", "bcastaddr", "port", "state", "reason", "topology", "include"), _NODES
    )
    | dict.fromkeys(("cpus", "procs", "realmemory", "gres", "boards", "corespersocket", "sockets"), _SIZE)
    | dict.fromkeys(("socketsperboard", "threadspercore", "cpubind"), _SIZE)
    | dict.fromkeys(("corespeccount", "cpuspeclist", "memspeclimit"), _FENCE)
    | {"feature": "it is given by the field features", "features": "it is given by the field features"}
)

NODE: Final = frozenset({"weight", "tmpdisk", "comment", "extra", "instanceid", "instancetype", "resumeafter"}) - {
    "resumeafter"
}

# Keys whose value is a list: the platform's items come first and the tenant's are added.
MERGED: Final = frozenset({"slurmctldparameters", "slurmdparameters", "schedulerparameters", "accountingstoragetres"})

# Single items of such lists, and of other values, that are not the tenant's to set.
RESERVED_ITEMS: Final[Mapping[tuple[str, str], str]] = (
    {
        ("slurmctldparameters", item): reason
        for item, reason in {
            "enable_configless": "all daemons take their configuration from slurmctld",
            "reconfig_on_restart": "a restart must take over what changed",
            "reboot_from_controller": _PROGRAM,
            "cloud_dns": _WHERE,
            "cloud_reg_addrs": _WHERE,
            "user_resv_delete": "a reservation is its owner's",
            "disable_http": "probes and metrics are read over it",
            "idle_on_node_suspend": _POWER,
            "power_save_interval": _POWER,
            "power_save_min_interval": _POWER,
        }.items()
    }
    | {
        ("slurmdparameters", item): reason
        for item, reason in {
            "config_overrides": "a worker registers its pod's size, not the machine's",
            "numa_node_as_socket": _SIZE,
            "l3cache_as_socket": _SIZE,
            "allow_ecores": _SIZE,
            "shutdown_on_reboot": _POWER,
            "contain_spank": _FENCE,
        }.items()
    }
    | {("launchparameters", item): _PLUGIN for item in ("mpir_use_nodeaddr", "lustre_no_flush")}
    | {("launchparameters", "test_exec"): "it would look for programs on the login node"}
)

_NUMBER = "[0-9]{1,10}"
_MOST = f"{_NUMBER}|UNLIMITED|INFINITE"
_TIME = r"UNLIMITED|INFINITE|[0-9]{1,7}|[0-9]{1,6}-[0-9]{1,2}(:[0-9]{2}){0,2}|[0-9]{1,4}(:[0-9]{2}){1,2}"
_SWITCH = "YES|NO|TRUE|FALSE|UP|DOWN|0|1"
_LEVEL = "[0-9]|quiet|fatal|error|info|verbose|debug[2-5]?"
_CONSUMED = "CR_CPU|CR_CPU_Memory|CR_Core|CR_Core_Memory|CR_Socket|CR_Socket_Memory"
_OPTIONS = (
    "CR_ONE_TASK_PER_CORE|CR_CORE_DEFAULT_DIST_BLOCK|CR_LLN|CR_PACK_NODES|LL_SHARED_GRES|ENFORCE_BINDING_GRES|"
    "MULTIPLE_SHARING_GRES_PJ|ONE_TASK_PER_SHARING_GRES"
)

# What a value must look like, where slurmctld would not start with another one; upper and lower case are one.
VALUES: Final[Mapping[str, str]] = (
    dict.fromkeys(
        _names(
            """
            acctgathernodefreq batchstarttimeout completewait defcpupergpu defmempercpu defmempergpu defmempernode eiotimeout
            epilogmsgtime fairsharedampeningfactor firstjobid getenvtimeout gracetime groupupdateforce groupupdatetime
            healthcheckinterval inactivelimit jobfileappend keepalivetime killonbadexit killwait maxarraysize maxbatchrequeue
            maxdbdmsgs maxjobcount maxjobid maxstepcount maxtaskspernode messagetimeout minjobage minnodes prioritytier
            priorityjobfactor priorityweightage priorityweightassoc priorityweightfairshare priorityweightjobsize
            priorityweightpartition priorityweightqos prologepilogtimeout propagateprioprocess schedulertimeslice
            slurmctldtimeout slurmdtimeout slurmschedloglevel tcptimeout tmpdisk treewidth unkillablesteptimeout vsizefactor
            waittime weight
            """
        ),
        _NUMBER,
    )
    | dict.fromkeys(
        ("maxcpuspernode", "maxcpuspersocket", "maxmempercpu", "maxmempernode", "maxnodes", "overtimelimit", "resvoverrun"),
        _MOST,
    )
    | dict.fromkeys(("maxtime", "defaulttime", "preemptexempttime", "prioritydecayhalflife", "prioritymaxage"), _TIME)
    | dict.fromkeys(("default", "disablerootjobs", "exclusivetopo", "hidden", "lln", "priorityfavorsmall", "reqresv"), _SWITCH)
    | dict.fromkeys(("rootonly", "trackwckey"), _SWITCH)
    | dict.fromkeys(("slurmctlddebug", "slurmddebug"), _LEVEL)
    | {
        "enforcepartlimits": "YES|NO|ALL|ANY",
        "exclusiveuser": "YES|NO|TRUE|FALSE|USER",
        "metricsauthusers": "[a-z_][a-z0-9_-]{0,31}(,[a-z_][a-z0-9_-]{0,31}){0,63}",
        "metricsparameters": "ignore_private_data",
        "mpidefault": "none|pmi2",
        "oversubscribe": "EXCLUSIVE|NO|(YES|FORCE)(:[0-9]{1,4})?",
        "preemptmode": "REQUEUE|CANCEL",
        "prioritycalcperiod": _TIME,
        "priorityusageresetperiod": "NONE|NOW|DAILY|WEEKLY|MONTHLY|QUARTERLY|YEARLY",
        "selecttypeparameters": f"({_CONSUMED})(,({_OPTIONS}))*",
        "state": "UP|DOWN|DRAIN|INACTIVE",
    }
)

# Keys that mean something only to a cluster with accounting; without it slurmctld does not start with the first.
NEED_ACCOUNTING: Final = frozenset({"accountingstoragetres", "accountingstoreflags", "trackwckey"})
