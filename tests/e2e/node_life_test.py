"""Nodes go silent, come back, are cordoned, drained and fenced; what ran there is moved, kept or replaced as the rules say."""

import os
import signal
import time
import unittest

from harness import EbbTest, is_alive, tree, wait_until

FAULT_TOLERANT = {"EnableErrorMonitoringInAIMaster": True}


class TwoAgents(EbbTest):
    """Two nodes of two GPUs, each with an agent of its own, so that one can fall silent."""

    TREE = tree(2, gpus=2)

    def start_agents(self):
        for number, name in enumerate(("left", "right"), 1):
            self.cluster.start_agent("1x2:A100", name=name, options=["--name-prefix", name + "-"], nodes=number)

    def nodes(self):
        return {node["NodeName"]: node for node in self.cluster.all("/api/v1/nodes", "Nodes")}

    def wait_node(self, name, state, deadline=12):
        wait_until(lambda: self.nodes()[name]["NodeStatus"] == state, deadline,
                   lambda: f"{name} is {state}: {self.nodes()[name]}")

    def place_of(self, job_id):
        pods = [pod for pod in self.cluster.job(job_id)["Pods"] if pod.get("NodeName")]
        return pods[0]["NodeName"] if pods else ""

    def pids_of(self, job_id, agent):
        """Processes of this job's pods that the agent has started and that live."""
        mark = b"EBB_CHECKPOINT_DIR=" + self.cluster.agent_data(agent).encode() + b"/"
        found = []
        for entry in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{entry}/environ", "rb") as file:
                    variables = file.read().split(b"\0")
            except OSError:
                continue
            if is_alive(int(entry)) and any(one.startswith(mark) and job_id.encode() in one for one in variables):
                found.append(int(entry))
        return found


class Silence(TwoAgents):
    SETTINGS = {"node_lost_after_ms": 8000, "stop_after_ms": 5000}

    def test_a_silent_node_stops_its_job_before_the_job_runs_again_elsewhere(self):
        """The agent is stopped, so only the shim can end the pod: after 5 + 2 s. The job starts anew after 16.25 s; the
        replica of a service after 7 s."""
        request = self.job_request("kept", gpus=1, grace=1)
        request["Settings"].update(FAULT_TOLERANT)
        job = self.cluster.api("POST", "/api/v1/jobs", request)["JobId"]
        self.wait_started(job)
        self.create_service("chat", replicas=1, gpus=1)
        self.wait_replicas("chat", 1)
        node = self.place_of(job)
        agent = node.split("-")[0]
        other = {"left": "right", "right": "left"}[agent]
        replicas_here = len(self.pids_of("chat", agent))
        pids = self.pids_of(job, agent)
        self.assertTrue(pids, "the trainer runs here")
        silent_since = time.monotonic()
        self.cluster.agents[agent][0].send_signal(signal.SIGSTOP)
        try:
            wait_until(lambda: not any(map(is_alive, pids)), 12, "the shim has stopped the pod")
            self.assertGreater(time.monotonic() - silent_since, 4.0, "not before stop_after")
            self.assertEqual(self.pids_of(job, other), [], "it does not run elsewhere yet")
            self.wait_replicas("chat", 1)
            self.wait_node(node, "Lost")
            wait_until(lambda: self.pids_of(job, other), 15,
                       lambda: f"the job runs on the other node: {self.cluster.explain(job)}")
            self.assertGreater(time.monotonic() - silent_since, 14.0, "not before it is certainly over")
            self.assertIn("is lost", self.cluster.ebb("explain", job).stdout)
        finally:
            self.cluster.agents[agent][0].send_signal(signal.SIGCONT)
        self.wait_node(node, "Ready")
        self.assertFalse(any(map(is_alive, pids)), "its old attempt stays over")
        self.assertEqual(self.status(job), "Running")


class Operator(TwoAgents):
    def ebb(self, *command, code=0):
        done = self.cluster.ebb(*command)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def test_a_drain_moves_jobs_and_names_what_it_must_not_move(self):
        instance = self.cluster.api("POST", "/api/v2/instances", {
            "InstanceName": "notebook", "ResourceId": self.quotas["root"], "WorkspaceId": self.workspaces["lab"],
            "Priority": 1, "RequestedResource": {"GPU": "1", "CPU": "1", "Memory": "1Gi"},
            "UserCommand": {"OnStart": {"Content": "exec ebb_day_dev_instance"}}})["InstanceId"]
        wait_until(lambda: self.cluster.explain(instance)["Status"] == "Running", 10, "the instance runs")
        job = self.submit("mover", gpus=1)
        self.wait_started(job)
        node = self.place_of(job)
        told = self.ebb("node", "drain", node, code=1)
        self.assertIn("notebook", told)
        self.assertIn("development instance", told)
        self.assertEqual(self.nodes()[node]["NodeStatus"], "Ready", "a refused drain changes nothing")
        self.assertIn("NodeAnswers", self.refused(self.cluster.api, "POST", f"/api/v1/nodes/{node}",
                                                  {"Operation": "Fence"}).code)
        self.ebb("node", "drain", node, "--force")
        self.wait_started(job, starts=2)
        self.assertNotEqual(self.place_of(job), node)
        self.assertEqual(self.nodes()[node]["NodeStatus"], "Draining")
        quota = self.cluster.api("GET", f"/api/v1/quotas/{self.quotas['root']}")["QuotaDetails"]
        self.assertEqual((quota["DesiredMinQuota"]["GPU"], quota["ActualMinQuota"]["GPU"]), ("4", "2"))
        self.ebb("node", "uncordon", node)
        self.wait_node(node, "Ready")

    def test_a_fence_is_the_word_that_frees_a_job_without_fault_tolerance(self):
        job = self.submit("waits", gpus=1)
        self.wait_started(job)
        node = self.place_of(job)
        agent = node.split("-")[0]
        pids = self.pids_of(job, agent)
        self.cluster.stop_agent(agent, how=signal.SIGKILL)
        for pid in pids:  # the power is off
            os.kill(pid, signal.SIGKILL)
        self.wait_node(node, "Suspect")
        self.assertEqual(self.status(job), "Running", "lost is not dead")
        self.ebb("node", "fence", node)
        self.wait_started(job, starts=2)
        self.assertNotEqual(self.place_of(job), node)
        self.assertIn("Fenced", self.ebb("node", "list"))


if __name__ == "__main__":
    unittest.main()
