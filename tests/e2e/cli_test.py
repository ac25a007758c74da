"""The command line over a real cluster, and clients that sign their requests."""

import datetime
import hashlib
import hmac
import http.client
import json
import os
import unittest
import uuid

from harness import EbbTest, trainer, tree

FILE = {
    **json.loads(tree(2, {"b": 8, "c": 8})),
    "Services": [{"name": "chat",
                  "metadata": {"instance": 1, "gpu": 1, "cpu": 1, "memory": 64, "quota": "root", "workspace": "lab"},
                  "containers": [{"script": "exec ebb_day_replica"}],
                  "cronscaler": {"ScaleJobs": [{"Name": "up", "Schedule": "0 0 8 * * *", "TargetSize": 2}]}}],
    "Jobs": [{"DisplayName": "train", "Copies": 2, "Quota": "b", "Workspace": "lab", "JobType": "PyTorchJob",
              "UserCommand": "echo rank $RANK; " + trainer(),
              "JobSpecs": [{"PodCount": 2, "ResourceConfig": {"GPU": 1, "CPU": 1, "Memory": "64Mi"}}]}],
    "Instances": [{"InstanceName": "notebook", "Quota": "c", "Workspace": "lab",
                   "RequestedResource": {"GPU": 1}}],
}


class CommandLine(EbbTest):
    def ebb(self, *command, code=0, text=None):
        done = self.cluster.ebb(*command, text=text)
        self.assertEqual(done.returncode, code, f"{command}: {done.stdout}{done.stderr}")
        return done.stdout if code == 0 else done.stderr

    def apply_file(self, document):
        path = os.path.join(self.scratch, "all.yaml")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(document, file)
        return self.ebb("apply", "-f", path)

    def test_apply_twice_changes_nothing_the_second_time(self):
        first = self.apply_file(FILE)
        self.assertEqual(first.count(": created"), 3 + 1 + 1 + 2 + 1)
        before = self.cluster.api("GET", "/ebb/v1/decisions?limit=1000")["Decisions"]
        second = self.apply_file(FILE)
        self.assertEqual(second.count(": is there"), 3 + 1 + 1 + 2 + 1, second)
        after = self.cluster.api("GET", f"/ebb/v1/decisions?after={before[-1]['Number']}")["Decisions"]
        self.assertEqual([one["Line"] for one in after if one["Line"].startswith(("scale", "update", "submit"))], [])
        # Guarantees of two children change in one change, though neither could change alone first.
        grown = json.loads(json.dumps(FILE))
        grown["Quotas"][0]["SubQuotas"][0]["Min"]["GPU"] = 10
        grown["Quotas"][0]["SubQuotas"][1]["Min"]["GPU"] = 6
        self.assertEqual(self.apply_file(grown).count("scaling"), 2)
        quotas = {one["QuotaName"]: one["Min"]["GPU"]
                  for one in json.loads(self.ebb("quota", "list", "-o", "json")) if "GPU" in one["Min"]}
        self.assertEqual(quotas, {"b": "10", "c": "6"})
        self.look_at_it()

    def look_at_it(self):
        """What was applied, by the other commands."""
        job = self.ebb("dlc", "list", "-o", "quiet").split()[0]
        self.wait_status(job, "Running")
        self.assertIn("rank 0", self.ebb("dlc", "logs", job))
        self.assertIn("Queued", self.ebb("dlc", "events", job))
        self.assertIn("is Running in quota b", self.ebb("explain", job))
        self.assertIn("  b ", self.ebb("quota", "tree"))
        self.assertNotIn("\x1b", self.ebb("top"))
        self.assertIn("Submitted", self.ebb("eas", "cron", "get", "chat"))
        self.assertIn("InstanceName: notebook", self.ebb("dsw", "get", "notebook", "-o", "yaml"))
        self.assertIn("bound to workspace lab", self.ebb("quota", "delete", "c", code=1))
        self.ebb("workspace", "unbind", "lab", "c")
        self.assertIn("not bound", self.ebb("workspace", "unbind", "lab", "c", code=1))
        self.assertIn("--output", self.ebb("status", "-o", "xml", code=2))

    def test_a_signed_request_is_accepted_and_a_changed_one_is_not(self):
        self.apply_file(FILE)
        secret = self.cluster.token()
        path = "/api/v1/quotas"

        def ask(key):
            host = self.cluster.http
            headers = {"host": host, "x-acs-action": "ListQuotas", "x-acs-version": "2022-01-12",
                       "x-acs-content-sha256": hashlib.sha256(b"").hexdigest(),
                       "x-acs-date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
                       "x-acs-signature-nonce": uuid.uuid4().hex}
            names = ";".join(sorted(headers))
            canonical = "\n".join(["GET", path, "PageSize=2",
                                   "".join(f"{name}:{headers[name]}\n" for name in sorted(headers)), names,
                                   headers["x-acs-content-sha256"]])
            text = "ACS3-HMAC-SHA256\n" + hashlib.sha256(canonical.encode()).hexdigest()
            signature = hmac.new(key.encode(), text.encode(), hashlib.sha256).hexdigest()
            headers["Authorization"] = f"ACS3-HMAC-SHA256 Credential=admin,SignedHeaders={names},Signature={signature}"
            connection = http.client.HTTPConnection(host, timeout=10)
            self.addCleanup(connection.close)
            connection.request("GET", path + "?PageSize=2", headers=headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())

        status, body = ask(secret)
        self.assertEqual((status, len(body["Quotas"])), (200, 2), body)
        status, body = ask(secret + "x")
        self.assertEqual((status, body["Code"]), (401, "SignatureDoesNotMatch"))


if __name__ == "__main__":
    unittest.main()
