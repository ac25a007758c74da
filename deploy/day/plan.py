"""What happens in the reference day, and when: a fixed plan, the same in every run.

Times are minutes of the day on the cluster's clock. Sizes are in hours of the day; a trainer's steps follow from the
speed of the clock, so the plan means the same at any speed.
"""

import dataclasses
import random

CLOCK_START = "2026-03-02T06:45:00Z"  # a Monday; by 07:00 everything of three_teams.yaml runs
DAY_START_MS = 1772409600000  # 2026-03-02T00:00:00Z
UP, NOON, DOWN = 8 * 60, 12 * 60, 22 * 60
REPLICAS_DAY, REPLICAS_NIGHT, REPLICA_GPUS = 16, 2, 4
GUARANTEES_MORNING = {"1.1": 48, "1.2": 80}
GUARANTEES_NOON = {"1.1": 56, "1.2": 72}
STEP_MS = 50
GRACE_S = 4  # a busy disk needs its time for a checkpoint; who has saved leaves at once
WORKSPACES = {"1.1": "workspace_b", "1.2": "workspace_c"}


@dataclasses.dataclass(frozen=True)
class Training:
    minute: int  # when it is submitted
    name: str
    quota: str
    pods: int
    gpus: int  # of each pod
    hours: float
    priority: int
    accepts_idle: bool

    def steps(self, speed):
        return max(1, round(self.hours * 3_600_000 / speed / STEP_MS))

    def request(self, quota_id, workspace_id, speed):
        command = f"exec ebb_day_trainer --steps {self.steps(speed)} --step-ms {STEP_MS} --save-ms 100"
        return {
            "DisplayName": self.name,
            "JobType": "PyTorchJob",
            "ResourceId": quota_id,
            "WorkspaceId": workspace_id,
            "Priority": self.priority,
            "UserCommand": command,
            "JobSpecs": [{
                "Type": "Worker",
                "PodCount": self.pods,
                "ResourceConfig": {"GPU": str(self.gpus), "CPU": str(4 * self.gpus), "Memory": f"{32 * self.gpus}Gi"},
            }],
            "Settings": {
                "TerminationGracePeriodSeconds": GRACE_S,
                "OversoldType": "AcceptQuotaOverSold" if self.accepts_idle else "ForbiddenQuotaOverSold",
            },
        }


def stream(seed=20):
    """The trainings that the teams submit between 08:30 and 21:45, by time."""
    draw = random.Random(seed)
    shapes = [(1, 1), (1, 2), (1, 4), (1, 4), (1, 8), (1, 8), (2, 4), (2, 8)]
    plan = []
    for number, minute in enumerate(range(8 * 60 + 30, 20 * 60 + 31, 30)):
        pods, gpus = draw.choice(shapes)
        quota = ("1.1", "1.2")[number % 2]
        plan.append(Training(minute, f"train-{number:02}", quota, pods, gpus, draw.choice([1.5, 2, 3, 4]),
                             draw.randint(2, 6), pods * gpus <= 4 or draw.random() < 0.3))
    # The evening's queue: what the GPUs of 14 replicas turn to at 22:00. All but the gang accept idle GPUs, so that no
    # boundary between the two teams leaves any of the 56 unused.
    evening = 21 * 60
    plan.append(Training(evening, "night-gang", "1.1", 2, 8, 2, 4, False))
    for number in range(2):
        plan.append(Training(evening + 10, f"night-{number}", "1.2", 1, 8, 2, 4, True))
    for number in range(8):
        plan.append(Training(evening + 20, f"night-small-{number}", "1.1", 1, 4, 2, 3, True))
    for number in range(64):
        plan.append(Training(evening + 25, f"night-sweep-{number:02}", ("1.1", "1.2")[number % 2], 1, 1, 1.5, 2, True))
    return sorted(plan, key=lambda one: one.minute)


def clock_text(clock_ms):
    """HH:MM of the cluster's clock; hours go on after midnight, so 25:30 is half past one."""
    minutes = max(0, int(clock_ms - DAY_START_MS)) // 60_000
    return f"{minutes // 60:02}:{minutes % 60:02}"


def clock_ms_of(minute):
    return DAY_START_MS + minute * 60_000
