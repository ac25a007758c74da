"""Gangs, preemption, idle resources, scaling of quotas and services, with real processes."""

import time
import unittest

from harness import EbbTest, tree, wait_until


def gpus_used(cluster):
    seen = cluster.overview()
    return seen["InQuotaGPU"] + seen["IdleUsedGPU"]


class Gangs(EbbTest):
    TREE = tree(2)

    def test_a_gang_of_two_times_eight_on_eight_and_seven_free_starts_nothing(self):
        one = self.submit("one", gpus=1)
        self.wait_started(one)
        gang = self.submit("gang", gpus=8, pods=2)
        sentence = wait_until(lambda: self.cluster.explain(gang)["Claims"] and self.cluster.explain(gang)["Sentence"],
                              10, "the gang waits with a reason")
        self.assertIn("gang", sentence)
        # A later small job runs: the search has looked past the gang, which must still hold nothing.
        small = self.submit("small", gpus=1, command=trainer_that_ends())
        self.wait_status(small, "Succeeded")
        self.assertEqual(gpus_used(self.cluster), 1, "nothing of the gang is placed")
        self.assertNotIn(gang, self.cluster.journals())
        self.cluster.api("POST", f"/api/v1/jobs/{one}/stop")
        self.wait_started(gang)
        self.assertEqual(gpus_used(self.cluster), 16)


class Preemption(EbbTest):
    TREE = tree(2, {"b": 8, "c": 8})

    def test_a_service_takes_back_from_training_which_resumes_from_its_checkpoint(self):
        jobs = [self.submit(f"t{number}", quota=quota, gpus=4) for number, quota in enumerate("bbcc")]
        for job in jobs:
            self.wait_step(job, 10)
        self.create_service("chat", replicas=2, gpus=4)
        self.wait_replicas("chat", 2)
        evicted = [job for job in jobs if self.cluster.explain(job)["Preemptions"]]
        self.assertEqual(len(evicted), 2, "as many as were needed, not one more")
        for job in evicted:
            preemption = self.cluster.explain(job)["Preemptions"][0]
            self.assertTrue(preemption["Reason"].endswith("CHILD_LEVEL_PREEMPTION"), preemption)
            self.assertEqual(self.status(job), "Queuing")
            signal_event = [one for one in self.cluster.journals()[job] if one["event"] == "signal"]
            self.assertEqual(len(signal_event), 1, "told by SIGTERM, and had the time to say so")
        self.scale_service("chat", 0)
        for job in evicted:
            resumed = self.wait_started(job, starts=2)
            at_signal = [one["step"] for one in self.cluster.journals()[job] if one["event"] == "signal"][0]
            self.assertGreaterEqual(resumed["step"], at_signal)
            self.assertEqual(resumed["attempt"], 2)

    def test_a_dev_instance_is_never_a_victim(self):
        instance = self.cluster.api("POST", "/api/v2/instances", {
            "InstanceName": "notebook", "ResourceId": self.quotas["b"], "WorkspaceId": self.workspaces["lab"],
            "Priority": 1, "RequestedResource": {"GPU": "8", "CPU": "1", "Memory": "1Gi"},
            "UserCommand": {"OnStart": {"Content": "exec ebb_day_dev_instance"}}})["InstanceId"]
        wait_until(lambda: self.cluster.explain(instance)["Status"] == "Running", 10, "the instance runs")
        victim = self.submit("victim", quota="c", gpus=8)
        self.wait_started(victim)
        self.create_service("chat", replicas=2, gpus=8)
        self.wait_replicas("chat", 1)
        self.assertEqual(len(self.cluster.explain(victim)["Preemptions"]), 1)
        told = self.cluster.explain(instance)
        self.assertEqual((told["Status"], told["Preemptions"]), ("Running", []))
        self.assertEqual(self.cluster.service("chat")["RunningInstance"], 1, "the second replica waits")


class Guarantees(EbbTest):
    TREE = tree(2, {"b": 8, "c": 8})

    def test_what_a_sibling_leaves_unused_goes_to_the_child_that_needs_its_guarantee(self):
        """The parent's own 4 GPUs come out of what the children may hold; one that uses nothing does not keep a share."""
        self.create_service("chat", replicas=1, gpus=4)
        self.wait_replicas("chat", 1)
        for quota in "bc":
            jobs = [self.submit(f"{quota}{number}", quota=quota, gpus=4) for number in range(2)]
            for job in jobs:
                self.wait_started(job)
            for job in jobs:
                self.cluster.api("POST", f"/api/v1/jobs/{job}/stop")
            for job in jobs:
                self.wait_status(job, "Stopped")


class Idle(EbbTest):
    TREE = tree(1, {"b": 4, "c": 4}, preempt=False)

    def test_idle_training_is_put_back_when_the_owner_needs_its_gpus(self):
        own = self.submit("own", quota="b", gpus=4)
        guest = self.submit("guest", quota="b", gpus=4, idle=True)
        for job in (own, guest):
            self.wait_step(job, 10)
        self.assertEqual(self.cluster.overview()["IdleUsedGPU"], 4)
        begin = time.monotonic()
        owner = self.submit("owner", quota="c", gpus=4)
        self.wait_started(owner)
        self.assertLess(time.monotonic() - begin, 2 + 2, "grace period and a start")
        self.assertTrue(self.cluster.explain(guest)["Preemptions"][0]["Reason"].endswith("IDLE_RECLAIMED"))
        self.assertEqual(self.cluster.explain(own)["Preemptions"], [], "in-quota is left alone")
        self.cluster.api("POST", f"/api/v1/jobs/{owner}/stop")
        resumed = self.wait_started(guest, starts=2)
        at_signal = [one["step"] for one in self.cluster.journals()[guest] if one["event"] == "signal"][0]
        self.assertGreaterEqual(resumed["step"], at_signal)

    def test_an_idle_job_that_comes_to_fit_its_quota_becomes_guaranteed_without_a_restart(self):
        own = self.submit("own", quota="b", gpus=4)
        guest = self.submit("guest", quota="b", gpus=4, idle=True)
        for job in (own, guest):
            self.wait_started(job)
        self.cluster.api("POST", f"/api/v1/jobs/{own}/stop")
        wait_until(lambda: self.cluster.overview()["IdleUsedGPU"] == 0 and gpus_used(self.cluster) == 4, 10,
                   lambda: f"the guest is in-quota: {self.cluster.overview()}")
        starts = [one for one in self.cluster.journals()[guest] if one["event"] == "start"]
        self.assertEqual(len(starts), 1)


class Scaling(EbbTest):
    TREE = tree(2, {"b": 6, "c": 10}, preempt=False)

    def guarantees(self):
        quotas = {one["QuotaName"]: one for one in self.cluster.overview()["Quotas"]}
        return {name: (quotas[name]["GuaranteeGPU"], quotas[name]["HoldingGPU"]) for name in "bc"}

    def test_one_change_of_two_guarantees_in_use_moves_units_as_they_come_free(self):
        kept = [self.submit(f"kept{number}", quota="c", gpus=1) for number in range(7)]
        last = [self.submit(f"last{number}", quota="c", gpus=1) for number in range(3)]
        for job in kept + last:
            self.wait_started(job)
        waiting = self.submit("waiting", quota="b", gpus=8)
        done = self.cluster.ebb("quota", "scale", "b=8", "c=8")
        self.assertEqual(done.returncode, 0, done.stderr)
        wait_until(lambda: self.guarantees()["b"][0] == 8 and self.guarantees()["c"][0] == 8, 10,
                   lambda: f"the guarantees are new: {self.guarantees()}")
        self.assertEqual(self.guarantees()["c"][1], 10, "what is in use stays until it ends")
        for job in last[:2]:
            self.cluster.api("POST", f"/api/v1/jobs/{job}/stop")
        wait_until(lambda: self.guarantees() == {"b": (8, 8), "c": (8, 8)}, 10,
                   lambda: f"the units have moved: {self.guarantees()}")
        self.assertEqual(self.status(last[2]), "Running")
        self.assertIn(self.status(waiting), ("Queuing", "EnvPreparing", "Running"))

    def test_a_change_that_exceeds_the_parent_is_refused_as_a_whole(self):
        done = self.cluster.ebb("quota", "scale", "b=9", "c=9")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("18", done.stderr)
        self.assertIn("16", done.stderr)
        self.assertEqual({name: one[0] for name, one in self.guarantees().items()}, {"b": 6, "c": 10})


class Cron(EbbTest):
    """The clock at 360 times from 07:00: an hour in ten seconds of real time."""

    TREE = tree(1)
    SPEED = 360
    CLOCK_START = "2026-03-02T07:00:00Z"

    def test_a_cron_scaler_scales_up_and_down_by_the_clock(self):
        self.create_service("chat", replicas=1, gpus=1)
        self.cluster.api("POST", "/api/v2/services/ebb/chat/cronscaler", {"ScaleJobs": [
            {"Name": "up", "Schedule": "0 30 8 * * *", "TargetSize": 4, "TimeZone": "UTC"},
            {"Name": "down", "Schedule": "0 30 9 * * *", "TargetSize": 2, "TimeZone": "UTC"}]})
        clock = lambda: self.cluster.api("GET", "/ebb/v1/status")["Clock"][11:16]  # noqa: E731
        self.wait_replicas("chat", 1)
        self.assertLess(clock(), "08:30", "the test is in time")
        self.wait_replicas("chat", 4)
        self.assertGreaterEqual(clock(), "08:30")
        self.wait_replicas("chat", 2)
        self.assertGreaterEqual(clock(), "09:30")


def trainer_that_ends():
    return "exec ebb_day_trainer --steps 5 --step-ms 10"


if __name__ == "__main__":
    unittest.main()
