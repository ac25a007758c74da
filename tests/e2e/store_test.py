"""The store in trouble: a second ebbd on it, and a full disk, with real processes."""

import os
import signal
import subprocess
import unittest

from harness import EbbTest, Refused, start_ticks, tree, wait_until


class SecondServer(EbbTest):
    TREE = tree(2)

    def test_a_second_ebbd_on_the_same_store_is_refused_and_the_first_goes_on(self):
        command = self.cluster.server_command()
        command[command.index("--listen") + 1] = "127.0.0.1:0"
        command[command.index("--link") + 1] = "tcp://127.0.0.1:0"
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(self.cluster.server_data, done.stderr, "names the store")
        self.wait_started(self.submit("after"))


@unittest.skipIf(os.geteuid() != 0, "mounting a small file system takes root")
class FullDisk(EbbTest):
    """The server's data directory is a small file system of its own; pods and agent are elsewhere."""

    def setUp(self):
        super().setUp()
        self.cluster.stop_server()
        data = self.cluster.server_data
        moved = data + ".moved"
        os.rename(data, moved)
        os.mkdir(data, 0o700)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m,mode=0700", "ebb-test", data], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", data], check=False)
        subprocess.run(["cp", "-a", moved + "/.", data], check=True)
        self.cluster.start_server()
        self.apply(tree(2))
        self.quotas, self.workspaces = self.cluster.quota_ids(), self.cluster.workspace_ids()

    def fill(self, path):
        """Every byte that is left."""
        with open(path, "wb", buffering=0) as file:
            for size in (65_536, 4_096, 1):
                while True:
                    try:
                        if file.write(b"x" * size) < size:
                            break
                    except OSError:
                        break

    def test_new_work_is_refused_running_pods_go_on_and_it_recovers(self):
        running = self.submit("running", gpus=8)
        pid = self.wait_started(running)["pid"]
        ticks = start_ticks(pid)
        filler = os.path.join(self.cluster.server_data, "filler")
        self.fill(filler)

        accepted = []

        def refused():
            """What the store still holds in its file may take a few, and the answer of the one that finds it full is late
            and says that its outcome is not known; then the refusal must come."""
            try:
                accepted.append(self.submit(f"job-{len(accepted)}", gpus=8, pods=2))  # too many to run
                return None
            except Refused as refusal:
                return None if refusal.status == 504 else refusal

        refusal = wait_until(refused, 20, "new work is refused")
        self.assertIn(refusal.status, (503, 507), str(refusal))
        self.assertRegex(refusal.message.lower(), "disk|space|full|written|writable|store")
        self.assertFalse(self.cluster.api("GET", "/ebb/v1/status")["StoreWritable"])
        self.assertEqual(self.cluster.job(running)["Status"], "Running", "reads are answered")
        self.assertEqual(start_ticks(pid), ticks, "the running pod is untouched")
        self.assertIsNone(self.cluster.server.poll(), "ebbd lives")

        os.unlink(filler)

        def taken():
            try:
                return self.submit("later")
            except Refused:
                return None

        later = wait_until(taken, 20, "new work is accepted again")
        self.wait_started(later)
        self.assertEqual(start_ticks(pid), ticks)
        # What was acknowledged before, while it filled up, is there, also after a crash.
        self.cluster.stop_server(signal.SIGKILL)
        self.cluster.start_server()
        for job in [running, later, *accepted]:
            self.assertEqual(self.cluster.job(job)["JobId"], job)


if __name__ == "__main__":
    unittest.main()
