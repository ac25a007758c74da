"""A pod that ignores SIGTERM and forks twice is gone before its GPU is given on."""

import os
import unittest

from harness import HERE, EbbTest, is_alive, tree, wait_until

STUBBORN = os.path.join(HERE, "pods", "stubborn.py")


class Stubborn(EbbTest):
    DECLARE = "1x2:A100"
    TREE = tree(1, gpus=2)

    def witness(self):
        try:
            with open(os.path.join(self.scratch, "witness"), encoding="ascii") as file:
                return [line.split() for line in file]
        except FileNotFoundError:
            return []

    def starts(self):
        return [line for line in self.witness() if line[0] != "grandchild"]

    def test_it_is_gone_with_all_its_processes_before_its_gpus_are_given_on(self):
        """Five pods in turn want the same two GPUs; each takes a lock that all processes of a pod hold until they die."""
        command = f"exec python3 {STUBBORN} {self.scratch}"
        former = self.submit("first", gpus=2, command=command, grace=1)
        wait_until(lambda: len(self.witness()) == 2, 10, "the first runs, with its grandchild")
        for number in range(1, 5):
            successor = self.submit(f"next{number}", gpus=2, command=command, grace=1)
            self.cluster.api("POST", f"/api/v1/jobs/{former}/stop")
            wait_until(lambda number=number: len(self.starts()) == number + 1 and len(self.witness()) == 2 * number + 2,
                       15, lambda: f"the successor runs: {self.witness()}\n{self.cluster.log_end('agent')}")
            for line in self.witness()[:2 * number]:
                self.assertFalse(is_alive(int(line[1])), f"{line} is gone")
            former = successor
        self.assertEqual([line[0] for line in self.starts()], ["clean"] * 5)


if __name__ == "__main__":
    unittest.main()
