// SPDX-License-Identifier: Apache-2.0
// The Chrome/Perfetto trace of a run: one process per rank, one row per queue.
#include "Report.h"

#include "autopar/Base/OutputFile.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace autopar::tools {
namespace {

using nlohmann::ordered_json;

constexpr const char *kQueueNames[artifact::kQueueCount] = {
    "compute", "communication", "copy-in", "copy-out", "host", "receive", "send"};

void writeNames(std::ofstream &file, int32_t rank) {
  file << ordered_json{{"ph", "M"},
                       {"name", "process_name"},
                       {"pid", rank},
                       {"args", {{"name", "rank " + std::to_string(rank)}}}}
       << ",\n";
  for (size_t queue = 0; queue < artifact::kQueueCount; ++queue)
    file << ordered_json{{"ph", "M"},
                         {"name", "thread_name"},
                         {"pid", rank},
                         {"tid", queue},
                         {"args", {{"name", kQueueNames[queue]}}}}
         << ",\n";
}

} // namespace

Status writeTrace(const artifact::Reader &reader, const std::vector<runtime::RankEvents> &ranks,
                  const std::string &path) {
  std::string temporary = placeBeside(path, ".tmp." + std::to_string(getpid()));
  std::ofstream file(temporary);
  if (!file)
    return {StatusCode::CannotCreate, "cannot create " + temporary + ": " + std::strerror(errno)};
  std::shared_ptr<void> cleanUp(nullptr, [&](void *) {
    if (temporary != path)
      unlink(temporary.c_str());
  });
  int64_t origin = std::numeric_limits<int64_t>::max();
  for (const runtime::RankEvents &rank : ranks)
    for (const runtime::ExecutionEvent &event : *rank.events)
      origin = std::min(origin, event.beginNs);
  file << "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n";
  for (const runtime::RankEvents &rank : ranks) {
    writeNames(file, rank.rank);
    const artifact::Program &program = reader.programOfRank(rank.rank);
    for (const runtime::ExecutionEvent &event : *rank.events) {
      const artifact::Entry &entry = program.entries[size_t(event.entry)];
      const artifact::Instruction &instruction = entry.instructions[size_t(event.instruction)];
      file << ordered_json{{"ph", "X"},
                           {"name", instruction.id},
                           {"cat", entry.name},
                           {"pid", rank.rank},
                           {"tid", int(instruction.queue)},
                           {"ts", double(event.beginNs - origin) / 1e3},
                           {"dur", double(event.endNs - event.beginNs) / 1e3},
                           {"args",
                            {{"step", event.step},
                             {"key", instruction.profileKey},
                             {"flops", instruction.flops},
                             {"bytes", instruction.bytes}}}}
           << ",\n";
    }
  }
  file << ordered_json{{"ph", "M"}, {"name", "trace_end"}, {"pid", 0}} << "\n]}\n";
  if (!file.flush())
    return Status::ioError("cannot write " + temporary + ": " + std::strerror(errno));
  if (temporary != path && std::rename(temporary.c_str(), path.c_str()) != 0)
    return {StatusCode::CannotCreate, "cannot create " + path + ": " + std::strerror(errno)};
  return Status::ok();
}

} // namespace autopar::tools
