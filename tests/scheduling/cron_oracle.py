"""Says when cron expressions fire, by croniter: the other opinion for cron_test.cpp.

Reads lines `ZONE|START_MS|EXPRESSION` (six fields, seconds first) from the file named by the first argument. Prints for
each the first firing after the start in milliseconds UTC, or `none`, or `unsure` where a change of the clock is near:
croniter knows nothing of what a firing in a skipped or repeated hour should do.
"""
import sys
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

from croniter import croniter
from croniter.croniter import CroniterBadDateError


def near_change(moment, zone):
    day = timedelta(hours=25)
    return len({(moment + d).astimezone(zone).utcoffset() for d in (-day, timedelta(), day)}) > 1


def answer(line):
    zone_name, start_ms, expression = line.rstrip("\n").split("|")
    zone = ZoneInfo(zone_name)
    start = datetime.fromtimestamp(int(start_ms) // 1000, timezone.utc)
    second, rest = expression.split(" ", 1)
    try:
        local = croniter(rest + " " + second, start.astimezone(zone).replace(tzinfo=None)).get_next(datetime)
    except CroniterBadDateError:
        return "none"
    fires = local.replace(tzinfo=zone).astimezone(timezone.utc)
    if near_change(start, zone) or near_change(fires, zone):
        return "unsure"
    return str(int(fires.timestamp()) * 1000)


with open(sys.argv[1], encoding="ascii") as batch:
    for one in batch:
        print(answer(one))
