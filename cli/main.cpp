// `ebb`: the command line over the API.
#include <cstdio>

#include "cli/shell.hpp"

int main(int argc, char** argv) {
  using namespace ebb::cli;
  CLI::App app{"ebb: jobs, services and dev instances on one GPU cluster"};
  Shell shell;
  app.require_subcommand(1);
  app.fallthrough();
  app.add_option("--server", shell.server,
                 "http://HOST:PORT of ebbd; default: EBB_SERVER, DATA/address, 127.0.0.1:7070");
  app.add_option("--data-dir", shell.data_dir,
                 "ebbd's data directory, where the token is; default: EBB_DATA, .ebb");
  app.add_option("-o,--output", shell.format_name, "table, json, yaml or quiet (ids only)")
      ->check(CLI::IsMember({"table", "json", "yaml", "quiet"}));
  add_cluster_commands(app, shell);
  add_quota_commands(app, shell);
  add_node_commands(app, shell);
  add_workspace_commands(app, shell);
  add_job_commands(app, shell);
  add_service_commands(app, shell);
  add_instance_commands(app, shell);
  try {
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const Refused& refused) {
    std::fprintf(stderr, "ebb: %s (%s)\n", ebb::api::plain_text(refused.refusal.message).c_str(),
                 ebb::api::plain_text(refused.refusal.code).c_str());
    return 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ebb: %s\n", ebb::api::plain_text(error.what()).c_str());
    return 1;
  }
}
