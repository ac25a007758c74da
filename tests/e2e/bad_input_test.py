"""Bad input: every refusal names the field, the value and what is allowed, by API and by CLI."""

import copy
import json
import os
import unittest

from harness import EbbTest, tree


class BadInput(EbbTest):
    """One cluster for all; nothing here may change it."""

    TREE = tree(2, {"b": 8})

    def expect(self, refusal, *words, status=None):
        for word in words:
            self.assertIn(word, refusal.message)
        self.assertTrue(refusal.code, "has a code")
        if status:
            self.assertEqual(refusal.status, status)
        self.assertIn(refusal.status, (400, 404, 409), f"{refusal}")

    def refused_job(self, *words, **change):
        request = self.job_request(**change) if "request" not in change else change["request"]
        self.expect(self.refused(self.cluster.api, "POST", "/api/v1/jobs", request), *words)

    def refused_by_cli(self, words, *command, text=None):
        done = self.cluster.ebb(*command, text=text)
        self.assertNotEqual(done.returncode, 0, f"{command}: {done.stdout}")
        for word in words:
            self.assertIn(word, done.stderr, f"{command}")

    def refused_file(self, words, kind, document):
        path = os.path.join(self.scratch, "bad.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(document if isinstance(document, str) else json.dumps(document))
        self.refused_by_cli(words, *kind, "-f", path)

    def test_all_of_it(self):
        """In parts, over one cluster."""
        before = self.cluster.overview()
        for part in (self.quotas_part, self.names_part, self.priority_part, self.gpu_part, self.cron_part,
                     self.replicas_part, self.duplicates_part, self.apply_part, self.http_part):
            with self.subTest(part.__name__):
                part()
        after = self.cluster.overview()
        for seen in (before, after):
            seen.pop("RequestId"), seen.pop("Clock"), seen.pop("ClockMs")
        after["Quotas"][0]["Waiting"] = before["Quotas"][0]["Waiting"]
        self.assertEqual([one["QuotaName"] for one in after["Quotas"]], [one["QuotaName"] for one in before["Quotas"]])
        self.assertEqual([one["GuaranteeGPU"] for one in after["Quotas"]],
                         [one["GuaranteeGPU"] for one in before["Quotas"]])

    def quotas_part(self):
        too_large = {"QuotaName": "c", "ParentQuotaId": self.quotas["root"], "Min": {"GPU": "9", "GPUType": "A100x8"}}
        refusal = self.refused(self.cluster.api, "POST", "/api/v1/quotas", too_large)
        self.expect(refusal, "Min", "9", "16", "at most 8")  # 8 of 16 are b's
        self.refused_file(["Min", "9", "at most 8"], ("quota", "create"), {**too_large})
        refusal = self.refused(self.cluster.api, "POST", "/api/v1/quotas", {
            "QuotaName": "c", "ParentQuotaId": "quota-none", "Min": {"GPU": "1", "GPUType": "A100x8"}})
        self.expect(refusal, "quota-none")
        refusal = self.refused(self.cluster.api, "PUT", f"/api/v1/quotas/{self.quotas['b']}/action/scale",
                               {"Min": {"GPU": "17", "GPUType": "A100x8"}})
        self.expect(refusal, "17", "16")
        self.refused_by_cli(["17", "16"], "quota", "scale", "b=17")

    def names_part(self):
        self.refused_job("quota-none", quota="quota-none")
        self.refused_job("WorkspaceId", request={**self.job_request(), "WorkspaceId": ""})
        self.refused_job("ws-none", request={**self.job_request(), "WorkspaceId": "ws-none"})
        job = {**self.job_request(), "Quota": "nowhere", "Workspace": "lab"}
        del job["ResourceId"], job["WorkspaceId"]
        self.refused_file(["nowhere"], ("dlc", "create"), job)
        self.refused_file(["nobody"], ("dlc", "create"), {**job, "Quota": "b", "Workspace": "nobody"})

    def priority_part(self):
        for priority in (0, 10, -1):
            self.refused_job("Priority", str(priority), "1", "9", priority=priority)
        job = {**self.job_request(priority=10), "Quota": "b", "Workspace": "lab"}
        del job["ResourceId"], job["WorkspaceId"]
        self.refused_file(["Priority", "10"], ("dlc", "create"), job)

    def gpu_part(self):
        for gpus in ("-1", "9223372036854775808", "1.5.0", "NaN", "1e3", ""):
            self.refused_job("JobSpecs[0].ResourceConfig.GPU", gpus, gpus=gpus)
        self.refused_job("GPU", "0.5", gpus="0.5")  # EnableGPUShare is off
        self.refused_job("GPU", gpus="9")  # no node has more than 8

    def cron_part(self):
        self.create_service("clocked", replicas=0)
        scaler = {"ScaleJobs": [{"Name": "up", "Schedule": "0 0 8 * * *", "TargetSize": 1, "TimeZone": "UTC"}]}

        def refused_cron(*words, **change):
            bad = copy.deepcopy(scaler)
            bad["ScaleJobs"][0].update(change)
            self.expect(self.refused(self.cluster.api, "POST", "/api/v2/services/ebb/clocked/cronscaler", bad), *words)

        refused_cron("Schedule", "0 8 * * *", "six", Schedule="0 8 * * *")
        refused_cron("Schedule", "0 0 8 * * * *", "six", Schedule="0 0 8 * * * *")
        refused_cron("Schedule", "0 0 25 * * *", Schedule="0 0 25 * * *")
        refused_cron("TimeZone", "Mars/Olympus", TimeZone="Mars/Olympus")
        refused_cron("TargetSize", "-1", TargetSize=-1)
        self.refused_file(["Schedule", "0 8 * * *"], ("eas", "cron", "set", "clocked"),
                          {"ScaleJobs": [{"Name": "up", "Schedule": "0 8 * * *", "TargetSize": 1}]})

    def replicas_part(self):
        refusal = self.refused(self.cluster.api, "POST", "/api/v2/services",
                               self.service_request("huge", replicas=5, gpus=4))
        self.expect(refusal, "metadata.instance", "5", "at most 4")  # 16 GPUs: four of 4
        self.create_service("grows", replicas=0, gpus=4)
        refusal = self.refused(self.cluster.api, "PUT", "/api/v2/services/ebb/grows/scale", {"Instance": 5})
        self.expect(refusal, "Instance", "5")
        self.refused_by_cli(["5"], "eas", "scale", "grows", "5")

    def duplicates_part(self):
        refusal = self.refused(self.cluster.api, "POST", "/api/v1/quotas", {
            "QuotaName": "b", "ParentQuotaId": self.quotas["root"], "Min": {"GPU": "1", "GPUType": "A100x8"}})
        self.expect(refusal, "QuotaName", "b")
        self.expect(self.refused(self.cluster.api, "POST", "/api/v1/workspaces", {"WorkspaceName": "lab"}), "lab")
        self.create_service("twin", replicas=0)
        self.expect(self.refused(self.create_service, "twin", replicas=0), "twin")

    def apply_part(self):
        self.refused_file(["Quotaz", "Quotas", ":1"], ("apply",), "Quotaz: []\n")
        self.refused_file(["DisplayNam", "DisplayName", ":2"], ("apply",), "Jobs:\n  - {DisplayNam: x}\n")
        self.refused_by_cli(["no-such-file"], "apply", "-f", os.path.join(self.scratch, "no-such-file"))

    def http_part(self):
        self.assertEqual(self.refused(self.cluster.api, "GET", "/api/v1/jobs", token="0" * 64).status, 401)
        self.expect(self.refused(self.cluster.api, "POST", "/api/v1/jobs", "{"), "", status=400)
        refusal = self.refused(self.cluster.api, "POST", "/api/v1/jobs", {**self.job_request(), "Priorty": 1})
        self.expect(refusal, "Priorty", "Priority")


if __name__ == "__main__":
    unittest.main()
