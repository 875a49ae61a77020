"""Lists the keys of Slurm 26.05's files: those that a tenant may set, and those that the platform sets, each with the reason.

Data only, all in lower case because Slurm's keys are case-insensitive. For each kind of line a key is in one table, with the
shape of its values or with the reason why it is reserved. A key in neither is refused as unknown, because slurmctld would not
start with it.
"""

from collections.abc import Mapping
from typing import Final


def _keys(value: str, text: str) -> dict[str, str]:
    return dict.fromkeys(text.split(), value)


# The forms of values without which slurmctld would not start; case is ignored.
_ANY = ""
_NUMBER = "[0-9]{1,10}"  # of 64 bits
_LARGE = "[0-9]{1,9}|[1-3][0-9]{9}|4[01][0-9]{8}"  # of 32 bits
_SMALL = "[0-9]{1,4}|[1-5][0-9]{4}|6([0-4][0-9]{3}|5([0-4][0-9]{2}|5([0-2][0-9]|3[0-5])))"  # of 16 bits
_MOST = f"{_NUMBER}|UNLIMITED|INFINITE"
_MOST_LARGE = f"{_LARGE}|UNLIMITED|INFINITE"
_MOST_SMALL = f"{_SMALL}|UNLIMITED|INFINITE"
_TIME = r"UNLIMITED|INFINITE|[0-9]{1,7}|[0-9]{1,6}-[0-9]{1,2}(:[0-9]{2}){0,2}|[0-9]{1,4}(:[0-9]{2}){1,2}"
_SWITCH = "YES|NO|TRUE|FALSE|UP|DOWN|0|1"
_LEVEL = "[0-9]|quiet|fatal|error|info|verbose|debug[2-5]?"
_CONSUMED = "CR_CPU|CR_CPU_Memory|CR_Core|CR_Core_Memory|CR_Socket|CR_Socket_Memory"
_OPTIONS = (
    "CR_ONE_TASK_PER_CORE|CR_CORE_DEFAULT_DIST_BLOCK|CR_LLN|CR_PACK_NODES|LL_SHARED_GRES|ENFORCE_BINDING_GRES|"
    "MULTIPLE_SHARING_GRES_PJ|ONE_TASK_PER_SHARING_GRES"
)
_DEBUG = (
    "Accrue|Agent|AuditRPCs|AuditTLS|Backfill|BackfillMap|BurstBuffer|Cgroup|ConMgr|CPU_Bind|CpuFrequency|Data|DBD_Agent|"
    "DB_(Archive|Assoc|Event|Job|QOS|Query|Reservation|Resource|Step|TRES|Usage|WCKey)|Dependency|Elasticsearch|Energy|"
    "Federation|Gang|GLOB_SILENCE|Gres|Hetjob|Interconnect|JAG|JobAccountGather|JobComp|JobContainer|License|Metrics|MPI|"
    "Namespace|Net|Network|NetRaw|NetworkRaw|NodeFeatures|NO_CONF_HASH|Power|Priority|Profile|Protocol|Reservation|Route|Sack|"
    "Script|SelectType|Steps|Switch|Task|Thread|TLS|TraceJobs|Triggers?|workq|workqueue"
)
_LIMIT = "(RLIMIT_)?(AS|CORE|CPU|DATA|FSIZE|MEMLOCK|NOFILE|NPROC|RSS|STACK)"
_KEPT = "KeepPartInfo|KeepPartState|KeepPowerSaveSettings"

SLURM_CONF: Final[Mapping[str, str]] = (
    _keys(
        _ANY,
        """
        accountingstoragetres accountingstoreflags bcastexclude bcastparameters cpufreqdef cpufreqgovernors
        dependencyparameters gpufreqdef interactivestepoptions jobacctgatherfrequency launchparameters licenses maildomain
        mpiparams preemptparameters priorityflags priorityparameters priorityweighttres privatedata requeueexit
        requeueexithold sbcastparameters schedulerparameters scronparameters slurmctldparameters slurmdparameters srunportrange
        topologyparam x11parameters
        """,
    )
    | _keys(
        _SMALL,
        """
        acctgathernodefreq batchstarttimeout completewait eiotimeout fairsharedampeningfactor getenvtimeout groupupdateforce
        groupupdatetime healthcheckinterval inactivelimit jobfileappend killonbadexit killwait maxtaskspernode messagetimeout
        prologepilogtimeout schedulertimeslice slurmctldtimeout slurmdtimeout slurmschedloglevel tcptimeout treewidth
        unkillablesteptimeout vsizefactor waittime
        """,
    )
    | _keys(
        _LARGE,
        """
        epilogmsgtime firstjobid keepalivetime maxarraysize maxbatchrequeue maxdbdmsgs maxjobcount maxjobid maxstepcount
        minjobage priorityweightage priorityweightassoc priorityweightfairshare priorityweightjobsize priorityweightpartition
        priorityweightqos
        """,
    )
    | _keys(_NUMBER, "defcpupergpu defmempercpu defmempergpu defmempernode")
    | _keys(_MOST, "maxmempercpu maxmempernode")
    | _keys(_MOST_SMALL, "overtimelimit resvoverrun")
    | _keys(_TIME, "preemptexempttime prioritycalcperiod prioritydecayhalflife prioritymaxage")
    | _keys(_SWITCH, "disablerootjobs priorityfavorsmall trackwckey")
    | _keys(_LEVEL, "slurmctlddebug slurmddebug")
    | {
        "debugflags": f"({_DEBUG})(,({_DEBUG}))*",
        "propagateprioprocess": "[0-2]",
        "propagateresourcelimits": f"ALL|NONE|{_LIMIT}(,{_LIMIT})*",
        "propagateresourcelimitsexcept": f"ALL|NONE|{_LIMIT}(,{_LIMIT})*",
        "reconfigflags": f"({_KEPT})(,({_KEPT}))*",
        "enforcepartlimits": "YES|NO|ALL|ANY",
        "metricsauthusers": "[a-z_][a-z0-9_-]{0,31}(,[a-z_][a-z0-9_-]{0,31}){0,63}",
        "metricsparameters": "ignore_private_data",
        "mpidefault": "none|pmi2",
        "preemptmode": "REQUEUE|CANCEL",
        "priorityusageresetperiod": "NONE|NOW|DAILY|WEEKLY|MONTHLY|QUARTERLY|YEARLY",
        "selecttypeparameters": f"({_CONSUMED})(,({_OPTIONS}))*",
    }
)

PARTITION: Final[Mapping[str, str]] = (
    _keys(
        _ANY,
        """
        allowaccounts allowgroups allowqos alternate cpubind denyaccounts denyqos jobdefaults priority qos shared
        tresbillingweights
        """,
    )
    | _keys(_NUMBER, "defcpupergpu defmempercpu defmempergpu defmempernode")
    | _keys(_LARGE, "gracetime minnodes")
    | _keys(_SMALL, "priorityjobfactor prioritytier")
    | _keys(_MOST, "maxmempercpu maxmempernode")
    | _keys(_MOST_LARGE, "maxcpuspernode maxcpuspersocket maxnodes")
    | _keys(_MOST_SMALL, "overtimelimit")
    | _keys(_TIME, "defaulttime maxtime")
    | _keys(_SWITCH, "default disablerootjobs exclusivetopo hidden lln reqresv rootonly")
    | {
        "exclusiveuser": "YES|NO|TRUE|FALSE|USER",
        "oversubscribe": "EXCLUSIVE|NO|(YES|FORCE)(:[0-9]{1,4})?",
        "preemptmode": "REQUEUE|CANCEL",
        "state": "UP|DOWN|DRAIN|INACTIVE",
    }
)

NODE: Final[Mapping[str, str]] = _keys(_ANY, "comment extra instanceid instancetype") | _keys(_LARGE, "tmpdisk weight")

_AUTH = "it decides whose requests the daemons accept"
_WHERE = "it decides where the daemons listen and find each other"
_STATE = "the daemons' files are on volumes and mounts that the platform creates"
_FENCE = "only the pod confines a job, and cgroups cannot be used inside it"
_PROGRAM = "it would run a program inside the daemons' pods, where the cluster's keys are"
_PLUGIN = "it would load code into the daemons"
_NODES = "nodes come only from the node sets"
_SIZE = "it follows from the node set's own fields, from which the pod is created"
_ACCOUNTING = "it follows from the field accounting"
_RETURN = "lost workers must come back by themselves"
_POWER = "the lease decides how many workers run"

SLURM_CONF_RESERVED: Final[Mapping[str, str]] = (
    _keys(
        _AUTH,
        """
        authtype authalttypes authaltparameters authinfo credtype cryptotype slurmuser slurmduser jobcredentialprivatekey
        jobcredentialpubliccertificate tlstype tlsparameters certmgrtype certmgrparameters certgentype certgenparameters
        usepam hashplugin
        """,
    )
    | _keys(
        _WHERE,
        """
        slurmctldhost slurmctldaddr slurmctldport slurmdport controlmachine controladdr backupcontroller backupaddr
        clustername communicationparameters metricstype federationparameters accountingstorageexternalhost httpparsertype
        urlparsertype
        """,
    )
    | _keys(
        _STATE,
        """
        statesavelocation slurmdspooldir slurmctldpidfile slurmdpidfile tmpfs slurmctldlogfile slurmdlogfile
        slurmschedlogfile slurmctldsyslogdebug slurmdsyslogdebug logtimeformat include
        """,
    )
    | _keys(
        _FENCE,
        """
        proctracktype taskplugin taskpluginparam prologflags jobcontainertype jobacctgathertype jobacctgatherparams
        namespacetype containertype corespecplugin selecttype grestypes maxnodecount allowspecresourcesusage
        """,
    )
    | _keys(
        _PROGRAM,
        """
        prolog epilog prologslurmctld epilogslurmctld healthcheckprogram rebootprogram resvprolog resvepilog mailprog
        unkillablestepprogram slurmctldprimaryonprog slurmctldprimaryoffprog prepplugins prepparameters srunprolog
        srunepilog taskprolog taskepilog sallocdefaultcommand dependencyprogram
        """,
    )
    | _keys(
        _PLUGIN,
        """
        plugindir plugstackconfig slurmctldplugstack jobsubmitplugins clifilterplugins burstbuffertype burstbufferparameters
        nodefeaturesplugins mcsplugin mcsparameters prioritysitefactorplugin prioritysitefactorparameters switchtype
        switchparameters acctgatherenergytype acctgatherprofiletype acctgatherinterconnecttype acctgatherfilesystemtype
        extsensorstype launchtype routeplugin powerplugin prioritytype schedulertype preempttype topologyplugin jobcomptype
        jobcomphost jobcomploc jobcompparams jobcomppass jobcompport jobcompuser jobcomppassscript
        """,
    )
    | _keys(_NODES, "nodename nodeset partitionname downnodes frontendname port")
    | _keys(
        _ACCOUNTING,
        """
        accountingstoragetype accountingstoragehost accountingstorageport accountingstorageuser accountingstoragepass
        accountingstoragebackuphost accountingstorageloc accountingstorageparameters accountingstorageenforce
        """,
    )
    | _keys(_RETURN, "returntoservice jobrequeue")
    | _keys(
        _POWER,
        """
        resumeprogram resumefailprogram suspendprogram suspendtime suspendtimeout resumerate resumetimeout suspendrate
        suspendexcnodes suspendexcparts suspendexcstates powerparameters
        """,
    )
)

PARTITION_RESERVED: Final[Mapping[str, str]] = _keys(_NODES, "partitionname nodes nodeset include") | {
    "allocnodes": "every login node may submit",
    "topology": "the topology comes from the nodes' labels",
}

NODE_RESERVED: Final[Mapping[str, str]] = (
    _keys(_NODES, "nodename nodehostname nodeaddr bcastaddr port state reason topology include")
    | _keys(
        _SIZE,
        """
        cpus procs realmemory gres boards corespersocket sockets socketsperboard threadspercore cpubind
        """,
    )
    | _keys(_FENCE, "corespeccount cpuspeclist memspeclimit")
    | {
        "feature": "it follows from the field features",
        "features": "it follows from the field features",
    }
)

# Keys whose value is a list: the platform's items come first and the tenant's are added.
MERGED: Final = frozenset({"slurmctldparameters", "slurmdparameters", "schedulerparameters", "accountingstoragetres"})

# Single items of such lists, and of other values, that a tenant may not set.
RESERVED_ITEMS: Final[Mapping[tuple[str, str], str]] = (
    {
        ("slurmctldparameters", item): reason
        for item, reason in {
            "enable_configless": "all daemons take their configuration from slurmctld",
            "reconfig_on_restart": "a restart must apply changes",
            "reboot_from_controller": _PROGRAM,
            "cloud_dns": _WHERE,
            "cloud_reg_addrs": _WHERE,
            "user_resv_delete": "only its owner may delete a reservation",
            "disable_http": "probes and metrics need it",
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

# Keys that have a meaning only with accounting; without it slurmctld does not start with the first of them.
NEED_ACCOUNTING: Final = frozenset({"accountingstoragetres", "accountingstoreflags", "trackwckey"})
