"""Slurm's text files: whatever a tenant writes, slurm.conf holds exactly the expected lines, or nothing is rendered at all."""

import re
from dataclasses import replace
from typing import Any

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from controller.slurm import config
from controller.slurm.config import extra, known
from controller.slurm.config.words import UnsafeTextError, checked, is_value
from controller.slurm.objects.workers import slurmd_conf
from controller.slurm.spec import NodeSetSpec, PartitionSpec, SlurmSpec, TopologySpec
from tests.kit.slurmsamples import CASES, slurm_spec

# Signs that mean something to Slurm's parser, or to a reader of lines.
NASTY = st.text(alphabet=st.sampled_from([*"ab=AuthType,#\"'\\ \t\n\r\0;%{}$&|é\u2028\x85"]), max_size=40)
ANY = st.one_of(NASTY, st.text(max_size=40))


def read_as_slurm_does(text: str) -> list[list[tuple[str, str]]]:
    """The lines of a file as Slurm takes them: continued lines joined, comments cut off, then pairs of key and value."""
    joined = text.replace("\\\n", "")
    lines = []
    for raw in re.split(r"[\n\r]", joined):
        line = raw.split("#", maxsplit=1)[0].strip()
        if not line:
            continue
        assert not line.lower().startswith("include"), line
        pairs = re.findall(r'([A-Za-z_]+)\s*=\s*("[^"]*"|\S+)(?=\s|$)', line)
        assert re.sub(r'([A-Za-z_]+)\s*=\s*("[^"]*"|\S+)(?=\s|$)', "", line).strip() == "", f"left over: {line}"
        lines.append([(key.lower(), value) for key, value in pairs])
    return lines


def keys_of(spec: SlurmSpec) -> list[str]:
    return [line[0][0] for line in read_as_slurm_does(config.slurm_conf(spec))]


PLAIN = keys_of(slurm_spec(CASES["fixed"]))


def test_a_plain_cluster_sets_every_key_once() -> None:
    single = [key for key in PLAIN if key not in {"nodeset", "partitionname"}]
    assert len(single) == len(set(single))
    settings = {line[0][0]: line[0][1] for line in read_as_slurm_does(config.slurm_conf(slurm_spec(CASES["fixed"])))}
    assert settings["authtype"] == "auth/slurm"
    assert settings["proctracktype"] == "proctrack/linuxproc"
    assert settings["slurmctldhost"] == "slurmctld-0(slurmctld.slurm.svc.cluster.local)"
    assert settings["accountingstoragetype"] == "accounting_storage/none"


def test_what_we_set_for_ourselves_no_tenant_may_set() -> None:
    free = {key.lower() for key, _ in config.settings(slurm_spec(CASES["everything"]))}
    fixed = {*keys_of(slurm_spec(CASES["fixed"])), *keys_of(slurm_spec({"accounting": {"enabled": True}}))}
    assert fixed - free <= known.SLURM_CONF_RESERVED.keys()
    assert not known.SLURM_CONF.keys() & known.SLURM_CONF_RESERVED.keys()
    assert not known.PARTITION.keys() & known.PARTITION_RESERVED.keys()
    assert not known.NODE.keys() & known.NODE_RESERVED.keys()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("AuthType=auth/none", "AuthType: is set by the platform: it decides whose requests"),
        ("authTYPE = auth/none", "is set by the platform"),
        ("SlurmUser=root", "is set by the platform"),
        ("SlurmctldPort=1", "is set by the platform"),
        ("StateSaveLocation=/tmp", "is set by the platform"),
        ("ProctrackType=proctrack/pgid", "only the pod confines a job"),
        ("PlugStackConfig=/home/eve/plugstack.conf", "load code"),
        ("Prolog=/home/eve/run", "run a program"),
        ("NodeName=x CPUs=1000", "only from the node sets"),
        ("PartitionName=x Nodes=ALL", "only from the node sets"),
        ("Include /etc/passwd", "not of the form Key=value"),
        ("Include=/etc/passwd", "is set by the platform"),
        ("MaxArraySize=1\\\nAuthType=auth/none", "backslash"),
        ("MaxArraySize=1\rAuthType=auth/none", "printable"),
        ("MaxArraySize=1\u2028AuthType=auth/none", "printable"),
        ("MaxArraySize=1 AuthType=auth/none", "one word"),
        ("MaxArraySize=1 # more", "one word"),
        ('MailDomain="a" AuthType="b"', "one word"),
        ('MailDomain="a', "one word"),
        ("MaxArraySize=", "one word"),
        ("MaxArraySize", "not of the form"),
        ("=1", "not of the form"),
        ("MaxArraySize=1\nmaxarraysize=2", "line 2: maxarraysize: set twice"),
        ("NoSuchKey=1", "not a key that can be set here"),
        ("SlurmctldParameters=enable_configless", "enable_configless: is set by the platform"),
        ("SlurmctldParameters=a,Cloud_Reg_Addrs", "is set by the platform"),
        ("SlurmdParameters=config_overrides", "is set by the platform"),
        ("x" * 8193, "longer than"),
        ("MaxArraySize=many", "slurmctld does not accept this value"),
        ("SlurmctldTimeout=-1", "slurmctld does not accept this value"),
        ("SelectTypeParameters=CR_Nothing", "slurmctld does not accept this value"),
        ("PreemptMode=OFF", "slurmctld does not accept this value"),
        ("MpiDefault=openmpi", "slurmctld does not accept this value"),
        ("SlurmdTimeout=86400", "slurmctld does not accept this value"),
        ("KillWait=65536", "slurmctld does not accept this value"),
        ("MinJobAge=9999999999", "slurmctld does not accept this value"),
        ("OverTimeLimit=70000", "slurmctld does not accept this value"),
        ("DebugFlags=Backfill,Gress", "slurmctld does not accept this value"),
        ("PropagateResourceLimits=NOFILES", "slurmctld does not accept this value"),
        ("PropagateResourceLimitsExcept=MEMLOCK,ALL", "slurmctld does not accept this value"),
        ("PropagatePrioProcess=3", "slurmctld does not accept this value"),
        ("ReconfigFlags=KeepAll", "slurmctld does not accept this value"),
    ],
)
def test_lines_that_are_refused(text: str, said: str) -> None:
    with pytest.raises(extra.ExtraConfError, match=re.escape(said)):
        extra.slurm_conf_lines(text)


@pytest.mark.parametrize(
    ("parse", "text", "said"),
    [
        (extra.partition_words, "Nodes=ALL", "is set by the platform"),
        (extra.partition_words, "PartitionName=x", "is set by the platform"),
        (extra.partition_words, "MaxTime=1 UNLIMITED", "not of the form"),
        (extra.partition_words, "MaxTime=forever", "slurmctld does not accept this value"),
        (extra.partition_words, "PriorityTier=65536", "slurmctld does not accept this value"),
        (extra.partition_words, "State=SLEEPY", "slurmctld does not accept this value"),
        (extra.partition_words, "MaxTime=1\nPartitionName=x Nodes=ALL", "more than one line"),
        (extra.partition_words, 'MaxTime="1" Nodes="ALL"', "is set by the platform"),
        (extra.partition_words, 'MaxTime="1"Nodes=ALL', "not of the form"),
        (extra.partition_words, "MaxTime=1 maxtime=2", "set twice"),
        (extra.node_words, "Gres=gpu:8", "node set's own fields"),
        (extra.node_words, "CPUs=64", "node set's own fields"),
        (extra.node_words, "Features=gpu", "field features"),
        (extra.node_words, "NodeName=x", "is set by the platform"),
        (extra.node_words, "Port=1", "is set by the platform"),
        (extra.node_words, "Topology=platform:a", "is set by the platform"),
        (extra.node_words, "Weight=1;reboot", "slurmctld does not accept this value"),
    ],
)
def test_words_that_are_refused(parse: Any, text: str, said: str) -> None:
    with pytest.raises(extra.ExtraConfError, match=re.escape(said)):
        parse(text)


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (extra.slurm_conf_lines, "MaxArraySize=1000\nDefMemPerCPU=512\nselecttypeparameters=cr_cpu_memory,CR_LLN"),
        (extra.slurm_conf_lines, "PriorityWeightTRES=CPU=1000,Mem=2000,GRES/gpu=3000\nPrivateData=jobs,usage"),
        (extra.slurm_conf_lines, 'PriorityDecayHalfLife=14-0\nDebugFlags=Backfill,Gres\nMailDomain="example.org"'),
        (extra.slurm_conf_lines, "SlurmdTimeout=65535\nKillWait=60000\nMinJobAge=4000000000"),
        (extra.slurm_conf_lines, "DebugFlags=gres,DB_Job,SelectType\nPropagatePrioProcess=2"),
        (extra.slurm_conf_lines, 'PropagateResourceLimits="NOFILE,RLIMIT_MEMLOCK"\nReconfigFlags=KeepPartInfo,KeepPartState'),
        (extra.slurm_conf_lines, "ResvOverRun=UNLIMITED\nDefMemPerNode=9999999999"),
        (extra.slurm_conf_lines, "MetricsAuthUsers=alice,bob_2\nMetricsParameters=ignore_private_data"),
        (extra.slurm_conf_lines, "Licenses=matlab:4,comsol:2\nSlurmctldParameters=max_dbd_msg_action=discard"),
        (
            extra.partition_words,
            "MaxTime=1-00:30:00 DefaultTime=90 PriorityTier=10 OverSubscribe=FORCE:4 AllowGroups=slurm-admins",
        ),
        (extra.partition_words, 'TRESBillingWeights="CPU=1.0,Mem=0.25G,GRES/gpu=2.0" QOS=high MaxNodes=UNLIMITED'),
        (extra.node_words, 'Weight=10 Comment="the large ones"'),
    ],
)
def test_what_tunes_a_cluster_is_taken(parse: Any, text: str) -> None:
    assert len(parse(text)) == text.count("\n") + 1 if parse is extra.slurm_conf_lines else parse(text)


def test_what_is_given_replaces_our_setting_or_is_added_to_our_list() -> None:
    settings = dict(config.settings(slurm_spec(CASES["everything"])))
    assert settings["SchedulerParameters"].startswith("bf_continue,")
    assert settings["SchedulerParameters"].endswith(",bf_window=1440")
    assert settings["MaxArraySize"] == "100000"
    assert settings["SlurmctldTimeout"] == "120"
    assert "slurmctldtimeout" not in settings


def test_metrics_ask_for_a_token_unless_a_tenant_opens_them() -> None:
    def named(*extra_conf: tuple[str, str]) -> str | None:
        spec = replace(slurm_spec(CASES["fixed"]), extra_conf=extra_conf)
        lines = dict(line[0] for line in read_as_slurm_does(config.slurm_conf(spec)))
        assert lines["metricstype"] == "metrics/openmetrics"
        return lines.get("metricsauthusers")

    assert named() == "slurm"
    assert named(("metricsAuthUsers", "alice")) == "alice"
    assert named(("metricsparameters", "ignore_private_data")) is None
    for text in ("MetricsAuthUsers=", "MetricsAuthUsers=a,,b", "MetricsParameters=none", "MetricsType=metrics/none"):
        with pytest.raises(extra.ExtraConfError):
            extra.slurm_conf_lines(text)


@given(ANY)
def test_whatever_the_extra_conf_no_line_is_added_that_was_not_taken(text: str) -> None:
    try:
        pairs = extra.slurm_conf_lines(text)
    except extra.ExtraConfError:
        return
    expected = {*PLAIN, *(key.lower() for key, _ in pairs)}
    assert set(keys_of(slurm_spec(CASES["fixed"], extra_conf=pairs))) == expected
    assert not {key.lower() for key, _ in pairs} & known.SLURM_CONF_RESERVED.keys()


@given(ANY)
def test_whatever_follows_an_allowed_key_nothing_but_it_is_set(text: str) -> None:
    try:
        pairs = extra.slurm_conf_lines(f"MailDomain={text}")
    except extra.ExtraConfError:
        return
    assert set(keys_of(slurm_spec(CASES["fixed"], extra_conf=pairs))) <= {*PLAIN} | known.SLURM_CONF.keys()


@given(ANY)
def test_whatever_the_partitions_config_its_line_stays_one_partition(text: str) -> None:
    try:
        pairs = extra.partition_words(text)
    except extra.ExtraConfError:
        return
    node_set = NodeSetSpec("gpu", 1, 1, 1, 1, 1024, partition=PartitionSpec(config=pairs))
    lines = read_as_slurm_does(config.slurm_conf(slurm_spec(node_sets=(node_set,))))
    (partition,) = [line for line in lines if line[0][0] == "partitionname"]
    keys = [key for key, _ in partition]
    assert keys[:2] == ["partitionname", "nodes"]
    assert partition[1][1] == "gpu"
    assert len(keys) == len(set(keys))


@given(ANY)
def test_whatever_the_nodes_extra_conf_its_size_stays_the_pods(text: str) -> None:
    try:
        pairs = extra.node_words(text)
    except extra.ExtraConfError:
        return
    words = slurmd_conf(NodeSetSpec("w", 1, 1, 1, 2, 1024, gpus=2, extra_conf=pairs))
    keys = [key for key, _ in read_as_slurm_does(words)[0]]
    assert keys[:4] == ["cpus", "realmemory", "feature", "gres"] or "gres" in keys
    assert len(keys) == len(set(keys))
    assert len(read_as_slurm_does(words)) == 1


@given(ANY)
def test_a_value_that_came_past_every_check_still_renders_nothing(text: str) -> None:
    """The templates trust no input: a value that is neither one word nor one quoted text stops the rendering."""
    assume(not is_value(text))
    for spec in (
        slurm_spec(CASES["fixed"], cluster_name=text),
        slurm_spec(CASES["fixed"], extra_conf=(("MaxArraySize", text),)),
        slurm_spec(node_sets=(NodeSetSpec(text, 1, 1, 1, 1, 1024),)),
    ):
        with pytest.raises(UnsafeTextError):
            config.slurm_conf(spec)
    with pytest.raises(UnsafeTextError):
        config.slurmdbd_conf(slurm_spec(), text)
    with pytest.raises(UnsafeTextError):
        config.topology_yaml(slurm_spec(topology=TopologySpec("tree", (text,))))


@given(st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=126), max_size=12), st.booleans())
def test_a_checked_value_is_one_line_without_comment_and_escape(text: str, quoted: bool) -> None:
    text = f'"{text}"' if quoted else text
    if not is_value(text):
        with pytest.raises(UnsafeTextError):
            checked(text)
        return
    written = checked(text)
    assert not set("\n\r\\#\0") & set(written)
    assert read_as_slurm_does(f"Key={written}") == [[("key", written)]]


def test_a_removed_node_sets_partition_stays_down_until_it_is_let_go() -> None:
    lines = read_as_slurm_does(config.slurm_conf(slurm_spec(CASES["fixed"], retiring=("old",))))
    partitions = {line[0][1]: dict(line) for line in lines if line[0][0] == "partitionname"}
    assert partitions["old"] == {"partitionname": "old", "nodes": "old", "state": "DOWN"}
    assert partitions["gpu"]["default"] == "YES"


@given(st.lists(st.one_of(ANY, st.sampled_from(["all", "default", "ok", "also-ok"])), max_size=4))
def test_a_node_set_that_a_tenant_made_up_in_the_plane_does_no_harm(names: list[str]) -> None:
    lines = read_as_slurm_does(config.slurm_conf(slurm_spec(CASES["fixed"], retiring=tuple(dict.fromkeys(names)))))
    down = {line[0][1] for line in lines if line[0][0] == "partitionname"} - {"gpu"}
    assert {"ok", "also-ok"} & set(names) <= down <= set(names)
    assert not {"all", "default"} & down


def test_one_partition_is_the_default() -> None:
    lines = read_as_slurm_does(config.slurm_conf(slurm_spec(CASES["everything"])))
    assert {line[0][1]: dict(line)["default"] for line in lines if line[0][0] == "partitionname"} == {
        "h100": "YES",
        "cpu": "NO",
    }
    assert {line[0][1] for line in lines if line[0][0] == "nodeset"} == {"h100", "cpu", "spare"}


def test_gres_follow_the_node_sets() -> None:
    assert config.gres_conf(slurm_spec(CASES["everything"])).splitlines() == [
        "AutoDetect=off",
        "NodeName=h100-[0-1023] Name=gpu Type=h100 File=/run/slurm-gpus/nvidia[0-3]",
        "NodeName=spare-[0-1023] Name=gpu File=/run/slurm-gpus/nvidia[0-0]",
    ]
    assert config.gres_conf(slurm_spec()).splitlines() == ["AutoDetect=off"]


def test_a_set_of_no_workers_now_and_one_above_its_max_have_their_gpus_described() -> None:
    """A worker above a lowered maximum keeps its GPUs until it has been given back."""
    sets = tuple(NodeSetSpec("gpu", 0, 0, most, 1, 1024, gpus=2) for most in (0, 1, 9))
    assert len({config.gres_conf(slurm_spec(node_sets=(each,))) for each in sets}) == 1


@pytest.mark.parametrize("kind", ["tree", "block", "flat"])
def test_the_topology_is_yaml_with_every_unit_once(kind: str) -> None:
    (topology,) = yaml.safe_load(config.topology_yaml(slurm_spec(topology=TopologySpec(kind, ("rack-1", "rack-2")))))
    assert topology["topology"] == "platform"
    assert topology["cluster_default"] is True
    if kind == "flat":
        assert topology["flat"] is True
    elif kind == "block":
        assert [each["block"] for each in topology["block"]["blocks"]] == ["unplaced", "rack-1", "rack-2"]
    else:
        root, *leaves = topology["tree"]["switches"]
        assert root["children"].split(",") == [each["switch"] for each in leaves] == ["unplaced", "rack-1", "rack-2"]
