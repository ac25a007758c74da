"""A whole Ebb on this machine: ebbd, agents with declared GPUs, the API. For the reference day, tests, benchmarks.

Everything lies under one data directory and listens on free loopback ports. Standard library only.
Times are seconds unless a name says otherwise.
"""

import fcntl
import glob
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import time
import urllib.parse

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MARK = ".ebb-local-cluster"
READY = re.compile(r"ebbd ready http=(\S+) link=(\S+)")


class Refused(Exception):
    """The API said no. `status` 0: nobody answered."""

    def __init__(self, status, code, message):
        super().__init__(f"{message} ({code}, HTTP {status})")
        self.status, self.code, self.message = status, code, message


class NotInTime(AssertionError):
    """A condition did not come true before its deadline."""


def wait_until(condition, deadline, what, every=0.02):
    """The first true value of `condition()`, asked again and again; NotInTime after `deadline` seconds."""
    end = time.monotonic() + deadline
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise NotInTime(f"not within {deadline} s: {what() if callable(what) else what}")
        time.sleep(every)


def is_alive(pid):
    """Whether the process runs. A zombie does not."""
    try:
        with open(f"/proc/{pid}/stat", encoding="latin-1") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def start_ticks(pid):
    """Kernel start time of a process, with its pid its identity; None if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="latin-1") as file:
            return int(file.read().rsplit(")", 1)[1].split()[19])
    except OSError:
        return None


class Cluster:
    """One ebbd and any number of agents. `programs` is the directory of the built programs."""

    def __init__(self, programs, data, speed=1, clock_start="", log_level="info"):
        self.programs, self.data = os.path.abspath(programs), os.path.abspath(data)
        self.speed, self.clock_start, self.log_level = speed, clock_start, log_level
        self.http, self.link = "127.0.0.1:0", "tcp://127.0.0.1:0"
        self.settings = {}  # of ebbd, by key, beyond the flags
        self.server = None
        self.agents = {}  # name -> (process, command)
        self._mark = self._take_directory()
        self.server_data = os.path.join(self.data, "ebbd")

    def _take_directory(self):
        """The data directory, made if missing, is ours alone. Never one that holds something else: it will be emptied."""
        os.makedirs(self.data, mode=0o700, exist_ok=True)
        path = os.path.join(self.data, MARK)
        if os.listdir(self.data) and not os.path.exists(path):
            raise RuntimeError(f"{self.data} holds other files; name a new or empty directory")
        mark = open(path, "w", encoding="ascii")  # noqa: SIM115: kept for the lock
        try:
            fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            mark.close()
            raise RuntimeError(f"{self.data} is in use by another run") from None
        return mark

    # -- processes ---------------------------------------------------------------------------------

    def _environment(self):
        environment = dict(os.environ)
        environment["PATH"] = self.programs + os.pathsep + environment.get("PATH", "")
        for name in ("EBB_SERVER", "EBB_TOKEN", "EBB_DATA", "http_proxy", "https_proxy"):
            environment.pop(name, None)
        return environment

    def _spawn(self, name, command):
        """Output goes to DATA/NAME.log, appended over restarts."""
        with open(self.log_of(name), "ab") as log:
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                    env=self._environment(), start_new_session=True)

    def log_of(self, name):
        return os.path.join(self.data, name + ".log")

    def log_end(self, name, lines=15):
        try:
            with open(self.log_of(name), encoding="utf-8", errors="replace") as file:
                return "".join(file.readlines()[-lines:])
        except OSError:
            return ""

    def server_command(self):
        command = [os.path.join(self.programs, "ebbd"), "--data", self.server_data, "--listen", self.http,
                   "--link", self.link, "--log-level", self.log_level]
        if self.settings:
            path = os.path.join(self.data, "ebbd.yaml")
            with open(path, "w", encoding="ascii") as file:
                json.dump(self.settings, file)  # JSON is YAML
            command += ["--config", path]
        if self.speed != 1:
            command += ["--speed", str(self.speed)]
        if self.clock_start:
            command += ["--clock-start", self.clock_start]
        return command

    def start_server(self, deadline=20):
        """Returns once it accepts submits. A later start takes the same ports again."""
        path = self.log_of("ebbd")
        start = os.path.getsize(path) if os.path.exists(path) else 0
        self.server = self._spawn("ebbd", self.server_command())

        def ready():
            with open(path, encoding="utf-8", errors="replace") as file:
                file.seek(start)
                found = READY.search(file.read())
            if not found and self.server.poll() is not None:
                raise RuntimeError(f"ebbd ended with {self.server.returncode}:\n{self.log_end('ebbd')}")
            return found

        found = wait_until(ready, deadline, lambda: "ebbd is ready:\n" + self.log_end("ebbd"))
        self.http, self.link = found.group(1), found.group(2)

    def stop_server(self, how=signal.SIGTERM, deadline=10):
        if self.server is None:
            return None
        if self.server.poll() is None:
            self.server.send_signal(how)
        code = self.server.wait(deadline)
        self.server = None
        return code

    def start_agent(self, declare, name="agent", options=(), nodes=None, deadline=20):
        """`declare` as ebb-agent takes it: 16x8:A100. Returns once its nodes are known and ready."""
        command = [os.path.join(self.programs, "ebb-agent"), "--join", os.path.join(self.server_data, "join"),
                   "--data", self.agent_data(name), "--declare", declare, *options]
        self.agents[name] = (self._spawn(name, command), command)
        count = nodes if nodes is not None else int(declare.split("x")[0])

        def joined():
            process = self.agents[name][0]
            if process.poll() is not None:
                raise RuntimeError(f"ebb-agent ended with {process.returncode}:\n{self.log_end(name)}")
            return self.api("GET", "/api/v1/nodes", query={"PageSize": 1}).get("TotalCount", 0) >= count

        wait_until(joined, deadline, lambda: f"{count} nodes have joined:\n" + self.log_end(name))

    def restart_agent(self, name="agent"):
        process, command = self.agents[name]
        assert process.poll() is not None, "it still runs"
        self.agents[name] = (self._spawn(name, command), command)

    def stop_agent(self, name="agent", how=signal.SIGTERM, deadline=10):
        process = self.agents[name][0]
        if process.poll() is None:
            process.send_signal(how)
        return process.wait(deadline)

    def agent_data(self, name="agent"):
        return os.path.join(self.data, name)

    def our_processes(self):
        """Pids of everything that was started under the data directory: pods, shims, agents, ebbd."""
        found = []
        mark = self.data.encode()
        for entry in os.listdir("/proc"):
            if not entry.isdigit() or int(entry) == os.getpid():
                continue
            try:
                with open(f"/proc/{entry}/environ", "rb") as file:
                    text = file.read()
                with open(f"/proc/{entry}/cmdline", "rb") as file:
                    command = file.read()
            except OSError:
                continue
            is_pod = any(part.startswith(b"EBB_CHECKPOINT_DIR=" + mark + b"/") for part in text.split(b"\0"))
            is_program = mark in command and os.path.basename(command.split(b"\0")[0]) in (
                b"ebbd", b"ebb-agent", b"ebb-shim")
            if is_pod or is_program:
                found.append(int(entry))
        return found

    def end_processes(self):
        """Ends everything that was started under the data directory, pods included, also by a former run."""
        for process in [self.server, *(one[0] for one in self.agents.values())]:
            if process is not None and process.poll() is None:
                process.kill()
                process.wait(10)
        self.server, self.agents = None, {}
        end = time.monotonic() + 10
        while (left := self.our_processes()) and time.monotonic() < end:
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.02)

    def clear(self):
        """Ends everything and empties the data directory."""
        self.end_processes()
        for name in os.listdir(self.data):
            path = os.path.join(self.data, name)
            if name == MARK:
                continue
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path, ignore_errors=True)
            else:
                os.unlink(path)

    def close(self, keep=False):
        """Ends everything and removes the data directory unless `keep`."""
        self.end_processes()
        if not keep:
            shutil.rmtree(self.data, ignore_errors=True)
        self._mark.close()

    # -- the API -----------------------------------------------------------------------------------

    def token(self):
        with open(os.path.join(self.server_data, "token"), encoding="ascii") as file:
            return file.read().split()[0]

    def api(self, method, path, body=None, query=None, token=None, client_token=None, timeout=20):
        """The answer's JSON; Refused with the API's code and message otherwise."""
        if query:
            path += "?" + urllib.parse.urlencode(query)
        headers = {"Authorization": "Bearer " + (token or self.token())}
        if client_token:
            headers["x-ebb-client-token"] = client_token
        data = None
        if body is not None:
            data = body if isinstance(body, (str, bytes)) else json.dumps(body)
            headers["Content-Type"] = "application/json"
        connection = http.client.HTTPConnection(self.http, timeout=timeout)
        try:
            connection.request(method, path, data, headers)
            response = connection.getresponse()
            text = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise Refused(0, "Unreachable", f"{method} {path}: {error!r}") from error
        finally:
            connection.close()
        try:
            answer = json.loads(text)
        except ValueError:
            answer = {"Code": "NoJson", "Message": text[:200].decode("utf-8", "replace")}
        if response.status >= 300:
            raise Refused(response.status, answer.get("Code", ""), answer.get("Message", ""))
        return answer

    def ebb(self, *arguments, text=None, timeout=60):
        """Runs the CLI against this cluster; stdout, stderr and returncode as subprocess gives them."""
        command = [os.path.join(self.programs, "ebb"), "--server", "http://" + self.http,
                   "--data-dir", self.server_data, *map(str, arguments)]
        return subprocess.run(command, input=text, capture_output=True, text=True, timeout=timeout,
                              env=self._environment(), check=False)

    def apply(self, path):
        done = self.ebb("apply", "-f", path)
        if done.returncode != 0:
            raise RuntimeError(f"ebb apply -f {path}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def all(self, path, field, query=None):
        """Every item of a paged list."""
        items, page = [], 1
        while True:
            answer = self.api("GET", path, query={**(query or {}), "PageSize": 100, "PageNumber": page})
            items += answer[field]
            if len(answer[field]) < 100:
                return items
            page += 1

    def overview(self):
        return self.api("GET", "/ebb/v1/overview")

    def quota_ids(self):
        return {quota["QuotaName"]: quota["QuotaId"] for quota in self.overview()["Quotas"]}

    def workspace_ids(self):
        return {one["WorkspaceName"]: one["WorkspaceId"] for one in self.all("/api/v1/workspaces", "Workspaces")}

    def job(self, job_id):
        return self.api("GET", f"/api/v1/jobs/{job_id}")

    def jobs(self):
        return self.all("/api/v1/jobs", "Jobs")

    def explain(self, workload_id):
        return self.api("GET", f"/ebb/v1/explain/{workload_id}")

    def service(self, name):
        return self.api("GET", f"/api/v2/services/ebb/{name}")

    # -- what the trainers wrote -------------------------------------------------------------------

    def journals(self):
        """Events of all trainers by job id, in the order written: dicts with event, at (ms), attempt, step."""
        events = {}
        pattern = os.path.join(glob.escape(self.data), "*", "checkpoints", "*", "journal")
        for path in glob.glob(pattern):
            with open(path, encoding="ascii") as file:
                for line in file.read().splitlines():
                    name, *fields = line.split()
                    event = dict(field.split("=", 1) for field in fields)
                    job = event.pop("job")
                    events.setdefault(job, []).append(
                        {"event": name, **{key: int(value) for key, value in event.items()}})
        return events
