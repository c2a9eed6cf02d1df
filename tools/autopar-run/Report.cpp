// SPDX-License-Identifier: Apache-2.0
// Verification, dry run, benchmark line and profile table.
#include "Report.h"

#include "autopar/Base/Utf8.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

namespace autopar::tools {
namespace {

using artifact::Program;
using artifact::Reader;
using nlohmann::ordered_json;

ordered_json tensorJson(const artifact::Port &port) {
  ordered_json tensor = {
      {"name", port.name}, {"dtype", std::string(name(port.dtype))}, {"shape", port.callerShape()}};
  for (const artifact::VaryingDim &varying : port.varying)
    tensor["varying"].push_back({{"dim", varying.dim},
                                 {"extent", varying.extent},
                                 {"least", varying.least},
                                 {"step", varying.step}});
  return tensor;
}

std::string tensorText(const artifact::Port &port) {
  return runtime::describe({runtime::TensorSpec{port.name, port.dtype, port.callerShape(), 0,
                                                port.limits, port.varying}});
}

/// Whether whoever runs the program gives it.
bool isGiven(const artifact::Port &port) {
  return port.role == artifact::Role::Input && port.missing.empty();
}

double mib(int64_t bytes) { return double(bytes) / (1 << 20); }

int64_t instructionCount(const Program &program) {
  size_t count = 0;
  for (const artifact::Entry &entry : program.entries)
    count += entry.instructions.size();
  return int64_t(count);
}

} // namespace

Status reportVerification(const Reader &reader, const RunOptions &options) {
  runtime::ParameterStore store(reader, runtime::Initializer{});
  for (int32_t c = 0; c < reader.classCount(); ++c)
    AUTOPAR_RETURN_IF_ERROR(store.check(reader.program(c), true));
  if (options.json) {
    ordered_json sections = ordered_json::array();
    for (const artifact::SectionInfo &section : reader.sections())
      sections.push_back({{"name", section.name},
                          {"class", section.rankClass},
                          {"offset", section.offset},
                          {"bytes", section.size},
                          {"digest", section.digest.hex()}});
    std::puts(ordered_json{{"ok", true}, {"digest", reader.digest().hex()}, {"sections", sections}}
                  .dump()
                  .c_str());
    return Status::ok();
  }
  for (const artifact::SectionInfo &section : reader.sections())
    std::printf("%-10s %6s %12llu bytes  %s\n", section.name.c_str(),
                section.rankClass < 0 ? "all" : std::to_string(section.rankClass).c_str(),
                static_cast<unsigned long long>(section.size), section.digest.hex().c_str());
  std::printf("ok: %s, %d ranks, digest %s\n", reader.path().c_str(), reader.worldSize(),
              reader.digest().hex().c_str());
  return Status::ok();
}

Status reportDryRun(const Reader &reader, const RunOptions &options) {
  runtime::ParameterStore store(reader, runtime::Initializer{});
  for (int32_t c = 0; c < reader.classCount(); ++c)
    AUTOPAR_RETURN_IF_ERROR(store.check(reader.program(c), false));
  ordered_json ranks = ordered_json::array(), inputs = ordered_json::array(),
               outputs = ordered_json::array();
  for (int32_t rank = 0; rank < reader.worldSize(); ++rank) {
    const Program &program = reader.programOfRank(rank);
    ranks.push_back({{"rank", rank},
                     {"class", reader.rank(rank).rankClass},
                     {"device_bytes", program.arenaBytes[0]},
                     {"pinned_host_bytes", program.arenaBytes[1]},
                     {"disk_bytes", program.arenaBytes[2]},
                     {"instructions", instructionCount(program)}});
  }
  for (const artifact::Port *each : reader.ports()) {
    const artifact::Port &port = *each;
    if (isGiven(port))
      inputs.push_back(tensorJson(port));
    if (port.role == artifact::Role::Output || port.role == artifact::Role::Metric)
      outputs.push_back(tensorJson(port));
  }
  if (options.json) {
    std::puts(ordered_json{{"target", {reader.target().architecture, reader.target().features}},
                           {"ranks", ranks},
                           {"inputs", inputs},
                           {"outputs", outputs}}
                  .dump()
                  .c_str());
    return Status::ok();
  }
  std::printf("%s: %d ranks for %s\n", reader.path().c_str(), reader.worldSize(),
              reader.target().features.c_str());
  std::printf("%6s %6s %14s %14s %14s %13s\n", "rank", "class", "device MiB", "pinned MiB",
              "disk MiB", "instructions");
  for (int32_t rank = 0; rank < reader.worldSize(); ++rank) {
    const Program &program = reader.programOfRank(rank);
    std::printf("%6d %6d %14.2f %14.2f %14.2f %13lld\n", rank, reader.rank(rank).rankClass,
                mib(program.arenaBytes[0]), mib(program.arenaBytes[1]), mib(program.arenaBytes[2]),
                static_cast<long long>(instructionCount(program)));
  }
  for (const artifact::Port *port : reader.ports())
    if (isGiven(*port))
      std::printf("input  %s\n", tensorText(*port).c_str());
    else if (port->role == artifact::Role::Output || port->role == artifact::Role::Metric)
      std::printf("output %s\n", tensorText(*port).c_str());
  return Status::ok();
}

int64_t peakMemoryBytes() {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);)
    if (line.rfind("VmHWM:", 0) == 0)
      return std::atoll(line.c_str() + 6) * 1024;
  return 0;
}

void reportBenchmark(const runtime::Session &session, const std::vector<double> &stepMs,
                     int64_t peakBefore) {
  int64_t planned = 0;
  for (const runtime::RankMemory &memory : session.memory())
    planned += memory.arenaBytes[0] + memory.arenaBytes[1] + memory.unplannedBytes;
  std::vector<double> sorted = stepMs;
  std::sort(sorted.begin(), sorted.end());
  ordered_json line = {{"artifact", escapedToUtf8(session.reader().path())},
                       {"ranks", session.reader().worldSize()},
                       {"threads_per_rank", session.threads()},
                       {"planned_bytes", planned},
                       {"peak_bytes", peakMemoryBytes() - peakBefore},
                       {"steps", stepMs.size()}};
  if (!sorted.empty()) { // a run may go on from a checkpoint that has all steps
    line["median_ms"] = sorted[sorted.size() / 2];
    line["min_ms"] = sorted.front();
  }
  line["step_ms"] = stepMs;
  if (session.captures() || !session.whyUncaptured().empty())
    line["captured"] = session.captures();
  if (!session.whyUncaptured().empty())
    line["why_uncaptured"] = session.whyUncaptured();
  if (!session.communication().empty())
    line["communication"] = session.communication();
  std::puts(line.dump().c_str());
}

namespace {

/// An instruction, and how long it ran in all measured steps.
struct Sum {
  int64_t calls = 0;
  double ms = 0;
  const artifact::Instruction *instruction = nullptr;
  std::vector<double> each;
};

/// Of the calls. The first may have waited for a library that loads.
double medianOf(std::vector<double> each) {
  auto middle = each.begin() + ptrdiff_t(each.size() / 2);
  std::nth_element(each.begin(), middle, each.end());
  return *middle;
}

void printProfileJson(const std::vector<Sum> &rows, double total) {
  ordered_json ops = ordered_json::array();
  for (const Sum &sum : rows)
    ops.push_back({{"op", sum.instruction->id},
                   {"key", sum.instruction->profileKey},
                   {"calls", sum.calls},
                   {"ms_per_call", sum.ms / double(sum.calls)},
                   {"median_ms", medianOf(sum.each)},
                   {"flops", sum.instruction->flops},
                   {"bytes", sum.instruction->bytes}});
  std::puts(ordered_json{{"ops", ops}, {"total_ms", total}}.dump().c_str());
}

} // namespace

void reportProfile(const artifact::Reader &reader, const std::vector<runtime::RankEvents> &ranks,
                   bool asJson) {
  if (ranks.empty())
    return;
  const Program &program = reader.programOfRank(ranks.front().rank);
  std::map<std::pair<int32_t, int32_t>, Sum> sums;
  double total = 0;
  for (const runtime::ExecutionEvent &event : *ranks.front().events) {
    Sum &sum = sums[{event.entry, event.instruction}];
    sum.instruction = &program.entries[size_t(event.entry)].instructions[size_t(event.instruction)];
    ++sum.calls;
    sum.each.push_back(double(event.endNs - event.beginNs) / 1e6);
    sum.ms += sum.each.back();
    total += double(event.endNs - event.beginNs) / 1e6;
  }
  std::vector<Sum> rows;
  for (auto &[key, sum] : sums)
    rows.push_back(sum);
  std::sort(rows.begin(), rows.end(), [](const Sum &a, const Sum &b) { return a.ms > b.ms; });
  if (asJson)
    return printProfileJson(rows, total);
  std::printf("%-44s %-36s %6s %10s %6s %9s %8s\n", "op", "key", "calls", "ms/call", "share",
              "GFLOP/s", "GB/s");
  for (const Sum &sum : rows) {
    double seconds = sum.ms / 1e3 / double(sum.calls);
    double perSecond = seconds > 0 ? 1 / seconds / 1e9 : 0;
    std::printf("%-44.44s %-36.36s %6lld %10.4f %5.1f%% %9.1f %8.1f\n", sum.instruction->id.c_str(),
                sum.instruction->profileKey.c_str(), static_cast<long long>(sum.calls),
                sum.ms / double(sum.calls), total > 0 ? 100 * sum.ms / total : 0,
                double(sum.instruction->flops) * perSecond,
                double(sum.instruction->bytes) * perSecond);
  }
  std::printf("total %.3f ms on rank %d\n", total, ranks.front().rank);
}

} // namespace autopar::tools
