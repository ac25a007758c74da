"""Preemption with real processes, for `./dev bench preempt`.

128 one-GPU trainers run, with grace period 0. A service asks for 64 replicas of one GPU. Measured: from the moment the
request is accepted to the first line of the last replica, both by the clock of this machine. Median of 5.
"""

import argparse
import glob
import os
import re
import signal
import statistics
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "deploy", "day"))
from local_cluster import Cluster, wait_until  # noqa: E402

TRAINERS, REPLICAS, ROUNDS = 128, 64, 5
GOAL_S, SLURM_S = 0.6, 3.2
READY = re.compile(r"ready name=\S+ port=\d+ pid=(\d+) at=(\d+)")

FILE = """
Quotas:
  - QuotaName: root
    Min: {NodeSpecs: [{Type: A100x8, Count: 16}]}
    QuotaConfig:
      EnableSubQuotaPreemption: true
      SubQuotaPreemptionConfig: {PreemptedProducts: [DLC], PreemptedPriorityUpperBound: 9}
    SubQuotas:
      - {QuotaName: training, Min: {GPU: 128, GPUType: A100x8}}
Workspaces:
  - {WorkspaceName: lab, Quotas: [root, training]}
Services:
  - name: chat
    metadata: {instance: 0, gpu: 1, cpu: 1, memory: 1024, quota: root, workspace: lab, priority: 9}
    containers: [{script: "exec ebb_day_replica"}]
Jobs:
  - DisplayName: train
    Copies: 128
    Quota: training
    Workspace: lab
    JobType: PyTorchJob
    UserCommand: exec ebb_day_trainer --steps 1000000 --step-ms 500 --every 20
    Priority: 3
    JobSpecs:
      - {Type: Worker, PodCount: 1, ResourceConfig: {GPU: 1, CPU: 1, Memory: 1Gi}}
    Settings: {TerminationGracePeriodSeconds: 0}
"""


def ready_times(cluster, since_ms):
    """When the replicas that began after a moment were ready, ms."""
    times = []
    for path in glob.glob(os.path.join(glob.escape(cluster.data), "*", "logs", "service.*", "*", "*.log")):
        with open(path, encoding="utf-8", errors="replace") as file:
            times += [int(at) for _, at in READY.findall(file.read()) if int(at) >= since_ms]
    return times


def trainings_running(cluster):
    return sum(quota["Running"].get("DLC", 0) for quota in cluster.overview()["Quotas"])


def one_round(cluster):
    wait_until(lambda: trainings_running(cluster) == TRAINERS, 60,
               lambda: f"{TRAINERS} trainers run: {trainings_running(cluster)}", every=0.1)
    asked = time.time() * 1000
    cluster.api("PUT", "/api/v2/services/ebb/chat/scale", {"Instance": REPLICAS})
    accepted = time.time() * 1000
    # Looked at rarely, since looking costs the cores that are measured.
    times = wait_until(lambda: len(found := ready_times(cluster, asked)) == REPLICAS and found, 60,
                       lambda: f"{REPLICAS} replicas are ready: {len(ready_times(cluster, asked))}", every=0.25)
    cluster.api("PUT", "/api/v2/services/ebb/chat/scale", {"Instance": 0})
    return (max(times) - accepted) / 1000, (min(times) - accepted) / 1000


def main():
    parser = argparse.ArgumentParser(prog="./dev bench preempt")
    parser.add_argument("--programs", required=True)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended
    with tempfile.TemporaryDirectory(prefix="ebb-bench-") as scratch:
        cluster = Cluster(options.programs, os.path.join(scratch, "d"), log_level="warn")
        try:
            cluster.start_server()
            cluster.start_agent("16x8:A100")
            path = os.path.join(scratch, "file.yaml")
            with open(path, "w", encoding="utf-8") as file:
                file.write(FILE)
            cluster.apply(path)
            last = []
            for number in range(ROUNDS):
                seconds, first = one_round(cluster)
                last.append(seconds)
                print(f"round {number + 1}: first replica after {first:.3f} s, last of {REPLICAS} after {seconds:.3f} s",
                      flush=True)
        finally:
            cluster.close()
    median = statistics.median(last)
    print(f"preempt: median {median:.3f} s of {ROUNDS} from accepted request to the last replica's first line\n"
          f"  {REPLICAS} x 1 GPU out of {TRAINERS} one-GPU trainers, grace period 0, {os.cpu_count()} cores\n"
          f"  goal {GOAL_S} s; Slurm 22.05 on such a machine: {SLURM_S} s")
    return 0 if median <= GOAL_S else 1


if __name__ == "__main__":
    sys.exit(main())
