"""The live table of the reference day: redrawn on a terminal, a line an hour elsewhere."""

import sys

from plan import DAY_START_MS, clock_text

TEAMS = {"1": "1    a, inference", "1.1": "1.1  b, training", "1.2": "1.2  c, training + dev"}
SHOWN_DECISIONS = 8


class View:
    def __init__(self, out=sys.stdout):
        self.out = out
        self.is_terminal = out.isatty()
        self.decisions = []
        self.last_hour = None
        self.lines_drawn = 0

    def say(self, text):
        """A line that stays."""
        self._wipe()
        print(text, file=self.out, flush=True)

    def _wipe(self):
        if self.lines_drawn:
            self.out.write(f"\x1b[{self.lines_drawn}A\x1b[J")
            self.lines_drawn = 0

    def add_decisions(self, lines):
        self.decisions = (self.decisions + lines)[-SHOWN_DECISIONS:]

    def show(self, sample, replicas, trainings):
        if self.is_terminal:
            self._table(sample, replicas, trainings)
            return
        hour = int((sample["clock_ms"] - DAY_START_MS) // 3_600_000)
        if hour != self.last_hour:
            self.last_hour = hour
            parts = [f"{name}: {quota['used']:.0f} of {quota['holding']:.0f}"
                     for name, quota in sample["quotas"].items()]
            waiting = sum(quota["waiting"] for quota in sample["quotas"].values())
            print(f"{clock_text(sample['clock_ms'])}  GPUs {', '.join(parts)}; idle {sample['idle']:.0f}, free "
                  f"{sample['free']:.0f}, waited for {waiting:.0f}; replicas {replicas}; trainings {trainings}",
                  file=self.out, flush=True)

    def _table(self, sample, replicas, trainings):
        lines = [f"{clock_text(sample['clock_ms'])}   {sample['total']:.0f} GPUs   chat has {replicas} replicas   "
                 f"trainings: {trainings}", "",
                 f"{'quota':<24}{'guarantee':>10}{'holds':>8}{'in quota':>10}{'idle':>7}{'waits':>8}"]
        for name, quota in sample["quotas"].items():
            lines.append(f"{TEAMS.get(name, name):<24}{quota['guarantee']:>10.0f}{quota['holding']:>8.0f}"
                         f"{quota['used']:>10.0f}{quota['idle']:>7.0f}{quota['waiting']:>8.0f}")
        lines += [f"{'free':<24}{sample['free']:>28.0f}", "", "last decisions"]
        lines += ["  " + line[:110] for line in self.decisions]
        self._wipe()
        self.out.write("\n".join(lines) + "\n")
        self.out.flush()
        self.lines_drawn = len(lines)
