"""End-to-end tests: real ebbd, ebb-agent, pods. Each test class has a cluster of its own on free ports and a scratch
directory, and ends all of it. EBB_PROGRAMS names the directory of the built programs.
"""

import json
import os
import shutil
import signal
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(HERE)), "deploy", "day"))
from local_cluster import Cluster, NotInTime, Refused, is_alive, start_ticks, wait_until  # noqa: E402,F401

PROGRAMS = os.environ.get("EBB_PROGRAMS", os.path.join(HERE, "..", "..", "build", "release", "bin"))
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # a timeout ends what was started, too
FINAL = ("Succeeded", "Failed", "Stopped")


def trainer(steps=1_000_000, step_ms=20, every=10, extra=""):
    """A trainer's command. The default never ends by itself within a test."""
    return f"exec ebb_day_trainer --steps {steps} --step-ms {step_ms} --every {every} {extra}".strip()


def tree(nodes, children=None, preempt=True, name="root", strategy="PaiStrategyIntelligent", gpus=8):
    """An apply file (JSON is YAML) of one root of nodes with `gpus` each, children by GPUs, all bound to workspace `lab`."""
    return json.dumps({
        "Quotas": [{
            "QuotaName": name,
            "Min": {"NodeSpecs": [{"Type": f"A100x{gpus}", "Count": nodes}]},
            "QueueStrategy": strategy,
            "QuotaConfig": {"EnableSubQuotaPreemption": preempt,
                            "SubQuotaPreemptionConfig": {"PreemptedProducts": ["DLC"],
                                                         "PreemptedPriorityUpperBound": 9}},
            "SubQuotas": [{"QuotaName": child, "Min": {"GPU": amount, "GPUType": f"A100x{gpus}"}}
                          for child, amount in (children or {}).items()],
        }],
        "Workspaces": [{"WorkspaceName": "lab", "Quotas": [name, *(children or {})]}],
    })


class EbbTest(unittest.TestCase):
    """A test with a cluster of its own. Set DECLARE, TREE, SPEED, CLOCK_START, SETTINGS in the class."""

    DECLARE = "2x8:A100"
    TREE = None
    SPEED = 1
    CLOCK_START = ""
    SETTINGS = {}  # of ebbd

    def setUp(self):
        self.scratch = tempfile.mkdtemp(prefix="ebb-e2e-")
        self.addCleanup(shutil.rmtree, self.scratch, ignore_errors=True)
        self.cluster = Cluster(PROGRAMS, os.path.join(self.scratch, "d"), speed=self.SPEED,
                               clock_start=self.CLOCK_START)
        self.addCleanup(self.cluster.close)
        self.cluster.settings = dict(self.SETTINGS)
        self.cluster.start_server()
        self.start_agents()
        if self.TREE:
            self.apply(self.TREE)
        self.quotas = self.cluster.quota_ids()
        self.workspaces = self.cluster.workspace_ids()

    def start_agents(self):
        self.cluster.start_agent(self.DECLARE)

    def apply(self, text):
        path = os.path.join(self.scratch, "apply.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return self.cluster.apply(path)

    # -- asking for things -------------------------------------------------------------------------

    def job_request(self, name="job", quota="root", command=None, gpus=1, pods=1, priority=5, idle=False, grace=2,
                    **more):
        return {"DisplayName": name, "JobType": "PyTorchJob", "ResourceId": self.quotas.get(quota, quota),
                "WorkspaceId": self.workspaces["lab"], "Priority": priority, "UserCommand": command or trainer(),
                "JobSpecs": [{"Type": "Worker", "PodCount": pods,
                              "ResourceConfig": {"GPU": str(gpus), "CPU": "1", "Memory": "1Gi"}}],
                "Settings": {"TerminationGracePeriodSeconds": grace,
                             "OversoldType": "AcceptQuotaOverSold" if idle else "ForbiddenQuotaOverSold"}, **more}

    def submit(self, *arguments, client_token=None, **named):
        request = self.job_request(*arguments, **named)
        return self.cluster.api("POST", "/api/v1/jobs", request, client_token=client_token)["JobId"]

    def service_request(self, name="chat", quota="root", replicas=1, gpus=1, priority=9):
        return {"name": name,
                "metadata": {"instance": replicas, "gpu": gpus, "cpu": 1, "memory": 1024,
                             "quota_id": self.quotas.get(quota, quota), "workspace_id": self.workspaces["lab"],
                             "priority": priority},
                "containers": [{"script": "exec ebb_day_replica"}]}

    def create_service(self, *arguments, **named):
        return self.cluster.api("POST", "/api/v2/services", self.service_request(*arguments, **named))["ServiceName"]

    def scale_service(self, name, replicas):
        self.cluster.api("PUT", f"/api/v2/services/ebb/{name}/scale", {"Instance": replicas})

    # -- waiting for things ------------------------------------------------------------------------

    def status(self, job_id):
        return self.cluster.job(job_id)["Status"]

    def wait_status(self, job_id, *statuses, deadline=20):
        def there():
            status = self.status(job_id)
            if status in FINAL and status not in statuses:
                self.fail(f"{job_id} is {status}, not {statuses}: {self.cluster.explain(job_id)['Sentence']}")
            return status if status in statuses else None
        return wait_until(there, deadline, lambda: f"{job_id} is {statuses}: {self.cluster.explain(job_id)}\n"
                          + self.cluster.log_end("agent"))

    def wait_started(self, job_id, starts=1, deadline=20):
        """The newest start of a trainer, once its process has begun `starts` times."""
        def begun():
            found = [one for one in self.cluster.journals().get(job_id, []) if one["event"] == "start"]
            return found[-1] if len(found) >= starts else None
        return wait_until(begun, deadline, lambda: f"{job_id} has started {starts} times: "
                          f"{self.cluster.explain(job_id)}\n" + self.cluster.log_end("agent"))

    def wait_step(self, job_id, step, deadline=20):
        """Until a trainer has checkpointed at `step` or later."""
        return wait_until(lambda: any(one["step"] >= step for one in self.cluster.journals().get(job_id, [])), deadline,
                          lambda: f"{job_id} is at step {step}: {self.cluster.journals().get(job_id)}")

    def wait_replicas(self, name, count, deadline=20):
        return wait_until(lambda: self.cluster.service(name)["RunningInstance"] == count, deadline,
                          lambda: f"{name} has {count} replicas: {self.cluster.service(name)}")

    def refused(self, call, *arguments, **named):
        """The refusal that a call must meet."""
        with self.assertRaises(Refused) as caught:
            call(*arguments, **named)
        return caught.exception
