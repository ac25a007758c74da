"""ebb_day_trainer: it truly resumes, and keeps its promises at SIGTERM."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "deploy", "day"))
from local_cluster import wait_until  # noqa: E402

TRAINER = os.path.join(os.environ.get("EBB_PROGRAMS", os.path.join(ROOT, "build", "release", "bin")), "ebb_day_trainer")


class Trainer(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.directory = scratch.name

    def start(self, *arguments, directory=None, **environment):
        return subprocess.Popen([TRAINER, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env={**os.environ, "EBB_CHECKPOINT_DIR": directory or self.directory,
                                     "EBB_JOB_ID": "dlc1", **environment})

    def run_to_end(self, *arguments, **environment):
        process = self.start(*arguments, **environment)
        out, err = process.communicate(timeout=30)
        return process.returncode, out, err

    def read(self, name, directory=None):
        with open(os.path.join(directory or self.directory, name), encoding="ascii") as file:
            return file.read()

    def test_interrupted_and_resumed_ends_with_the_same_weights_as_undisturbed(self):
        process = self.start("--steps", "60", "--step-ms", "10", "--every", "7")
        wait_until(lambda: os.path.exists(os.path.join(self.directory, "last")), 10, "the first checkpoint")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=10)
        self.assertEqual(process.returncode, 143)
        at_signal = int(re.search(r"signal .* step=(\d+)", self.read("journal"))[1])
        self.assertLess(at_signal, 60)
        code, out, _ = self.run_to_end("--steps", "60", "--step-ms", "0", "--every", "7")
        self.assertEqual(code, 0)
        self.assertIn(f"step={at_signal} ", out.splitlines()[0] + " ")
        with tempfile.TemporaryDirectory() as other:
            process = self.start("--steps", "60", "--step-ms", "0", directory=other)
            process.communicate(timeout=30)
            self.assertEqual(self.read("last"), self.read("last", other))

    def test_it_learns(self):
        _, out, _ = self.run_to_end("--steps", "400", "--step-ms", "0", "--print", "1")
        losses = [float(loss) for loss in re.findall(r"^step \d+ loss ([\d.]+)", out, re.M)]
        self.assertAlmostEqual(losses[0], 0.6931, places=3)  # ln 2: nothing is known yet
        self.assertLess(sum(losses[-20:]) / 20, 0.2)

    def test_only_rank_0_keeps_state(self):
        self.assertEqual(self.run_to_end("--steps", "5", "--step-ms", "0", RANK="1", WORLD_SIZE="2")[0], 0)
        self.assertEqual(os.listdir(self.directory), [])

    def test_a_damaged_checkpoint_is_not_trained_over(self):
        with open(os.path.join(self.directory, "last"), "w", encoding="ascii") as file:
            file.write("step 40\n0x1p+0\n")
        code, _, err = self.run_to_end("--steps", "50", "--step-ms", "0")
        self.assertEqual(code, 3)
        self.assertIn("damaged", err)

    def test_bad_arguments_are_refused_by_name(self):
        for arguments, word in ((("--steps", "-1"), "--steps"), (("--steps", "5", "--every", "0"), "--every"),
                                ((), "--steps"), (("--steps", "5", "x"), "x")):
            code, _, err = self.run_to_end(*arguments)
            self.assertEqual(code, 2)
            self.assertIn(word, err)


if __name__ == "__main__":
    unittest.main()
