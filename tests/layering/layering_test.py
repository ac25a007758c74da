"""Who may include what: the rooms of the house and the walls around third parties, checked in every source file.

The rooms table is STYLE's, the walls are the parts that only one room knows. A finding names file, line and rule.
"""

import os
import re
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# Room -> rooms it may include, itself aside. The longest prefix of a path is its room. `ebb/v1` are the messages.
ROOMS = {
    "base": [],
    "scheduling": ["base"],
    "messages": [],
    "actors": ["base", "scheduling", "messages"],
    "actors/shell": ["base", "scheduling", "messages", "actors", "cluster"],
    "config": ["base"],
    "cluster": ["base", "messages", "config"],
    "gateway": ["base", "scheduling", "messages", "config", "cluster", "gateway/api"],
    "gateway/api": ["base"],
    "server": ["base", "messages", "actors", "actors/shell", "config", "cluster", "gateway"],
    "agent": ["base", "messages", "actors", "actors/shell", "config", "cluster", "agent/shim"],
    "agent/shim": ["base"],
    "cli": ["base", "gateway/api"],
    "sim": ["base", "scheduling", "messages", "actors", "cluster"],
    "deploy": [],
    "tests": None,  # anything
    "bench": None,
}

# What -> (pattern of an include, rooms that may have it).
WALLS = {
    "CAF": (r"<caf/", ["actors/shell"]),
    "ZeroMQ": (r"<zmq|<zmq\.hpp>", ["cluster/link"]),
    "SQLite": (r"<sqlite3", ["cluster/store", "gateway/projection"]),
    "RESTinio": (r"<restinio", ["gateway"]),
    "curl": (r"<curl/", ["cli"]),
    "YAML": (r"<yaml-cpp/", ["config", "cli", "sim/replay"]),
    "JSON": (r"<nlohmann/", ["gateway", "cli", "deploy", "sim"]),
    "command line": (r"<CLI/", ["server", "agent", "cli", "sim"]),
    "time zones": (r"<date/", ["scheduling/cron", "cluster/clock", "gateway"]),
    "libsodium": (r"<sodium", ["cluster", "gateway", "server"]),
    "OpenSSL": (r"<openssl/", ["gateway", "cluster"]),
    "log": (r"<spdlog/", ["actors/shell", "cluster", "gateway", "server", "agent"]),
    "tests": (r"<doctest/|<rapidcheck", []),
    "benchmarks": (r"<benchmark/", []),
    "starting user programs": (r"<spawn\.h>", ["agent"]),
}

# Decisions and machines: no clock, file, random number, thread, socket.
PURE_ROOMS = ["scheduling", "actors"]
PURE_EXCEPT = ["actors/shell", "scheduling/cron"]
IMPURE = re.compile(r"<(chrono|ctime|fstream|filesystem|random|thread|mutex|condition_variable|cstdio|iostream|unistd\.h|"
                    r"fcntl\.h|sys/[a-z]+\.h)>")
IMPURE_CALL = re.compile(r"\b(std::rand|rand|time|clock_gettime|getenv|std::getenv|gettimeofday)\s*\(")

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"][^>"]+[>"])')
SOURCES = (".cpp", ".hpp", ".h", ".in")


def room_of(path, rooms=tuple(ROOMS)):
    """The room of a file or of an included path; None for what is no room of ours."""
    if path.startswith("ebb/v1/"):
        return "messages"
    fits = [room for room in rooms if path == room or path.startswith(room + "/")]
    return max(fits, key=len, default=None)


def is_under(path, places):
    return any(path == place or path.startswith((place + "/", place + ".")) for place in places)


def faults_of(path, text):
    """What one file does that it may not, as `file:line: rule`."""
    room = room_of(path)
    if room is None or ROOMS[room] is None:
        return []
    faults = []
    is_pure = is_under(path, PURE_ROOMS) and not is_under(path, PURE_EXCEPT)
    for number, line in enumerate(text.splitlines(), 1):
        where = f"{path}:{number}"
        if is_pure and (call := IMPURE_CALL.search(line.split("//", 1)[0])):
            faults.append(f"{where}: {room} must not call {call[1]}: time and chance come in as arguments")
        found = INCLUDE.match(line)
        if not found:
            continue
        name = found[1]
        if name.startswith('"'):
            target = room_of(name.strip('"'))
            if target is not None and target != room and target not in ROOMS[room]:
                faults.append(f"{where}: {room} must not include {target} ({name})")
            if target is None:
                faults.append(f"{where}: {name} does not start at the root")
        for what, (pattern, places) in WALLS.items():
            if re.match(pattern, name) and not is_under(path, places):
                faults.append(f"{where}: only {', '.join(places) or 'tests'} may include {what} ({name})")
        if is_pure and IMPURE.match(name):
            faults.append(f"{where}: {room} must not include {name}: clock, files, threads stay outside")
    return faults


def sources(root):
    for room in sorted({name.split("/")[0] for name in ROOMS}):
        for folder, folders, files in os.walk(os.path.join(root, room)):
            folders.sort()
            for file in sorted(files):
                if file.endswith(SOURCES):
                    yield os.path.relpath(os.path.join(folder, file), root)


def all_faults(root):
    faults = []
    for path in sources(root):
        with open(os.path.join(root, path), encoding="utf-8") as file:
            faults += faults_of(path, file.read())
    return faults


class Layering(unittest.TestCase):
    def test_the_house_keeps_its_walls(self):
        self.assertEqual(all_faults(ROOT), [])

    def test_every_wall_can_be_run_into(self):
        rows = [
            ("scheduling/quota/x.cpp", '#include "actors/machine.hpp"', "must not include actors"),
            ("scheduling/quota/x.cpp", "#include <chrono>", "stay outside"),
            ("scheduling/quota/x.cpp", "int x = time(nullptr);", "must not call time"),
            ("actors/quota/x.cpp", '#include "actors/shell/host.hpp"', "must not include actors/shell"),
            ("actors/quota/x.cpp", "#include <caf/all.hpp>", "may include CAF"),
            ("gateway/x.cpp", "#include <zmq.hpp>", "may include ZeroMQ"),
            ("gateway/x.cpp", "#include <sqlite3.h>", "may include SQLite"),
            ("gateway/x.cpp", '#include "actors/machine.hpp"', "must not include actors"),
            ("cli/x.cpp", '#include "ebb/v1/quota.pb.h"', "must not include messages"),
            ("server/x.cpp", "#include <spawn.h>", "starting user programs"),
            ("base/x.hpp", "#include <doctest/doctest.h>", "may include tests"),
            ("config/x.cpp", '#include "settings.hpp"', "does not start at the root"),
        ]
        for path, line, words in rows:
            with self.subTest(path=path, line=line):
                faults = faults_of(path, "\n" + line)
                self.assertEqual(len(faults), 1, faults)
                self.assertIn(words, faults[0])
                self.assertIn(f"{path}:2:", faults[0])

    def test_what_is_allowed_is_left_alone(self):
        rows = [
            ("actors/shell/x.cpp", "#include <caf/all.hpp>"),
            ("gateway/projection.cpp", "#include <sqlite3.h>"),
            ("actors/quota/x.cpp", '#include "scheduling/quota/ledger.hpp"'),
            ("actors/quota/x.cpp", "std::int64_t run_time(int x); // time() is not asked"),
            ("tests/cluster/x.cpp", "#include <zmq.hpp>"),
        ]
        for path, line in rows:
            with self.subTest(path=path, line=line):
                self.assertEqual(faults_of(path, line), [])

    def test_a_fault_in_a_file_of_a_tree_is_found(self):
        with tempfile.TemporaryDirectory() as root:
            os.makedirs(os.path.join(root, "scheduling", "quota"))
            with open(os.path.join(root, "scheduling", "quota", "bad.hpp"), "w", encoding="utf-8") as file:
                file.write("#pragma once\n#include <caf/all.hpp>\n")
            self.assertEqual(len(all_faults(root)), 1)


if __name__ == "__main__":
    if sys.argv[1:] == ["--list"]:
        found = all_faults(ROOT)
        print("\n".join(found) or "no faults")
        sys.exit(bool(found))
    unittest.main()
