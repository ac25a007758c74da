// status, top, explain, apply.
#include <unistd.h>

#include <chrono>
#include <memory>
#include <thread>

#include "cli/apply.hpp"
#include "cli/shell.hpp"

namespace ebb::cli {
namespace {

std::string waiting_text(const Json& counts) {
  std::string text;
  for (const auto& [product, count] : counts.items()) {
    text += (text.empty() ? "" : " ") + product + ":" + count.dump();
  }
  return text.empty() ? "-" : text;
}

/// One picture: the clock, GPUs by quota, the last decisions.
std::string picture(const Json& overview, const Json& decisions) {
  std::string text = cell(overview, "/Clock") + "   GPUs " + cell(overview, "/TotalGPU") +
                     "   in-quota " + cell(overview, "/InQuotaGPU") + "   idle " +
                     cell(overview, "/IdleUsedGPU") + "   free " + cell(overview, "/FreeGPU") +
                     "   nodes " + cell(overview, "/NodeStates") + "\n\n";
  std::vector<std::vector<std::string>> rows;
  for (const Json& quota : overview.value("Quotas", Json::array())) {
    const auto depth = static_cast<std::size_t>(quota.value("Depth", 0));
    rows.push_back({std::string(2 * depth, ' ') + cell(quota, "/QuotaName"),
                    cell(quota, "/GuaranteeGPU"), cell(quota, "/HoldingGPU"),
                    cell(quota, "/UsedGPU"), cell(quota, "/DescendantsUsedGPU"),
                    cell(quota, "/IdleUsedGPU"), cell(quota, "/WaitingGPU"),
                    waiting_text(quota.value("Running", Json::object())),
                    waiting_text(quota.value("Waiting", Json::object()))});
  }
  text += table_text(
      {"QUOTA", "GUARANTEE", "HOLDS", "USED", "BELOW", "IDLE", "WAITS FOR", "RUNNING", "WAITING"},
      rows, {false, true, true, true, true, true, true, false, false});
  const Json lines = decisions.value("Decisions", Json::array());
  if (!lines.empty()) text += "\n";
  for (const Json& line : lines) text += cell(line, "/Time") + "  " + cell(line, "/Line") + "\n";
  return text;
}

void top(Shell& shell, double interval_s, int rounds) {
  const bool live = isatty(STDOUT_FILENO) == 1 && shell.format() == Format::Table;
  if (rounds == 0 && !live) rounds = 1;
  for (int round = 0; rounds == 0 || round < rounds; ++round) {
    const Json overview = need(shell.client().get("/ebb/v1/overview"));
    const Json decisions = need(shell.client().get("/ebb/v1/decisions", {{"limit", "10"}}));
    if (shell.format() == Format::Table) {
      shell.print((live ? "\x1b[H\x1b[2J" : "") + picture(overview, decisions));
    } else {
      shell.print_object(overview, "/Clock");
    }
    if (rounds == 0 || round + 1 < rounds) {
      std::this_thread::sleep_for(std::chrono::duration<double>(interval_s));
    }
  }
}

void explain(Shell& shell, const std::string& name) {
  std::string id = name;
  if (!name.starts_with("dlc") && !name.starts_with("eas-") && !name.starts_with("dsw-"))
    id = shell.job_id(name);
  const Json answer = need(shell.client().get("/ebb/v1/explain/" + encoded(id)));
  if (shell.format() != Format::Table) return shell.print_object(answer, "/WorkloadId");
  std::string text = cell(answer, "/Sentence") + "\n";
  for (const Json& one : answer.value("Preemptions", Json::array())) {
    text += "  preempted " + cell(one, "/Time") + " by " + cell(one, "/By") + ": " +
            cell(one, "/Sentence") + "\n";
  }
  for (const Json& line : answer.value("Events", Json::array())) {
    text += "  " + api::plain_text(line.get<std::string>()) + "\n";
  }
  shell.print(text);
}

}  // namespace

void add_cluster_commands(CLI::App& app, Shell& shell) {
  app.add_subcommand("status", "the server: version, clock, store")->callback([&shell] {
    shell.print_object(need(shell.client().get("/ebb/v1/status")), "/Version");
  });

  auto* one =
      app.add_subcommand("top", "GPUs by quota, what waits, last decisions; live on a terminal");
  auto interval = std::make_shared<double>(1.0);
  auto rounds = std::make_shared<int>(0);
  one->add_option("--interval", *interval, "seconds between two looks")
      ->check(CLI::Range(0.1, 3'600.0));
  one->add_option("-n,--rounds", *rounds, "end after so many looks")->check(CLI::PositiveNumber);
  one->callback([&shell, interval, rounds] { top(shell, *interval, *rounds); });

  one = app.add_subcommand("explain", "why a workload waits, runs where it runs, or was evicted");
  auto name = std::make_shared<std::string>();
  one->add_option("WORKLOAD", *name, "id, or a job's name")->required();
  one->callback([&shell, name] { explain(shell, *name); });

  one = app.add_subcommand("apply", "bring the cluster to what a file says");
  auto file = std::make_shared<std::string>();
  auto check = std::make_shared<bool>(false);
  one->add_option("-f,--file", *file, "see docs/apply.md; - for standard input")->required();
  one->add_flag("--check", *check, "only read the file");
  one->callback([&shell, file, check] {
    const ApplyFile read = need(read_apply_file(need(read_input(*file)), *file));
    if (*check) return shell.print(*file + ": right\n");
    apply(read, shell);
  });
}

}  // namespace ebb::cli
