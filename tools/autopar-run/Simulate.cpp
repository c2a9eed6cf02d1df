// SPDX-License-Identifier: Apache-2.0
#include "Simulate.h"

#include "Report.h"
#include "autopar/Base/Utf8.h"
#include "autopar/Cost/ProfileDatabase.h"
#include "autopar/Runtime/Simulation.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

namespace autopar::tools {
namespace {

using nlohmann::ordered_json;
using runtime::SimulatedRank;
using runtime::Simulation;

/// Ranks that run the same program.
struct ClassSummary {
  int64_t ranks = 0, computeNs = 0, least = 0, most = 0, memoryBytes = 0;

  void add(const SimulatedRank &rank) {
    least = ranks ? std::min(least, rank.computeNs) : rank.computeNs;
    most = std::max(most, rank.computeNs);
    computeNs += rank.computeNs;
    memoryBytes = std::max(memoryBytes, rank.memoryBytes);
    ++ranks;
  }
};

void printText(const Simulation &simulation, int64_t stepNs, int64_t totalNs, double seconds) {
  const artifact::Reader &reader = simulation.reader();
  std::printf("%s on %s: %d ranks, %.3f ms per step\n", reader.path().c_str(),
              simulation.cluster().name.c_str(), reader.worldSize(), double(stepNs) / 1e6);
  std::map<int32_t, ClassSummary> classes;
  for (const SimulatedRank &rank : simulation.ranks())
    classes[reader.rank(rank.rank).rankClass].add(rank);
  std::printf("%6s %8s %10s %10s %18s %12s\n", "class", "ranks", "compute %", "waiting %",
              "compute % of ranks", "device MiB");
  auto share = [&](int64_t ns) { return totalNs > 0 ? 100 * double(ns) / double(totalNs) : 0; };
  for (const auto &[rankClass, summary] : classes) {
    double mean = share(summary.computeNs) / double(summary.ranks);
    std::printf("%6d %8lld %10.1f %10.1f %8.1f to %6.1f %12.2f\n", rankClass,
                static_cast<long long>(summary.ranks), mean, 100 - mean, share(summary.least),
                share(summary.most), double(summary.memoryBytes) / (1 << 20));
  }
  std::printf("%lld instructions simulated in %.2f s\n",
              static_cast<long long>(simulation.instructions()), seconds);
}

void printJson(const Simulation &simulation, const std::vector<int64_t> &stepNs, int64_t totalNs,
               double seconds) {
  ordered_json ranks = ordered_json::array(), steps = ordered_json::array();
  for (const SimulatedRank &rank : simulation.ranks()) {
    double compute = totalNs > 0 ? double(rank.computeNs) / double(totalNs) : 0;
    ranks.push_back({{"rank", rank.rank},
                     {"class", simulation.reader().rank(rank.rank).rankClass},
                     {"compute_share", compute},
                     {"waiting_share", 1 - compute},
                     {"device_bytes", rank.memoryBytes}});
  }
  for (int64_t ns : stepNs)
    steps.push_back(double(ns) / 1e6);
  std::puts(ordered_json{{"artifact", escapedToUtf8(simulation.reader().path())},
                         {"cluster", simulation.cluster().name},
                         {"step_ms", steps},
                         {"instructions", simulation.instructions()},
                         {"simulated_in_s", seconds},
                         {"ranks", ranks}}
                .dump()
                .c_str());
}

/// A plan that its devices cannot hold.
void remarkOnMemory(const Simulation &simulation) {
  for (const SimulatedRank &rank : simulation.ranks()) {
    const DeviceType &type = simulation.cluster().typeOfDevice(rank.rank);
    if (rank.memoryBytes <= type.usableBytes())
      continue;
    std::fprintf(stderr,
                 "autopar-run: remark: rank %d needs %lld bytes, device type '%s' has %lld to use; "
                 "the times are those of a device that has enough\n",
                 rank.rank, static_cast<long long>(rank.memoryBytes), type.name.c_str(),
                 static_cast<long long>(type.usableBytes()));
    return;
  }
}

} // namespace

Status simulate(artifact::Reader reader, const RunOptions &options) {
  if (options.steps < 1)
    return {StatusCode::Usage, "--simulate needs at least one step"};
  auto cluster = Cluster::load(options.cluster);
  if (!cluster)
    return cluster.status();
  if (!options.profileDatabase.empty()) {
    using enum ProfileFallback;
    ProfileFallback fallback = options.profileFallback == "none" ? None : Analytical;
    auto database = ProfileDatabase::load(options.profileDatabase, fallback);
    if (!database)
      return database.status();
    AUTOPAR_RETURN_IF_ERROR(
        believeProfile(*cluster, *database, fallback).at(options.profileDatabase));
  }
  auto begin = std::chrono::steady_clock::now();
  auto opened = Simulation::open(std::move(reader), cluster.take(),
                                 options.profile || !options.trace.empty());
  if (!opened)
    return opened.status();
  Simulation &simulation = **opened;
  std::vector<int64_t> stepNs;
  int64_t totalNs = 0;
  for (int64_t step = 0; step < options.steps; ++step) {
    auto ns = simulation.runStep(step);
    if (!ns)
      return ns.status();
    stepNs.push_back(*ns);
    totalNs += *ns;
  }
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (!options.quiet)
    remarkOnMemory(simulation);
  if (options.profile)
    reportProfile(simulation.reader(), simulation.events(), options.json);
  if (!options.trace.empty())
    AUTOPAR_RETURN_IF_ERROR(writeTrace(simulation.reader(), simulation.events(), options.trace));
  if (options.json)
    printJson(simulation, stepNs, totalNs, seconds);
  else
    printText(simulation, totalNs / options.steps, totalNs, seconds);
  return Status::ok();
}

} // namespace autopar::tools
