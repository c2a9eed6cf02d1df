// SPDX-License-Identifier: Apache-2.0
// autopar-profile: measures this machine and writes a cluster file. What is timed are programs in
// the runtime itself, on as many ranks as the cluster will have, all at once.
#include "CollectiveTimes.h"
#include "InstructionTimes.h"
#include "MachineMemory.h"
#include "Measurements.h"
#include "NetworkLink.h"
#include "ProfileOptions.h"

#include "autopar/Base/OutputFile.h"
#include "autopar/Cost/Cluster.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <sched.h>

#include <nlohmann/json.hpp>

using namespace autopar;
using namespace autopar::tools;

namespace {

/// The part of memory that stays with the system and other programs.
constexpr int64_t kReservedPart = 10;

int32_t coreCount() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

/// Four digits are more than any measurement has.
double rounded(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g", value);
  return std::strtod(text, nullptr);
}

void round(DeviceType &device, Link &link) {
  for (auto &[type, rate] : device.peakFlopsPerSecond)
    rate = rounded(rate);
  for (double *value :
       {&device.computeEfficiency, &device.memoryBytesPerSecond, &device.memoryEfficiency,
        &device.launchUs, &link.latencyUs, &link.bytesPerSecond})
    *value = rounded(*value);
}

/// Other programs take time from what is measured.
void warnIfBusy(const ProfileOptions &options) {
  double load = 0;
  if (getloadavg(&load, 1) == 1 && load > 0.5 * coreCount() && !options.quiet)
    std::fprintf(stderr,
                 "autopar-profile: remark: the load average is %.1f on %d cores; while other "
                 "programs run, figures come out too low\n",
                 load, coreCount());
}

Result<Machine> machineFor(const ProfileOptions &options) {
  auto memory = machineMemoryBytes();
  if (!memory)
    return memory.status();
  Machine machine;
  machine.ranks = options.ranks > 0 ? options.ranks : coreCount();
  machine.threads =
      options.threads > 0 ? options.threads : std::max(1, coreCount() / machine.ranks);
  machine.bytesPerRank = *memory / machine.ranks;
  machine.quick = options.quick;
  machine.quiet = options.quiet;
  return machine;
}

Result<Cluster> measure(const Machine &machine) {
  DeviceType device;
  device.name = "cpu";
  device.memoryBytes = machine.bytesPerRank;
  device.reservedBytes = machine.bytesPerRank / kReservedPart;
  // The thread of a rank that computes drives its messages too.
  device.communicatesWhileIdle = true;
  AUTOPAR_RETURN_IF_ERROR(measureProducts(machine, device));
  AUTOPAR_RETURN_IF_ERROR(measureMemory(machine, device));
  AUTOPAR_RETURN_IF_ERROR(measureLaunch(machine, device));
  auto link = measureLink(machine);
  if (!link)
    return link.status();
  round(device, *link);
  Cluster cluster;
  cluster.name = "measured: ranks " + std::to_string(machine.ranks) + ", threads of each " +
                 std::to_string(machine.threads);
  cluster.deviceTypes = {device};
  cluster.nodes = {{1, machine.ranks, device.name, {}}};
  cluster.levels = {{"memory", *link, 1}};
  AUTOPAR_RETURN_IF_ERROR(cluster.verify());
  return cluster;
}

/// Times of instructions and collectives, as a file.
Result<std::string> measureDatabase(const Machine &machine) {
  auto instructions = measureInstructions(machine);
  if (!instructions)
    return instructions.status();
  for (MeasuredOperation &operation : *instructions)
    for (double &us : operation.us)
      us = rounded(us);
  nlohmann::ordered_json json{{"kind", "autopar.profile"},
                              {"version", 1},
                              {"device", "ranks " + std::to_string(machine.ranks) +
                                             ", threads of each " +
                                             std::to_string(machine.threads)},
                              {"instructions", toJson(*instructions)}};
  if (machine.ranks > 1) {
    auto collectives = measureCollectives(machine);
    if (!collectives)
      return collectives.status();
    for (MeasuredCollective &collective : *collectives)
      for (auto &time : collective.times)
        time.second = rounded(time.second);
    json["collectives"] = toJson(*collectives);
  }
  return json.dump(1) + "\n";
}

/// The hosts that a launcher started this on.
Status runOnHosts(const ProfileOptions &options, const runtime::LaunchedRank &launch) {
  if (options.hosts.empty())
    return {StatusCode::Usage,
            "this is rank " + std::to_string(launch.rank) + " of " +
                std::to_string(launch.worldSize) +
                " that a launcher started; without one, measure a host: -o host.json; then, with "
                "one, the network between hosts: --hosts host.json -o cluster.json"};
  if (!options.database.empty())
    return {StatusCode::Usage, "--database measures one host; it does not go with --hosts"};
  auto host = Cluster::load(options.hosts);
  if (!host)
    return host.status();
  auto world = runtime::joinWorld(launch, options);
  if (!world)
    return world.status();
  auto cluster = measureHosts(*host, *world, options);
  Status status = cluster.status();
  if (status.isOk() && launch.rank == 0) {
    Link &network = cluster->levels.back().link;
    network = {rounded(network.latencyUs), rounded(network.bytesPerSecond),
               rounded(network.computeLoss)};
    status = writeWholeFile(options.output, cluster->toJson());
  }
  if (world->rendezvous && !status.isOk())
    world->rendezvous->fail(status);
  return status;
}

Status run(const ProfileOptions &options) {
  auto launch = runtime::detectLaunch(options);
  if (!launch)
    return launch.status();
  if (launch->kind != runtime::LaunchedRank::Kind::InProcess)
    return runOnHosts(options, *launch);
  if (!options.hosts.empty())
    return {StatusCode::Usage,
            "--hosts needs one process per rank, on several hosts: start it by a launcher, or "
            "with --rank and --world-size (docs/Running.md)"};
  // Said before half a minute of measuring, not after.
  AUTOPAR_RETURN_IF_ERROR(checkCanCreate(options.output));
  if (!options.database.empty())
    AUTOPAR_RETURN_IF_ERROR(checkCanCreate(options.database));
  warnIfBusy(options);
  auto machine = machineFor(options);
  if (!machine)
    return machine.status();
  auto cluster = measure(*machine);
  if (!cluster)
    return cluster.status();
  if (!options.database.empty()) {
    auto database = measureDatabase(*machine);
    if (!database)
      return database.status();
    AUTOPAR_RETURN_IF_ERROR(writeWholeFile(options.database, *database));
  }
  return writeWholeFile(options.output, cluster->toJson());
}

} // namespace

int main(int argc, char **argv) {
  refuseOversizedFiles();
  ProfileOptions options;
  if (int code = parseCommandLine(argc, argv, options); code >= 0)
    return code;
  Status status = run(options);
  if (status.isOk())
    return 0;
  std::fprintf(stderr, "autopar-profile: %s\n", status.message().c_str());
  return status.exitCode();
}
