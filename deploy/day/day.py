"""The reference day for real: 128 GPUs, three teams, a day in minutes, real processes. Run by `./dev run`.

Starts ebbd and an agent with 16 x 8 declared GPUs on free loopback ports and a fresh data directory, applies
config/examples/three_teams.yaml, submits the day's trainings, scales the quotas at noon, watches, and says at the end
what the day proved. Exit code with --once: 0 if every check holds, 1 if one fails (named on stderr), 2 if the day could
not be run.
"""

import argparse
import concurrent.futures
import datetime
import glob
import http.client
import json
import os
import re
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import plan
import summary
from local_cluster import ROOT, Cluster, NotInTime, Refused, is_alive
from view import View

THREE_TEAMS = os.path.join(ROOT, "config", "examples", "three_teams.yaml")
READY = re.compile(r"ready name=(\S+) port=(\d+) pid=(\d+) at=(\d+)")
INSTANCE_READY = re.compile(r"ready pid=(\d+)")
SAMPLE_EVERY_S = 0.25
END_AT_MOST_S = 300  # real time: a day that has not come to its end by then is judged as it stands
WORTH_SHOWING = ("preempt", "evict", "scale", "plan", "place", "start")


def real_ms():
    return time.time() * 1000


class Day:
    def __init__(self, cluster, speed, view):
        self.cluster, self.speed, self.view = cluster, speed, view
        self.plan = plan.stream()
        self.submitters = concurrent.futures.ThreadPoolExecutor(4)  # a slow answer must not stop the watching
        self.submits = []
        self.samples = []
        self.replicas = {}  # log file -> what is known of the process
        self.decision = 0
        self.noon_done = False
        self.clock_base = None  # (clock ms, real ms)
        self.quotas = self.workspaces = None

    # -- the clock ---------------------------------------------------------------------------------

    def read_clock(self):
        """Ties the cluster's clock to this machine's, by the quickest of several answers."""
        best = None
        for _ in range(10):
            before = real_ms()
            clock = self.cluster.api("GET", "/ebb/v1/status")["ClockMs"]
            after = real_ms()
            if best is None or after - before < best[0]:
                best = (after - before, clock, (before + after) / 2)
        self.clock_base = best[1:]

    def clock_ms(self):
        clock, real = self.clock_base
        return clock + (real_ms() - real) * self.speed

    def real_of_minute(self, minute):
        clock, real = self.clock_base
        return real + (plan.clock_ms_of(minute) - clock) / self.speed

    # -- what the day does -------------------------------------------------------------------------

    def begin(self):
        self.cluster.start_server()
        self.cluster.start_agent("16x8:A100")
        self.cluster.apply(THREE_TEAMS)
        self.read_clock()
        self.quotas = self.cluster.quota_ids()
        self.workspaces = self.cluster.workspace_ids()

    def submit_due(self):
        while self.plan and self.clock_ms() >= plan.clock_ms_of(self.plan[0].minute):
            one = self.plan.pop(0)
            request = one.request(self.quotas[one.quota], self.workspaces[plan.WORKSPACES[one.quota]], self.speed)
            self.submits.append(self.submitters.submit(self.cluster.api, "POST", "/api/v1/jobs", request))
        for done in [one for one in self.submits if one.done()]:
            done.result()  # raises what was refused
            self.submits.remove(done)

    def scale_at_noon(self):
        if self.noon_done or self.clock_ms() < plan.clock_ms_of(plan.NOON):
            return
        self.noon_done = True
        self.sample()
        self.cluster.api("POST", "/ebb/v1/quotas/scale", {
            "Quotas": [{"QuotaId": self.quotas[name], "Min": {"GPU": str(gpus), "GPUType": "A100x8"}}
                       for name, gpus in plan.GUARANTEES_NOON.items()],
            "ScalePolicy": "Drain"})

    # -- what the day sees -------------------------------------------------------------------------

    def sample(self):
        now = real_ms()
        seen = self.cluster.overview()
        quotas = {quota["QuotaName"]: {"guarantee": quota["GuaranteeGPU"], "holding": quota["HoldingGPU"],
                                       "used": quota["UsedGPU"], "idle": quota["IdleUsedGPU"],
                                       "waiting": quota["WaitingGPU"], "waiting_by": quota["Waiting"],
                                       "running": quota["Running"]} for quota in seen["Quotas"]}
        self.samples.append({"real_ms": now, "clock_ms": seen["ClockMs"], "total": seen["TotalGPU"],
                             "in_quota": seen["InQuotaGPU"], "idle": seen["IdleUsedGPU"], "free": seen["FreeGPU"],
                             "quotas": quotas})
        return self.samples[-1]

    def look_at_replicas(self):
        """Finds started replicas by their logs, asks new ones by HTTP, notes when one has ended."""
        for path in glob.glob(os.path.join(glob.escape(self.cluster.data), "*", "logs", "service.*", "*", "*.log")):
            if path not in self.replicas:
                with open(path, encoding="utf-8", errors="replace") as file:
                    ready = READY.search(file.read())
                if ready:
                    self.replicas[path] = {"index": len(self.replicas), "port": int(ready[2]), "pid": int(ready[3]),
                                           "ready_ms": int(ready[4]), "ended_ms": None,
                                           "answered": answers(int(ready[2]))}
        for one in self.replicas.values():
            if one["ended_ms"] is None and not is_alive(one["pid"]):
                one["ended_ms"] = real_ms()
        return sum(one["ended_ms"] is None for one in self.replicas.values())

    def look_at_decisions(self):
        answer = self.cluster.api("GET", "/ebb/v1/decisions", query={"after": self.decision, "limit": 1000})
        self.decision = answer["Last"]
        self.view.add_decisions([f"{plan.clock_text(one['TimeMs'])} {one['Line']}" for one in answer["Decisions"]
                                 if one["Line"].split(" ", 1)[0] in WORTH_SHOWING])

    def is_over(self):
        if self.plan or self.submits or self.clock_ms() < plan.clock_ms_of(plan.DOWN + 60):
            return False
        return all(job["Status"] in ("Succeeded", "Failed", "Stopped") for job in self.cluster.jobs())

    def run(self):
        end = time.monotonic() + END_AT_MOST_S * max(1.0, 360 / self.speed)
        next_sample = next_look = time.monotonic()
        over = False
        while not over and time.monotonic() < end:
            self.submit_due()
            self.scale_at_noon()
            replicas = self.look_at_replicas()
            now = time.monotonic()
            if now >= next_sample:
                next_sample = now + SAMPLE_EVERY_S
                sample = self.sample()
                running = sum(quota["running"].get("DLC", 0) for quota in sample["quotas"].values())
                waiting = sum(quota["waiting_by"].get("DLC", 0) for quota in sample["quotas"].values())
                self.view.show(sample, replicas, f"{running} run, {waiting} wait")
            if now >= next_look:
                next_look = now + 1
                self.look_at_decisions()
                over = self.is_over()
            time.sleep(0.05)

    # -- what remains of it ------------------------------------------------------------------------

    def evidence(self):
        api = self.cluster.api
        jobs = {}
        for item in self.cluster.jobs():
            job_id = item["JobId"]
            job = api("GET", f"/api/v1/jobs/{job_id}")
            told = api("GET", f"/ebb/v1/explain/{job_id}")
            jobs[job_id] = {"name": job["DisplayName"], "quota": told["QuotaName"],
                            "gpus": gpus_of(job), "steps": steps_of(job["UserCommand"]),
                            "status": job["Status"], "preemptions": told["Preemptions"],
                            "left_s": self.left_seconds(job_id, told["Preemptions"])}
        instances = {}
        for item in self.cluster.all("/api/v2/instances", "Instances"):
            instance_id = item["InstanceId"]
            logs = glob.glob(os.path.join(glob.escape(self.cluster.data), "*", "logs", f"instance.{instance_id}.*",
                                          "*", "*.log"))
            pids = []
            for path in logs:
                with open(path, encoding="utf-8", errors="replace") as file:
                    pids += [int(pid) for pid in INSTANCE_READY.findall(file.read())]
            instances[item["InstanceName"]] = {
                "preemptions": api("GET", f"/ebb/v1/explain/{instance_id}")["Preemptions"], "starts": len(pids),
                "alive": bool(pids) and is_alive(pids[-1])}
        service_id = self.cluster.all("/api/v2/services", "Services")[0]["ServiceId"]
        return {"speed": self.speed, "grace_s": plan.GRACE_S, "dev_gpus": 8,
                "real_of": {"up": self.real_of_minute(plan.UP), "noon": self.real_of_minute(plan.NOON),
                            "down": self.real_of_minute(plan.DOWN), "end": real_ms()},
                "replicas": [one for _, one in sorted(self.replicas.items())],
                "service": {"preemptions": api("GET", f"/ebb/v1/explain/{service_id}")["Preemptions"]},
                "instances": instances, "jobs": jobs, "journals": self.cluster.journals(), "samples": self.samples}

    def left_seconds(self, job_id, preemptions):
        """Real seconds from `Preempted` to `Queued` in the job's events, by attempt, in the order they happened."""
        if not preemptions:
            return {}
        told, spans = None, []
        for line in self.cluster.api("GET", f"/api/v1/jobs/{job_id}/events")["Events"]:
            moment, _, reason, _ = line.split(" ", 3)
            if reason == "Preempted":
                told = event_ms(moment)
            elif reason == "Queued" and told is not None:
                spans.append((event_ms(moment) - told) / 1000 / self.speed)
                told = None
        spans = spans[-len(preemptions):]
        return {one["Attempt"]: round(span, 3) for one, span in zip(preemptions[-len(spans):], spans)}


def event_ms(text):
    """Milliseconds of the API's time, 2026-03-02T08:00:00.250Z or without the fraction."""
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1000


def answers(port):
    """Whether a replica answers HTTP on its port."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.request("GET", "/")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def gpus_of(job):
    return sum(int(spec.get("PodCount", 1)) * int(float(spec["ResourceConfig"]["GPU"])) for spec in job["JobSpecs"])


def steps_of(command):
    found = re.search(r"--steps (\d+)", command)
    return int(found[1]) if found else 0


def report(evidence):
    checks = summary.judge(evidence, plan.GUARANTEES_NOON)
    return {"ok": all(one["ok"] for one in checks.values()), "checks": checks, "figures": summary.figures(evidence),
            "hours": summary.hourly(evidence, plan.DAY_START_MS), "evidence": evidence}


def print_report(result, say):
    say("")
    say(summary.chart(result["hours"]))
    say("")
    figures = result["figures"]
    up = result["checks"]["all_16_replicas_run_at_0800"]["evidence"]["seconds_from_cron_to_last_ready"]
    say(f"from cron to the last of 16 replicas: {up} s of real time")
    say(f"GPUs in use, mean of the day: {100 * (figures['gpus_in_use_mean'] or 0):.1f} %")
    say(f"work lost by evictions: {figures['gpu_steps_lost']} GPU-steps; resumed from checkpoints: "
        f"{figures['gpu_steps_resumed']} GPU-steps")
    say(f"victims: {len(figures['victims'])} " + ", ".join(f"{reason} {count}" for reason, count in
                                                       sorted(figures["victims_by_reason"].items())))
    for row in figures["victims"]:
        say(f"  {row['name']:<16} step {row['step_at_signal']:>5} -> {row['step_resumed']}  {row['reason']} by {row['by']}"
            f"{': ' + row['why'] if row['why'] else ''}")
    say("")
    for name, one in result["checks"].items():
        say(f"{'ok  ' if one['ok'] else 'FAIL'}  {name}")


def serve_on(cluster):
    cli = os.path.relpath(os.path.join(cluster.programs, "ebb"))
    data = os.path.relpath(cluster.server_data)
    print(f"\nEbb keeps serving on http://{cluster.http} until Ctrl-C. Try:\n"
          f"  export EBB_DATA={data}\n"
          f"  {cli} top\n  {cli} quota tree\n  {cli} dlc list", flush=True)
    stop = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, stop)
    signal.sigwait(stop)


def arguments():
    parser = argparse.ArgumentParser(prog="./dev run", description="The reference day with real processes.")
    parser.add_argument("--once", action="store_true", help="end after the day; exit code 0 only if every check holds")
    parser.add_argument("--json", metavar="FILE", help="write the summary with checks and evidence")
    parser.add_argument("--speed", type=float, default=360, help="how much faster than real time (default 360)")
    parser.add_argument("--programs", default=os.path.join(ROOT, "build", "release", "bin"), help=argparse.SUPPRESS)
    parser.add_argument("--data", default=os.path.join(ROOT, ".ebb", "day"), help="data directory, emptied first")
    options = parser.parse_args()
    if not 1 <= options.speed <= 1440:
        parser.error(f"--speed is {options.speed:g}, allowed is 1 to 1440")
    return options


def main():
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    view = View()
    try:
        cluster = Cluster(options.programs, options.data, speed=options.speed, clock_start=plan.CLOCK_START)
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 2
    try:
        cluster.clear()  # what a former run left behind
        day = Day(cluster, options.speed, view)
        try:
            day.begin()
            view.say(f"ebbd on http://{cluster.http}, 16 nodes of 8 GPUs, the clock at {options.speed:g} times: a day "
                     f"in {86_400 / options.speed / 60:.0f} minutes")
            day.run()
            result = report(day.evidence())
        except (Refused, RuntimeError, NotInTime) as error:
            print(f"the day could not be run: {error}\n{cluster.log_end('ebbd')}", file=sys.stderr)
            return 2
        print_report(result, view.say)
        if options.json:
            with open(options.json, "w", encoding="utf-8") as file:
                json.dump(result, file, indent=1)
        failed = [name for name, one in result["checks"].items() if not one["ok"]]
        for name in failed:
            print(f"check failed: {name}: {json.dumps(result['checks'][name]['evidence'])[:600]}", file=sys.stderr)
        if not options.once:
            serve_on(cluster)
        return 1 if failed else 0
    except KeyboardInterrupt:
        return 130
    finally:
        cluster.close(keep=True)


if __name__ == "__main__":
    sys.exit(main())
