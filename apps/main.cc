#include <CLI/CLI.hpp>

#include "commands.h"

int main(int argc, char** argv) {
  CLI::App app{"Yeoul serves DeepSeek-V4.1-Flash checkpoints"};
  app.require_subcommand(1);
  app.set_version_flag("--version", YEOUL_VERSION);
  int exit_code = 0;
  yeoul::add_serve_command(app, exit_code);
  yeoul::add_run_command(app, exit_code);
  yeoul::add_inspect_command(app, exit_code);
  yeoul::add_doctor_command(app, exit_code);
  yeoul::add_logits_command(app, exit_code);
  yeoul::add_make_checkpoint_command(app, exit_code);
  CLI11_PARSE(app, argc, argv);
  return exit_code;
}
