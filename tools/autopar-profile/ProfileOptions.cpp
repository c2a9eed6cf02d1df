// SPDX-License-Identifier: Apache-2.0
// The command line of autopar-profile.
#include "ProfileOptions.h"

#include <CLI/CLI.hpp>

#include <iostream>

namespace autopar::tools {
namespace {

constexpr const char *kFooter = R"(
Examples:
  autopar-profile -o cluster.json                     one rank per core of this machine, under half a minute
  autopar-profile --ranks 4 --quick -o cluster.json   four ranks, a few seconds
  autopar-compile model.onnx --cluster cluster.json -o compiled.bin
  mpirun -np 8 --hostfile hosts autopar-profile --hosts cluster.json -o hosts.json    several such machines and their network
  autopar-profile -o cluster.json --database profile.json      and the times of instructions, about a minute
  autopar-run compiled.bin --simulate cluster.json --profile-database profile.json

All ranks measure at the same time, as they run at the same time: leave the machine alone meanwhile.
What is measured and how: docs/CostModel.md. Exit codes: docs/ExitCodes.md.)";

} // namespace

int parseCommandLine(int argc, char **argv, ProfileOptions &options) {
  CLI::App app{"Measures this machine and writes a cluster file for autopar-compile --cluster."};
  app.footer(kFooter);
  app.set_version_flag("--version", std::string("autopar-profile " AUTOPAR_VERSION));
  app.add_option("--output,-o", options.output, "the cluster file to write");
  app.add_option("--database", options.database,
                 "measure the instructions of compiled models and the collectives too, and write "
                 "this profile database");
  app.add_option("--hosts", options.hosts,
                 "started by a launcher, a rank per device: measure the network between the hosts, "
                 "each of which is as this cluster file says");
  addLaunchOptions(app, options);
  app.add_option("--ranks", options.ranks, "devices of the cluster (default: one per core)")
      ->check(CLI::Range(1, 1024));
  app.add_option("--threads", options.threads, "threads per rank (default: cores divided by ranks)")
      ->check(CLI::Range(1, 4096));
  app.add_flag("--quick", options.quick, "fewer shapes, sizes and repeats: a few seconds");
  app.add_flag("--quiet,-q", options.quiet, "no line per measurement");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  // Checked here, after unknown flags were named.
  if (options.output.empty()) {
    std::cerr << "autopar-profile: where to write? Name the file: -o cluster.json. Run with --help "
                 "for more information.\n";
    return 2;
  }
  return -1;
}

} // namespace autopar::tools
