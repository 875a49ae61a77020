"""Accounting on a real database: records, associations, QOS, limits, fair share, preemption, reports."""

from e2e import workloads
from e2e.poll import until
from e2e.slurm import jobs
from e2e.slurm.clusters import BOB, Cluster


def test_sacct_tells_each_job_its_user_and_how_it_ended(quiet: Cluster) -> None:
    good = jobs.submit(quiet, "true", "--job-name=recorded", user=BOB)
    bad = jobs.submit(quiet, "exit 3", "--job-name=recorded-too", user=BOB)
    jobs.wait(quiet, good)
    jobs.wait(quiet, bad, "FAILED")

    def recorded() -> None:
        words = ("sacct", "-a", "-X", "-n", "-P", "-j", f"{good},{bad}", "-o", "JobID,User,JobName,State,ExitCode")
        lines = set(quiet.run(*words).out.split())
        wanted = {f"{good}|bob|recorded|COMPLETED|0:0", f"{bad}|bob|recorded-too|FAILED|3:0"}
        workloads.expect(lines == wanted, str(lines))

    until("both jobs to be in the database", recorded, seconds=60)


def test_users_have_associations_and_alice_administers_them(red: Cluster) -> None:
    shown = red.run("sacctmgr", "-n", "-P", "show", "assoc", "format=User,Account").out.split()
    assert {line.split("|")[0] for line in shown} >= {"alice", "bob"}
    red.run("sacctmgr", "-i", "add", "account", "team", "fairshare=10")
    refused = red.run("sacctmgr", "-i", "add", "account", "other", user=BOB, check=False)
    assert refused.code != 0, "bob is not an administrator, and was not refused"
    assert "only admins" in refused.text.lower(), refused.text
    accounts = red.run("sacctmgr", "-n", "-P", "show", "account", "format=Account").out.split()
    assert ("team" in accounts, "other" in accounts) == (True, False), accounts
    red.run("sacctmgr", "-i", "add", "user", "bob", "account=team", "fairshare=5")
    assert "bob|team" in red.run("sacctmgr", "-n", "-P", "show", "assoc", "format=User,Account").out.split()


def test_a_limit_by_tres_holds_a_job_back(quiet: Cluster) -> None:
    quiet.run("sacctmgr", "-i", "add", "qos", "tiny", "set", "MaxTRESPerUser=cpu=1", "flags=DenyOnLimit")
    quiet.run("sacctmgr", "-i", "modify", "user", "alice,bob", "set", "qos+=tiny")
    try:
        fits = jobs.submit(quiet, "true", "--qos=tiny", "-n", "1")
        jobs.wait(quiet, fits)
        refused = quiet.run("sbatch", "--qos=tiny", "-N", "2", "-n", "2", "--wrap", "true", check=False)
        assert refused.code != 0
        assert "QOS" in refused.text, refused.text
        # The control: without the QOS the same job runs.
        jobs.wait(quiet, jobs.submit(quiet, "true", "-N", "2", "-n", "2"))
    finally:
        quiet.run("sacctmgr", "-i", "modify", "user", "alice,bob", "set", "qos-=tiny", check=False)


def test_fair_share_with_multifactor_priority(quiet: Cluster) -> None:
    assert quiet.config("PriorityType") == "priority/multifactor"
    weight = float(quiet.config("PriorityWeightFairShare"))
    assert weight > 0
    running = jobs.submit(quiet, "sleep 600", "--exclusive", "--nodelist=cpu-0")
    jobs.wait(quiet, running, "RUNNING")
    waiting = {user: jobs.submit(quiet, "true", "--nodelist=cpu-0", user=user) for user in ("alice", "bob")}

    def weighed() -> None:
        listed = quiet.run("sshare", "-a", "-n", "-P", "-o", "User,FairShare").out.split()
        shares = [(user, float(share)) for user, _, share in (line.partition("|") for line in listed) if user and share]
        lines = quiet.run("sprio", "-h", "-o", "%i %Y %F").out.splitlines()
        found = {number: (int(whole), int(part)) for number, whole, part in (line.split() for line in lines)}
        for user, number in waiting.items():
            whole, part = found.get(str(number), (0, 0))
            of_shares = any(name == user and abs(part - share * weight) <= 2 for name, share in shares)
            workloads.expect(whole >= part > 0 and of_shares, f"{user}: {lines} {listed}")

    # Slurm computes shares every five minutes (PriorityCalcPeriod); those of new users are 0 until then.
    until("each waiting job to be weighed by its user's share", weighed, seconds=330, patience=1)
    jobs.cancel_all(quiet)


def test_backfill_starts_a_short_job_before_a_wide_one(quiet: Cluster) -> None:
    assert quiet.config("SchedulerType") == "sched/backfill"
    first = jobs.submit(quiet, "sleep 170", "--exclusive", "--nodelist=cpu-0", "--time=3")
    jobs.wait(quiet, first, "RUNNING")
    wide = jobs.submit(quiet, "true", "--exclusive", "-p", "cpu", "-N", "2", "--time=10")

    def held_back() -> None:
        job = jobs.find(quiet, wide)
        workloads.expect(job is not None and job.state == "PENDING" and job.reason in {"Resources", "Priority"}, str(job))

    until("the wide job to wait for its nodes", held_back, seconds=60)
    # Its priority is lower than that of the wide job: only the backfill scheduler considers later jobs.
    short = jobs.submit(quiet, "true", "-p", "cpu", "--time=1", "--nice=100")
    jobs.wait(quiet, short, seconds=80)
    assert "Scheduler=Backfill" in quiet.run("scontrol", "-o", "show", "job", str(short)).out
    waiting = jobs.find(quiet, wide)
    assert waiting is not None
    assert waiting.state == "PENDING", "the short job passed the wide one"
    jobs.cancel_all(quiet)


def test_preemption_by_qos(quiet: Cluster) -> None:
    quiet.run("sacctmgr", "-i", "add", "qos", "low", "set", "PreemptMode=requeue")
    quiet.run("sacctmgr", "-i", "add", "qos", "urgent", "set", "Preempt=low", "Priority=100")
    quiet.run("sacctmgr", "-i", "modify", "user", "alice,bob", "set", "qos+=low,urgent")
    script = 'test "${SLURM_RESTART_COUNT:-0}" -gt 0 || sleep 300'
    victim = jobs.submit(quiet, script, "--qos=low", "--exclusive", "--nodelist=cpu-0", "--requeue")
    jobs.wait(quiet, victim, "RUNNING")
    urgent = jobs.submit(quiet, "true", "--qos=urgent", "--exclusive", "--nodelist=cpu-0", user=BOB)
    jobs.wait(quiet, urgent, seconds=120)
    assert jobs.wait(quiet, victim, seconds=240).restarts == 1


def test_sreport_answers_with_its_tables(quiet: Cluster) -> None:
    """The database aggregates every full hour: in the first hour of a cluster the tables are empty, but have their headers."""
    for report, columns in (
        (("cluster", "utilization"), {"Cluster", "Allocated", "Idle"}),
        (("user", "top"), {"Login", "Used"}),
    ):
        lines = quiet.run("sreport", "-P", *report, "start=now-1days", "end=now+1days").out.splitlines()
        assert any(columns <= set(line.split("|")) for line in lines), lines
