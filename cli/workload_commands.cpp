// Jobs, services, dev instances.
#include <memory>

#include "cli/apply_file.hpp"
#include "cli/shell.hpp"

namespace ebb::cli {
namespace {

using Text = std::shared_ptr<std::string>;
constexpr const char* kServices = "/api/v2/services";

Text option(CLI::App* command, const char* name, const char* help) {
  auto text = std::make_shared<std::string>();
  command->add_option(name, *text, help)->required();
  return text;
}

std::string service_path(const std::string& name, const std::string& rest = "") {
  return std::string(kServices) + "/ebb/" + encoded(name) + rest;
}

void print_lines(Shell& shell, const Json& answer, const char* field) {
  if (shell.format() == Format::Json || shell.format() == Format::Yaml) {
    return shell.print_object(answer, "/RequestId");
  }
  for (const Json& line : answer.value(field, Json::array())) {
    shell.print(api::plain_text(line.get<std::string>()) + "\n");
  }
}

void job_logs(Shell& shell, const std::string& job, std::string pod, int lines) {
  const std::string id = shell.job_id(job);
  if (pod.empty()) {
    const Json answer = need(shell.client().get("/api/v1/jobs/" + encoded(id)));
    const Json pods = answer.value("Pods", Json::array());
    if (pods.empty()) throw Refused{{"NotFound", "job " + job + " has no pods yet", 404}};
    pod = pods[0].value("PodId", "");
  }
  print_lines(
      shell,
      need(shell.client().get("/api/v1/jobs/" + encoded(id) + "/pods/" + encoded(pod) + "/logs",
                              {{"MaxLines", std::to_string(lines)}})),
      "Logs");
}

void set_cron(Shell& shell, const std::string& service, const std::string& file) {
  const YamlRequest reader(file, "eas", {});
  const Json body = need(reader.read(need(YamlRequest::load(need(read_input(file)), file)),
                                     "CreateServiceCronScalerRequest"));
  auto now = shell.client().get(service_path(service, "/cronscaler"));
  const bool exists = now && now->contains("ScaleJobs") && !(*now)["ScaleJobs"].empty();
  const std::string path = service_path(service, "/cronscaler");
  const Json answer =
      need(exists ? shell.client().put(path, body) : shell.client().post(path, body));
  shell.print_done(answer, "/Message", "cron scaler of " + service + " is set");
}

}  // namespace

void add_job_commands(CLI::App& app, Shell& shell) {
  CLI::App* dlc = app.add_subcommand("dlc", "training jobs");
  dlc->require_subcommand(1);

  auto* one = dlc->add_subcommand("create", "submit the jobs of a file");
  const Text file = option(one, "-f,--file", "YAML or JSON; - for standard input");
  one->callback([&shell, file] {
    for (const ApplyItem& item : need(read_items(need(read_input(*file)), *file, "Jobs"))) {
      const Json answer =
          need(shell.client().post("/api/v1/jobs", resolved_home(item.body, shell)));
      shell.print_done(answer, "/JobId",
                       "submitted job " + item.name + " (" + answer.value("JobId", "") + ")");
    }
  });

  one = dlc->add_subcommand("list", "jobs, newest first");
  auto status = std::make_shared<std::string>();
  auto quota = std::make_shared<std::string>();
  one->add_option("--status", *status, "for instance Running,Queuing");
  one->add_option("--quota", *quota, "id or name");
  one->callback([&shell, status, quota] {
    Query query;
    if (!status->empty()) query.emplace_back("Status", *status);
    if (!quota->empty()) query.emplace_back("ResourceId", shell.quota_id(*quota));
    static const std::vector<Column> kColumns = {{"ID", "/JobId"},
                                                 {"NAME", "/DisplayName"},
                                                 {"STATUS", "/Status"},
                                                 {"QUOTA", "/ResourceName"},
                                                 {"WORKSPACE", "/WorkspaceName"},
                                                 {"PRIO", "/Priority", true},
                                                 {"GPU", "/RequestGPU", true},
                                                 {"IDLE", "/UseOversoldResource"},
                                                 {"RESTARTS", "/RestartTimes"},
                                                 {"CREATED", "/GmtCreateTime"}};
    shell.print_list(need(shell.client().get_all("/api/v1/jobs", "Jobs", query)), kColumns,
                     "/JobId");
  });

  one = dlc->add_subcommand("get", "one job");
  const Text got = option(one, "JOB", "id or name");
  one->callback([&shell, got] {
    shell.print_object(need(shell.client().get("/api/v1/jobs/" + encoded(shell.job_id(*got)))),
                       "/JobId");
  });

  one = dlc->add_subcommand("stop", "stop a job for good");
  const Text stopped = option(one, "JOB", "id or name");
  one->callback([&shell, stopped] {
    const Json answer = need(shell.client().post(
        "/api/v1/jobs/" + encoded(shell.job_id(*stopped)) + "/stop", Json::object()));
    shell.print_done(answer, "/JobId", "stopping job " + *stopped);
  });

  one = dlc->add_subcommand("delete", "delete a job that has ended");
  const Text deleted = option(one, "JOB", "id or name");
  one->callback([&shell, deleted] {
    const Json answer =
        need(shell.client().remove("/api/v1/jobs/" + encoded(shell.job_id(*deleted))));
    shell.print_done(answer, "/JobId", "deleted job " + *deleted);
  });

  one = dlc->add_subcommand("logs", "the end of a pod's log");
  const Text logged = option(one, "JOB", "id or name");
  auto pod = std::make_shared<std::string>();
  auto lines = std::make_shared<int>(200);
  one->add_option("--pod", *pod, "pod id; default: the first pod");
  one->add_option("--lines", *lines)->check(CLI::Range(1, 10'000));
  one->callback([&shell, logged, pod, lines] { job_logs(shell, *logged, *pod, *lines); });

  one = dlc->add_subcommand("events", "what happened to a job");
  const Text events = option(one, "JOB", "id or name");
  one->callback([&shell, events] {
    print_lines(
        shell,
        need(shell.client().get("/api/v1/jobs/" + encoded(shell.job_id(*events)) + "/events")),
        "Events");
  });
}

void add_service_commands(CLI::App& app, Shell& shell) {
  CLI::App* eas = app.add_subcommand("eas", "inference services");
  eas->require_subcommand(1);

  auto* one = eas->add_subcommand("create", "create the services of a file");
  const Text file = option(one, "-f,--file", "YAML or JSON; - for standard input");
  one->callback([&shell, file] {
    for (const ApplyItem& item : need(read_items(need(read_input(*file)), *file, "Services"))) {
      const Json answer = need(shell.client().post(kServices, resolved_service(item.body, shell)));
      if (item.body.contains("cronscaler")) {
        need(shell.client().post(service_path(item.name, "/cronscaler"), item.body["cronscaler"]));
      }
      shell.print_done(answer, "/ServiceId",
                       "created service " + item.name + " (" + answer.value("ServiceId", "") + ")");
    }
  });

  eas->add_subcommand("list", "all services")->callback([&shell] {
    static const std::vector<Column> kColumns = {{"ID", "/ServiceId"},
                                                 {"NAME", "/ServiceName"},
                                                 {"STATUS", "/Status"},
                                                 {"WANTED", "/TotalInstance", true},
                                                 {"RUNNING", "/RunningInstance", true},
                                                 {"PENDING", "/PendingInstance", true},
                                                 {"GPU", "/Gpu", true},
                                                 {"CRON", "/CronscalerEnabled"},
                                                 {"MESSAGE", "/Message"}};
    shell.print_list(need(shell.client().get_all(kServices, "Services")), kColumns, "/ServiceId");
  });

  one = eas->add_subcommand("get", "one service");
  const Text got = option(one, "SERVICE", "name or id");
  one->callback([&shell, got] {
    shell.print_object(need(shell.client().get(service_path(*got))), "/ServiceId");
  });

  one = eas->add_subcommand("instances", "the replicas of a service");
  const Text replicas = option(one, "SERVICE", "name or id");
  one->callback([&shell, replicas] {
    static const std::vector<Column> kColumns = {
        {"NAME", "/InstanceName"}, {"STATUS", "/Status"},           {"HOST", "/HostName"},
        {"ADDRESS", "/InnerIP"},   {"PORT", "/InstancePort", true}, {"STARTED", "/StartTime"},
        {"REASON", "/Reason"}};
    shell.print_list(
        need(shell.client().get_all(service_path(*replicas, "/instances"), "Instances")), kColumns,
        "/InstanceName");
  });

  one = eas->add_subcommand("scale", "change the number of replicas");
  const Text scaled = option(one, "SERVICE", "name or id");
  auto count = std::make_shared<int>(0);
  one->add_option("REPLICAS", *count)->required()->check(CLI::Range(0, 100'000));
  one->callback([&shell, scaled, count] {
    const Json answer =
        need(shell.client().put(service_path(*scaled, "/scale"), {{"Instance", *count}}));
    shell.print_done(answer, "/Message", "scaling " + *scaled + " to " + std::to_string(*count));
  });

  const auto order = [&](const char* verb, const char* rest, const char* done, const char* help) {
    auto* command = eas->add_subcommand(verb, help);
    const Text name = option(command, "SERVICE", "name or id");
    command->callback([&shell, name, rest, done] {
      const Json answer = need(shell.client().put(service_path(*name, rest)));
      shell.print_done(answer, "/Message", std::string(done) + " " + *name);
    });
  };
  order("start", "/start", "starting", "start a stopped service");
  order("stop", "/stop", "stopping", "stop a service; it can be started again");
  one = eas->add_subcommand("delete", "delete a service");
  const Text deleted = option(one, "SERVICE", "name or id");
  one->callback([&shell, deleted] {
    shell.print_done(need(shell.client().remove(service_path(*deleted))), "/Message",
                     "deleting " + *deleted);
  });

  CLI::App* cron = eas->add_subcommand("cron", "scaling by the clock");
  cron->require_subcommand(1);
  one = cron->add_subcommand("set", "set the cron scaler of a service");
  const Text cron_set = option(one, "SERVICE", "name or id");
  const Text cron_file = option(one, "-f,--file", "YAML or JSON with ScaleJobs and ExcludeDates");
  one->callback([&shell, cron_set, cron_file] { set_cron(shell, *cron_set, *cron_file); });
  one = cron->add_subcommand("get", "the cron scaler of a service");
  const Text cron_got = option(one, "SERVICE", "name or id");
  one->callback([&shell, cron_got] {
    const Json answer = need(shell.client().get(service_path(*cron_got, "/cronscaler")));
    if (shell.format() != Format::Table) return shell.print_object(answer, "/ServiceName");
    static const std::vector<Column> kColumns = {
        {"NAME", "/Name"},   {"SCHEDULE", "/Schedule"},  {"REPLICAS", "/TargetSize", true},
        {"STATE", "/State"}, {"LAST", "/LastProbeTime"}, {"MESSAGE", "/Message"}};
    shell.print_list(answer.value("ScaleJobs", Json::array()), kColumns, "/Name");
  });
  one = cron->add_subcommand("delete", "delete the cron scaler of a service");
  const Text cron_deleted = option(one, "SERVICE", "name or id");
  one->callback([&shell, cron_deleted] {
    shell.print_done(need(shell.client().remove(service_path(*cron_deleted, "/cronscaler"))),
                     "/Message", "cron scaler of " + *cron_deleted + " is deleted");
  });
}

void add_instance_commands(CLI::App& app, Shell& shell) {
  CLI::App* dsw = app.add_subcommand("dsw", "dev instances");
  dsw->require_subcommand(1);

  auto* one = dsw->add_subcommand("create", "create the instances of a file");
  const Text file = option(one, "-f,--file", "YAML or JSON; - for standard input");
  one->callback([&shell, file] {
    for (const ApplyItem& item : need(read_items(need(read_input(*file)), *file, "Instances"))) {
      const Json answer =
          need(shell.client().post("/api/v2/instances", resolved_home(item.body, shell)));
      shell.print_done(
          answer, "/InstanceId",
          "created instance " + item.name + " (" + answer.value("InstanceId", "") + ")");
    }
  });

  dsw->add_subcommand("list", "all instances")->callback([&shell] {
    static const std::vector<Column> kColumns = {{"ID", "/InstanceId"},
                                                 {"NAME", "/InstanceName"},
                                                 {"STATUS", "/Status"},
                                                 {"QUOTA", "/ResourceName"},
                                                 {"WORKSPACE", "/WorkspaceName"},
                                                 {"GPU", "/RequestedResource/GPU", true},
                                                 {"USER", "/UserId"},
                                                 {"WHY", "/ReasonMessage"}};
    shell.print_list(need(shell.client().get_all("/api/v2/instances", "Instances")), kColumns,
                     "/InstanceId");
  });

  one = dsw->add_subcommand("get", "one instance");
  const Text got = option(one, "INSTANCE", "id or name");
  one->callback([&shell, got] {
    shell.print_object(
        need(shell.client().get("/api/v2/instances/" + encoded(shell.instance_id(*got)))),
        "/InstanceId");
  });
  const auto order = [&](const char* verb, const char* rest, const char* done, const char* help) {
    auto* command = dsw->add_subcommand(verb, help);
    const Text name = option(command, "INSTANCE", "id or name");
    command->callback([&shell, name, rest, done] {
      const Json answer =
          need(shell.client().put("/api/v2/instances/" + encoded(shell.instance_id(*name)) + rest));
      shell.print_done(answer, "/InstanceId", std::string(done) + " " + *name);
    });
  };
  order("start", "/start", "starting", "start a stopped instance");
  order("stop", "/stop", "stopping", "stop an instance; it can be started again");
  one = dsw->add_subcommand("delete", "delete an instance");
  const Text deleted = option(one, "INSTANCE", "id or name");
  one->callback([&shell, deleted] {
    const Json answer =
        need(shell.client().remove("/api/v2/instances/" + encoded(shell.instance_id(*deleted))));
    shell.print_done(answer, "/InstanceId", "deleted " + *deleted);
  });
}

}  // namespace ebb::cli
