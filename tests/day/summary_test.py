"""The day's judgement: a good day passes every check, and each check fails when its promise is broken."""

import copy
import os
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "deploy", "day"))
import plan  # noqa: E402
import summary  # noqa: E402

UP, NOON, DOWN, END = 10_000, 50_000, 150_000, 200_000


def event(name, at, attempt, step):
    return {"event": name, "at": at, "attempt": attempt, "step": step}


def sample(at, one, other):
    return {"real_ms": at, "clock_ms": plan.DAY_START_MS + at * 360, "total": 128, "in_quota": 100, "idle": 8, "free": 20,
            "quotas": {"1": {"guarantee": 128, "holding": 128, "used": 64, "waiting": 0},
                       "1.1": {"guarantee": one, "holding": one, "used": 8, "waiting": 4},
                       "1.2": {"guarantee": other, "holding": other - 8, "used": 8, "waiting": 0}}}


def good_day():
    replicas = [{"index": number, "ready_ms": (5_000 if number < 2 else UP + 1_500), "port": 1,
                 "ended_ms": None if number < 2 else DOWN + 200, "answered": True} for number in range(16)]
    jobs = {
        "a": {"name": "a", "quota": "1.1", "gpus": 16, "steps": 900, "status": "Succeeded", "left_s": {1: 0.4},
              "preemptions": [{"Attempt": 1, "Reason": "PREEMPT_REASON_CHILD_LEVEL_PREEMPTION", "By": "eas-1",
                               "Sentence": "cheapest"}]},
        "b": {"name": "b", "quota": "1.2", "gpus": 40, "steps": 100, "status": "Succeeded", "left_s": {1: 0.2},
              "preemptions": [{"Attempt": 1, "Reason": "PREEMPT_REASON_IDLE_RECLAIMED", "By": "eas-1", "Sentence": ""}]},
    }
    journals = {
        "a": [event("start", 4_000, 1, 0), event("checkpoint", 6_000, 1, 50), event("signal", UP + 100, 1, 80),
              event("saved", UP + 300, 1, 80), event("start", DOWN + 400, 2, 80), event("finished", DOWN + 40_000, 2, 900)],
        "b": [event("start", 4_000, 1, 0), event("signal", UP + 100, 1, 20), event("saved", UP + 200, 1, 20),
              event("start", DOWN + 300, 2, 20), event("finished", DOWN + 30_000, 2, 100)],
    }
    return {"speed": 360, "grace_s": 2, "dev_gpus": 8,
            "real_of": {"up": UP, "noon": NOON, "down": DOWN, "end": END}, "replicas": replicas,
            "service": {"preemptions": []},
            "instances": {"notebook-0": {"preemptions": [], "starts": 1, "alive": True}},
            "jobs": jobs, "journals": journals,
            "samples": [sample(20_000, 48, 80), sample(NOON - 100, 48, 80), sample(NOON + 3_000, 56, 72),
                        sample(160_000, 56, 72)]}


class Judgement(unittest.TestCase):
    def failed(self, change):
        day = copy.deepcopy(good_day())
        change(day)
        return sorted(name for name, one in summary.judge(day, plan.GUARANTEES_NOON).items() if not one["ok"])

    def test_a_good_day_passes_every_check(self):
        self.assertEqual(self.failed(lambda day: None), [])

    def test_each_broken_promise_fails_its_check(self):
        preempted = {"Attempt": 1, "Reason": "PREEMPT_REASON_CHILD_LEVEL_PREEMPTION", "By": "eas-1", "Sentence": ""}

        def drop_a_replica(day):
            day["replicas"].pop()

        def evict_an_instance(day):
            day["instances"]["notebook-0"]["preemptions"].append(preempted)

        def lose_progress(day):
            day["journals"]["a"][4]["step"] = 79

        def never_resume(day):
            del day["journals"]["b"][3:]

        def finish_short(day):
            day["journals"]["a"][-1]["step"] = 899

        rows = [
            (lambda day: day["replicas"][7].update(answered=False), ["all_16_replicas_run_at_0800"]),
            (lambda day: day["replicas"][7].update(ready_ms=UP + 6_000), ["all_16_replicas_run_at_0800"]),
            (lambda day: day["replicas"][7].update(ended_ms=NOON), ["all_16_replicas_run_at_0800",
                                                                   "freed_gpus_run_training_at_2200"]),
            (drop_a_replica, ["all_16_replicas_run_at_0800", "freed_gpus_run_training_at_2200"]),
            (evict_an_instance, ["no_dev_instance_or_replica_evicted", "victims_are_only_training_pods"]),
            (lambda day: day["service"]["preemptions"].append(preempted), ["no_dev_instance_or_replica_evicted",
                                                                          "victims_are_only_training_pods"]),
            (lambda day: day["instances"]["notebook-0"].update(starts=2), ["no_dev_instance_or_replica_evicted"]),
            (lambda day: day["instances"]["notebook-0"].update(alive=False), ["no_dev_instance_or_replica_evicted"]),
            (lose_progress, ["every_evicted_trainer_resumed"]),
            (never_resume, ["all_trainers_finish", "every_evicted_trainer_resumed", "freed_gpus_run_training_at_2200"]),
            (lambda day: day["journals"]["a"][4].update(at=DOWN + 2_500), ["freed_gpus_run_training_at_2200"]),
            (lambda day: day["samples"][3]["quotas"]["1.1"].update(guarantee=48), ["quotas_scaled_at_noon_in_use"]),
            (lambda day: day["samples"][3]["quotas"]["1.2"].update(holding=73), ["quotas_scaled_at_noon_in_use"]),
            (lambda day: [one["quotas"]["1.1"].update(holding=55) for one in day["samples"]],
             ["quotas_scaled_at_noon_in_use"]),
            (finish_short, ["all_trainers_finish"]),
            (lambda day: day["jobs"]["a"].update(status="Running"), ["all_trainers_finish"]),
            (lambda day: day["jobs"]["b"].update(left_s={1: 3.1}), ["idle_pods_leave_in_time"]),
            (lambda day: day["jobs"]["b"].update(left_s={}), ["idle_pods_leave_in_time"]),
        ]
        for number, (change, expected) in enumerate(rows):
            with self.subTest(row=number):
                self.assertEqual(self.failed(change), expected)
        self.assertEqual({name for _, names in rows for name in names},
                         set(summary.judge(good_day(), plan.GUARANTEES_NOON)), "every check has a row")

    def test_a_day_without_anything_fails_every_check(self):
        def empty(day):
            day.update(replicas=[], instances={}, jobs={}, journals={}, samples=[])
        self.assertEqual(len(self.failed(empty)), 8)

    def test_progress_that_a_killed_attempt_did_not_save_counts_as_lost(self):
        day = good_day()
        day["journals"]["a"][2:4] = []  # killed without a word after the checkpoint at 50
        day["journals"]["a"][2].update(step=50)
        row = [one for one in summary.all_resumes(day) if one["job"] == "a"][0]
        self.assertEqual((row["step_at_signal"], row["told_itself"], row["step_resumed"]), (50, False, 50))

    def test_the_plan_is_the_same_every_time_and_the_same_work_at_any_speed(self):
        self.assertEqual(plan.stream(), plan.stream())
        one = plan.stream()[0]
        self.assertEqual(one.steps(360), round(one.steps(180) / 2))

    def test_the_chart_has_a_line_an_hour(self):
        text = summary.chart(summary.hourly(good_day(), plan.DAY_START_MS))
        self.assertIn("S" * 32, text)
        self.assertEqual(sum(line[2:5] == ":00" for line in text.splitlines()), 4)


if __name__ == "__main__":
    unittest.main()
