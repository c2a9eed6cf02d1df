// SPDX-License-Identifier: Apache-2.0
// Makes an artifact in memory, runs its steps and reads when each instruction began and ended.
#include "Probe.h"

#include "ProbeKernels.h"
#include "autopar/Artifact/Writer.h"
#include "autopar/Runtime/Session.h"

#include <algorithm>

namespace autopar::tools {
namespace {

using namespace artifact;

/// All ranks are alike; each sends to the next of its group.
RankTable tableOf(const Program &program, int32_t rank, int32_t together) {
  RankTable table;
  table.groups.resize(1);
  int32_t first = rank / together * together, place = rank - first;
  for (int32_t member = 0; member < together; ++member)
    table.groups[0].members.push_back(first + member);
  table.permutations = {
      {first + (place + 1) % together, first + (place + together - 1) % together}};
  for (const Port &port : program.ports)
    table.ports.push_back({std::vector<int64_t>(port.shape.size(), 0), port.shape, rank});
  return table;
}

/// Seconds from the first beginning to the last end, on the rank where that is longest.
double longestSpan(const std::vector<runtime::RankEvents> &ranks) {
  int64_t longest = 0;
  for (const runtime::RankEvents &rank : ranks)
    longest = std::max(longest, rank.events->back().endNs - rank.events->front().beginNs);
  return double(longest) * 1e-9;
}

} // namespace

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  size_t middle = values.size() / 2;
  return values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

int32_t Probe::addBuffer(std::vector<int64_t> shape, DataType type) {
  Buffer buffer;
  buffer.name = "b" + std::to_string(program.buffers.size());
  buffer.dtype = type;
  buffer.bytes = byteSize(type);
  for (int64_t dim : shape)
    buffer.bytes *= dim;
  buffer.shape = std::move(shape);
  buffer.offset = program.arenaBytes[0];
  program.arenaBytes[0] += (buffer.bytes + 63) / 64 * 64;
  program.buffers.push_back(std::move(buffer));
  return int32_t(program.buffers.size() - 1);
}

int32_t Probe::addWritten(std::vector<int64_t> shape, DataType type) {
  return addBuffer(std::move(shape), type);
}

int32_t Probe::addFilled(std::vector<int64_t> shape, DataType type) {
  int32_t buffer = addBuffer(shape, type);
  Port port{
      Role::Parameter, program.buffers[size_t(buffer)].name, type, std::move(shape), buffer, {}};
  port.source.kind = SourceKind::Absent;
  program.ports.push_back(std::move(port));
  return buffer;
}

void Probe::add(Payload payload) {
  bool communicates =
      std::holds_alternative<Collective>(payload) || std::holds_alternative<Permute>(payload);
  Instruction instruction;
  instruction.queue = communicates ? Queue::Communication : Queue::Compute;
  instruction.id = program.name + "/" + std::to_string(step.instructions.size());
  instruction.profileKey = program.name;
  instruction.payload = std::move(payload);
  step.instructions.push_back(std::move(instruction));
}

int32_t Probe::addView(int32_t of, int64_t offset, int64_t bytes, DataType type) {
  Buffer buffer = program.buffers[size_t(of)];
  buffer.name = "b" + std::to_string(program.buffers.size());
  buffer.dtype = type;
  buffer.shape = {bytes / byteSize(type)};
  buffer.bytes = bytes;
  buffer.offset += offset;
  program.buffers.push_back(std::move(buffer));
  return int32_t(program.buffers.size() - 1);
}

Status Probe::run(int32_t ranks, int32_t threads, const Effort &effort,
                  const std::function<void(const std::vector<runtime::RankEvents> &)> &seen) const {
  Contents contents;
  contents.target.features = "x86-64";
  contents.classes = {{program, {}}};
  bool launches = std::any_of(step.instructions.begin(), step.instructions.end(), [](auto &one) {
    return std::holds_alternative<Launch>(one.payload);
  });
  if (launches) {
    contents.classes[0].program.kernels = {"add_rows", "sum_rows", "normalize_rows", "stream_rows"};
    contents.classes[0].kernels.assign(probeKernels().begin(), probeKernels().end());
  }
  contents.classes[0].program.entries = {step};
  contents.classes[0].program.timetable = {{0, 0}};
  for (int32_t rank = 0; rank < ranks; ++rank)
    contents.ranks.push_back(tableOf(program, rank, together > 0 ? together : ranks));
  auto bytes = serialize(contents);
  if (!bytes)
    return bytes.status();
  auto reader = Reader::fromBytes(*bytes, program.name);
  if (!reader)
    return reader.status();
  runtime::SessionOptions options;
  options.threads = threads;
  options.record = true;
  if (!program.ports.empty()) {
    auto ones = runtime::Initializer::parse("*=ones");
    if (!ones)
      return ones.status();
    options.initializer = *ones;
  }
  auto session = runtime::Session::open(reader.take(), std::move(options));
  if (!session)
    return session.status();
  double spent = 0;
  // Step 0 touches memory for the first time; it does not count.
  for (int64_t number = 0; number <= effort.leastSteps || spent < effort.seconds; ++number) {
    (*session)->clearEvents();
    AUTOPAR_RETURN_IF_ERROR((*session)->run(number, 1));
    if (number == 0)
      continue;
    seen((*session)->events());
    spent += longestSpan((*session)->events());
  }
  return Status::ok();
}

Result<double> Probe::secondsPerInstruction(int32_t ranks, int32_t threads,
                                            const Effort &effort) const {
  std::vector<double> spans;
  AUTOPAR_RETURN_IF_ERROR(run(ranks, threads, effort,
                              [&](const auto &events) { spans.push_back(longestSpan(events)); }));
  return median(spans) / double(instructions());
}

Result<std::vector<double>> Probe::secondsOfEach(int32_t ranks, int32_t threads,
                                                 const Effort &effort) const {
  std::vector<std::vector<double>> samples(size_t(instructions() * ranks));
  AUTOPAR_RETURN_IF_ERROR(run(ranks, threads, effort, [&](const auto &all) {
    for (const runtime::RankEvents &rank : all)
      for (const runtime::ExecutionEvent &event : *rank.events)
        samples[size_t(event.instruction * ranks + rank.rank)].push_back(
            double(event.endNs - event.beginNs) * 1e-9);
  }));
  std::vector<double> longest(size_t(instructions()), 0.0);
  for (size_t i = 0; i < samples.size(); ++i)
    longest[i / size_t(ranks)] = std::max(longest[i / size_t(ranks)], median(samples[i]));
  return longest;
}

} // namespace autopar::tools
