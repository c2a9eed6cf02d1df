// SPDX-License-Identifier: Apache-2.0
// The Chrome/Perfetto trace of a run: one process per rank, one row per queue.
#include "Report.h"

#include "autopar/Base/OutputFile.h"

#include <limits>
#include <nlohmann/json.hpp>

namespace autopar::tools {
namespace {

using nlohmann::ordered_json;

constexpr const char *kQueueNames[artifact::kQueueCount] = {
    "compute", "communication", "copy-in", "copy-out", "host", "receive", "send"};

/// A row of the trace, and what parts it from the next.
Status writeRow(OutputFile &file, const ordered_json &row, const char *behind = ",\n") {
  return file.write(row.dump() + behind);
}

Status writeNames(OutputFile &file, int32_t rank) {
  AUTOPAR_RETURN_IF_ERROR(writeRow(file, {{"ph", "M"},
                                          {"name", "process_name"},
                                          {"pid", rank},
                                          {"args", {{"name", "rank " + std::to_string(rank)}}}}));
  for (size_t queue = 0; queue < artifact::kQueueCount; ++queue)
    AUTOPAR_RETURN_IF_ERROR(writeRow(file, {{"ph", "M"},
                                            {"name", "thread_name"},
                                            {"pid", rank},
                                            {"tid", queue},
                                            {"args", {{"name", kQueueNames[queue]}}}}));
  return Status::ok();
}

ordered_json rowOf(const runtime::ExecutionEvent &event, const artifact::Program &program,
                   int32_t rank, int64_t origin) {
  const artifact::Entry &entry = program.entries[size_t(event.entry)];
  const artifact::Instruction &instruction = entry.instructions[size_t(event.instruction)];
  return {{"ph", "X"},
          {"name", instruction.idIn(event.slot)},
          {"cat", entry.name},
          {"pid", rank},
          {"tid", int(instruction.queue)},
          {"ts", double(event.beginNs - origin) / 1e3},
          {"dur", double(event.endNs - event.beginNs) / 1e3},
          {"args",
           {{"step", event.step},
            {"key", instruction.profileKey},
            {"flops", instruction.flops},
            {"bytes", instruction.bytes}}}};
}

} // namespace

Status writeTrace(const artifact::Reader &reader, const std::vector<runtime::RankEvents> &ranks,
                  const std::string &path) {
  auto file = OutputFile::create(path);
  if (!file)
    return file.status();
  int64_t origin = std::numeric_limits<int64_t>::max();
  for (const runtime::RankEvents &rank : ranks)
    for (const runtime::ExecutionEvent &event : *rank.events)
      origin = std::min(origin, event.beginNs);
  AUTOPAR_RETURN_IF_ERROR((*file)->write("{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n"));
  for (const runtime::RankEvents &rank : ranks) {
    AUTOPAR_RETURN_IF_ERROR(writeNames(**file, rank.rank));
    const artifact::Program &program = reader.programOfRank(rank.rank);
    for (const runtime::ExecutionEvent &event : *rank.events)
      AUTOPAR_RETURN_IF_ERROR(writeRow(**file, rowOf(event, program, rank.rank, origin)));
  }
  AUTOPAR_RETURN_IF_ERROR(
      writeRow(**file, {{"ph", "M"}, {"name", "trace_end"}, {"pid", 0}}, "\n]}\n"));
  return (*file)->finish();
}

} // namespace autopar::tools
