"""What the reference day proved: checks and figures from evidence. Pure: evidence in, judgement out.

Evidence (day.py gathers it, JSON-like):
  speed, grace_s
  real_of: {"up", "noon", "down", "end"} -> real ms at which the cluster's clock showed 08:00, 12:00, 22:00, the end
  replicas: [{"index", "ready_ms", "ended_ms" or None, "port", "answered"}]   one per started replica process
  service: {"preemptions": [...]}, instances: {name: {"preemptions": [...], "starts": n, "alive": bool}}
  jobs: {id: {"name", "quota", "gpus", "steps", "status", "preemptions": [{"Attempt", "Reason", "By", "Sentence"}],
              "left_s": {attempt: real seconds from being told to leave until gone}}}
  journals: {id: [{"event", "at", "attempt", "step"}]}
  samples: [{"real_ms", "clock_ms", "total", "in_quota", "idle", "free", "quotas": {name: {...}}}]
A check is {"ok": bool, "evidence": ...}. With nothing to judge a check fails: a day in which nobody was evicted proves
nothing about evictions.
"""

REPLICAS_WANTED = 16
REPLICA_GPUS = 4
NIGHT_REPLICAS = 2
UP_WITHIN_S = 5.0  # real time from cron to the last replica: a grace period and a start
REFILL_WITHIN_S = 2.0
SLACK_S = 1.0  # beyond the grace period: kill, proof, and the reports' way


def starts_of(journal):
    return [event for event in journal if event["event"] == "start"]


def progress_at(journal, attempt):
    """(steps done when attempt `attempt` was over, whether it said so itself on SIGTERM), or None if it never began."""
    events = [event for event in journal if event["attempt"] == attempt]
    if not events:
        return None
    signals = [event["step"] for event in events if event["event"] == "signal"]
    return (signals[-1], True) if signals else (max(event["step"] for event in events), False)


def resumes_of(job_id, evidence):
    """One row for each eviction of a job: what was done at the signal, and where the next attempt went on."""
    journal = evidence["journals"].get(job_id, [])
    rows = []
    for preemption in evidence["jobs"][job_id]["preemptions"]:
        attempt = preemption["Attempt"]
        before = progress_at(journal, attempt)
        if before is None:  # evicted before its process began: nothing was done, nothing to lose
            earlier = [event["step"] for event in journal if event["attempt"] < attempt]
            before = (max(earlier, default=0), False)
        later = [event for event in starts_of(journal) if event["attempt"] > attempt]
        rows.append({"job": job_id, "name": evidence["jobs"][job_id]["name"], "attempt": attempt,
                     "reason": preemption["Reason"], "by": preemption["By"], "why": preemption["Sentence"],
                     "step_at_signal": before[0], "told_itself": before[1],
                     "step_resumed": later[0]["step"] if later else None,
                     "gpus": evidence["jobs"][job_id]["gpus"]})
    return rows


def all_resumes(evidence):
    return [row for job_id in sorted(evidence["jobs"]) for row in resumes_of(job_id, evidence)]


def training_gpus_at(evidence, real_ms):
    """GPUs of trainers whose process ran at a moment, from their own journals."""
    gpus = 0
    for job_id, journal in evidence["journals"].items():
        job = evidence["jobs"].get(job_id)
        if job is None:
            continue
        running = False
        for event in journal:
            if event["at"] > real_ms:
                break
            running = event["event"] in ("start", "checkpoint", "signal")
        gpus += job["gpus"] if running else 0
    return gpus


def check(ok, **evidence):
    return {"ok": bool(ok), "evidence": evidence}


def check_scale_up(evidence):
    up, down = evidence["real_of"]["up"], evidence["real_of"]["down"]
    alive = [one for one in evidence["replicas"] if one["ready_ms"] < down and (one["ended_ms"] or down) >= down]
    last = max((one["ready_ms"] for one in alive), default=None)
    seconds = None if last is None else round((last - up) / 1000, 3)
    answered = sum(one["answered"] for one in alive)
    return check(len(alive) == REPLICAS_WANTED and answered == REPLICAS_WANTED and seconds <= UP_WITHIN_S,
                 replicas=len(alive), answered_http=answered, gpus=len(alive) * REPLICA_GPUS,
                 seconds_from_cron_to_last_ready=seconds, allowed_s=UP_WITHIN_S)


def check_victims_only_training(evidence):
    rows = all_resumes(evidence)
    others = sum(len(one["preemptions"]) for one in evidence["instances"].values())
    others += len(evidence["service"]["preemptions"])
    return check(rows and others == 0, trainings_evicted=len(rows), others_evicted=others)


def check_nobody_else_evicted(evidence):
    moved = {name: one for name, one in evidence["instances"].items()
             if one["preemptions"] or one["starts"] != 1 or not one["alive"]}
    gone = evidence["service"]["preemptions"]
    return check(evidence["instances"] and not moved and not gone, dev_instances=len(evidence["instances"]),
                 dev_instances_moved=moved, replicas_evicted=gone)


def check_resumed(evidence):
    rows = all_resumes(evidence)
    bad = [row for row in rows if row["step_resumed"] is None or row["step_resumed"] < row["step_at_signal"]]
    return check(rows and not bad, evictions=len(rows), lost_progress=bad)


def check_refill(evidence):
    """At 22:00 + 2 s training runs on at least as many more GPUs as the replicas gave back."""
    down = evidence["real_of"]["down"]
    ended = [one["ended_ms"] for one in evidence["replicas"] if one["ended_ms"] and one["ended_ms"] >= down - 500]
    freed = len(ended) * REPLICA_GPUS
    if not ended:
        return check(False, freed_gpus=0)
    # Within two seconds of the cron's moment, the replicas' end included. At the moment of a start, since others end meanwhile.
    until = down + REFILL_WITHIN_S * 1000
    starts = [one["at"] for journal in evidence["journals"].values() for one in journal if down <= one["at"] <= until]
    before = training_gpus_at(evidence, down)
    after = max((training_gpus_at(evidence, moment) for moment in [*starts, until]), default=0)
    return check(freed == (REPLICAS_WANTED - NIGHT_REPLICAS) * REPLICA_GPUS and after - before >= freed,
                 freed_gpus=freed, training_gpus_before=before, training_gpus_within_2s=after,
                 seconds_to_free_all=round((max(ended) - down) / 1000, 3))


def check_scaling(evidence, wanted):
    """After noon the guarantees are the new ones, 1.2 comes down to its own and stays, and 1.1 gets what it may hold."""
    noon, end = evidence["real_of"]["noon"], evidence["real_of"]["end"]
    after = [one for one in evidence["samples"] if noon + 2_000 <= one["real_ms"] <= end]
    if not after:
        return check(False, samples=0)
    guarantees = {name: sorted({one["quotas"][name]["guarantee"] for one in after}) for name in wanted}
    highest = {name: max(one["quotas"][name]["holding"] for one in after) for name in wanted}
    used = max(one["quotas"]["1.1"]["used"] for one in after)
    in_use = [one for one in evidence["samples"] if abs(one["real_ms"] - noon) < 1_000 and
              one["quotas"]["1.1"]["used"] > 0 and one["quotas"]["1.2"]["used"] > 0]
    ok = all(guarantees[name] == [wanted[name]] for name in wanted)
    ok = ok and highest["1.1"] == wanted["1.1"] and highest["1.2"] <= wanted["1.2"] and bool(in_use)
    return check(ok, guarantees=guarantees, most_held=highest, most_used_by_1_1=used, scaled_while_in_use=bool(in_use))


def check_all_finished(evidence):
    unfinished = {}
    for job_id, job in evidence["jobs"].items():
        done = [event["step"] for event in evidence["journals"].get(job_id, []) if event["event"] == "finished"]
        if job["status"] != "Succeeded" or not done or done[-1] != job["steps"]:
            unfinished[job["name"]] = {"status": job["status"], "finished_at": done, "steps": job["steps"]}
    return check(evidence["jobs"] and not unfinished, trainings=len(evidence["jobs"]), unfinished=unfinished)


def check_idle_leaves(evidence):
    """From the moment an idle training was told that an in-quota claim needs its GPUs until they were free."""
    times, unknown = [], []
    for job in evidence["jobs"].values():
        for preemption in job["preemptions"]:
            if preemption["Reason"].endswith("IDLE_RECLAIMED"):
                left = job["left_s"].get(preemption["Attempt"])
                (unknown if left is None else times).append(left if left is not None else job["name"])
    allowed = evidence["grace_s"] + SLACK_S
    return check(times and not unknown and max(times) <= allowed, idle_reclaimed=len(times) + len(unknown),
                 longest_s=max(times, default=None), allowed_s=allowed, without_times=unknown)


def judge(evidence, guarantees_noon):
    return {
        "all_16_replicas_run_at_0800": check_scale_up(evidence),
        "victims_are_only_training_pods": check_victims_only_training(evidence),
        "no_dev_instance_or_replica_evicted": check_nobody_else_evicted(evidence),
        "every_evicted_trainer_resumed": check_resumed(evidence),
        "freed_gpus_run_training_at_2200": check_refill(evidence),
        "quotas_scaled_at_noon_in_use": check_scaling(evidence, guarantees_noon),
        "all_trainers_finish": check_all_finished(evidence),
        "idle_pods_leave_in_time": check_idle_leaves(evidence),
    }


def figures(evidence):
    rows = all_resumes(evidence)
    lost = sum(max(0, row["step_at_signal"] - (row["step_resumed"] or 0)) * row["gpus"] for row in rows)
    kept = sum((row["step_resumed"] or 0) * row["gpus"] for row in rows)
    shares = [(one["in_quota"] + one["idle"]) / one["total"] for one in evidence["samples"] if one["total"] > 0]
    reasons = {}
    for row in rows:
        reasons[row["reason"]] = reasons.get(row["reason"], 0) + 1
    return {"victims": rows, "victims_by_reason": reasons, "gpu_steps_lost": lost, "gpu_steps_resumed": kept,
            "gpus_in_use_mean": round(sum(shares) / len(shares), 4) if shares else None}


def hourly(evidence, day_start_ms):
    """Mean GPUs by hour of the day: service, training in quota, idle training, development, free."""
    hours = {}
    dev = evidence["dev_gpus"]
    for one in evidence["samples"]:
        hours.setdefault(int((one["clock_ms"] - day_start_ms) // 3_600_000), []).append(one)
    rows = []
    for hour, samples in sorted(hours.items()):
        def mean(value):
            return sum(value(one) for one in samples) / len(samples)
        service = mean(lambda one: one["quotas"]["1"]["used"])
        in_quota = mean(lambda one: one["quotas"]["1.1"]["used"] + one["quotas"]["1.2"]["used"])
        rows.append({"hour": hour, "service": round(service, 1), "dev": dev, "training": round(max(0, in_quota - dev), 1),
                     "idle_training": round(mean(lambda one: one["idle"]), 1),
                     "waiting": round(mean(lambda one: sum(q["waiting"] for q in one["quotas"].values())), 1),
                     "total": max(one["total"] for one in samples)})
    return rows


def chart(rows, width=64):
    """A line an hour: what the GPUs did."""
    lines = ["hour   S service  T training  i idle training  D development  . free", ""]
    for row in rows:
        scale = width / max(1, row["total"])
        bar = ""
        for letter, key in (("S", "service"), ("D", "dev"), ("T", "training"), ("i", "idle_training")):
            bar += letter * round(row[key] * scale)
        lines.append(f"{row['hour']:02}:00  {bar[:width]:.<{width}}  {row['waiting']:5.0f} GPUs waited for")
    return "\n".join(lines)
