"""What survives what: kill -9 of ebbd and of the agent, and their restarts, with real processes."""

import os
import signal
import threading
import time
import unittest

from harness import EbbTest, Refused, is_alive, start_ticks, tree, wait_until


class ServerKilled(EbbTest):
    TREE = tree(2)

    def test_every_acknowledged_id_is_there_and_every_pod_keeps_its_pid(self):
        """Five times: kill -9 in the middle of submits, restart, look."""
        running = [self.submit(f"before-{number}", gpus=2) for number in range(3)]
        pids = {job: self.wait_started(job)["pid"] for job in running}
        ticks = {job: start_ticks(pid) for job, pid in pids.items()}
        acknowledged, by_token = [], {}
        for round_number, kill_after in enumerate((1, 3, 7, 13, 25)):
            enough, over = threading.Event(), threading.Event()

            def submit_on(round_number=round_number, kill_after=kill_after, enough=enough, over=over):
                for number in range(10_000):
                    if over.is_set():
                        return
                    token = f"r{round_number}-{number}"
                    by_token.setdefault(token, None)
                    try:
                        by_token[token] = self.submit(token, gpus=8, client_token=token)
                    except Refused as refusal:
                        if refusal.status != 0:
                            raise
                        return
                    acknowledged.append(by_token[token])
                    if number + 1 >= kill_after:
                        enough.set()

            submitter = threading.Thread(target=submit_on)
            submitter.start()
            self.assertTrue(enough.wait(20), "submits are accepted")
            self.cluster.stop_server(signal.SIGKILL)
            over.set()
            submitter.join(20)
            begin = time.monotonic()
            self.cluster.start_server()
            acknowledged.append(self.submit(f"after-{round_number}", gpus=8))
            self.assertLess(time.monotonic() - begin, 2.0, "accepts submits within 2 s of its restart")
            # A submit whose answer was lost is asked again under its token: never two.
            for token, job in by_token.items():
                if job is None:
                    by_token[token] = self.submit(token, gpus=8, client_token=token)
                    acknowledged.append(by_token[token])
        listed = [job["JobId"] for job in self.cluster.jobs()]
        self.assertEqual(sorted(listed), sorted(set(running + acknowledged)), "all acknowledged, none twice")
        for job in acknowledged:
            self.assertEqual(self.cluster.job(job)["JobId"], job)
        for job in running:
            wait_until(lambda job=job: self.status(job) == "Running", 10, f"{job} is Running again")
            self.assertEqual(start_ticks(pids[job]), ticks[job], f"{job} kept its process")
            starts = [one for one in self.cluster.journals()[job] if one["event"] == "start"]
            self.assertEqual(len(starts), 1, f"{job} was started once")

    def test_a_job_that_ends_while_ebbd_is_away_ends_right(self):
        flag = os.path.join(self.scratch, "go")
        good = self.submit("good", command=f"while [ ! -e {flag} ]; do sleep 0.05; done; exit 0")
        bad = self.submit("bad", command=f"while [ ! -e {flag} ]; do sleep 0.05; done; exit 7")
        for job in (good, bad):
            self.wait_status(job, "Running")
        self.cluster.stop_server(signal.SIGKILL)
        with open(flag, "w", encoding="ascii"):
            pass
        self.cluster.start_server()
        self.wait_status(good, "Succeeded")
        self.wait_status(bad, "Failed")
        self.assertIn("7", self.cluster.explain(bad)["Sentence"], "says the exit code")


class AgentKilled(EbbTest):
    TREE = tree(2)

    def test_all_pods_are_found_again_and_exit_codes_are_right(self):
        flag = os.path.join(self.scratch, "go")
        long = self.submit("long", gpus=8)
        gang = self.submit("gang", gpus=1, pods=3)
        good = self.submit("good", command=f"while [ ! -e {flag} ]; do sleep 0.05; done; exit 0")
        bad = self.submit("bad", command=f"echo $$ > {flag}.pid; while [ ! -e {flag} ]; do sleep 0.05; done; exit 7")
        pid = self.wait_started(long)["pid"]
        gang_pid = self.wait_started(gang)["pid"]
        ticks = {one: start_ticks(one) for one in (pid, gang_pid)}
        self.wait_status(good, "Running")
        self.wait_status(bad, "Running")
        with open(flag + ".pid", encoding="ascii") as file:
            bad_pid = int(file.read())
        self.cluster.stop_agent(how=signal.SIGKILL)
        with open(flag, "w", encoding="ascii"):
            pass
        wait_until(lambda: not is_alive(bad_pid), 10, "the pod ends while no agent is there")
        self.cluster.restart_agent()
        self.wait_status(good, "Succeeded")
        self.wait_status(bad, "Failed")
        self.assertIn("7", self.cluster.explain(bad)["Sentence"], "says the exit code")
        for job in (long, gang):
            self.assertEqual(self.status(job), "Running")
        for one, tick in ticks.items():
            self.assertEqual(start_ticks(one), tick, "the same process")
        # Found again means also: can be stopped, and its GPUs are given on.
        self.cluster.api("POST", f"/api/v1/jobs/{long}/stop")
        wait_until(lambda: not is_alive(pid), 10, "the found pod is stopped")
        self.wait_started(self.submit("next", gpus=8))


if __name__ == "__main__":
    unittest.main()
