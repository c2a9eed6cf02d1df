// SPDX-License-Identifier: Apache-2.0
#include "autopar/Artifact/Workspace.h"

#include "autopar/Artifact/InstructionBuffers.h"

#include <algorithm>

namespace autopar::artifact {

std::vector<bool> lastingBuffers(const Program &program) {
  std::vector<bool> lasts(program.buffers.size()), loaded(lasts.size());
  auto mark = [&](std::vector<bool> &list, int32_t buffer) {
    if (buffer >= 0)
      list[size_t(program.rootOf(buffer))] = true;
  };
  for (const Port &port : program.ports)
    if (port.role == Role::Parameter || port.role == Role::State)
      mark(lasts, port.buffer);
  mark(lasts, program.controlBuffer);
  mark(lasts, program.rankValuesBuffer);
  for (const Entry &entry : program.entries)
    for (const Instruction &instruction : entry.instructions)
      if (entry.name == "load")
        for (int32_t buffer : buffersOf(instruction.payload).written)
          mark(loaded, buffer);
  for (const Entry &entry : program.entries)
    for (const Instruction &instruction : entry.instructions) {
      if (entry.name == "load")
        break;
      InstructionBuffers touched = buffersOf(instruction.payload);
      for (const std::vector<int32_t> *list : {&touched.read, &touched.written})
        for (int32_t buffer : *list)
          if (loaded[size_t(program.rootOf(buffer))])
            mark(lasts, buffer);
    }
  return lasts;
}

ByteRange workspaceOf(const Program &program) {
  std::vector<bool> lasts = lastingBuffers(program);
  std::vector<ByteRange> taken;
  for (size_t i = 0; i < lasts.size(); ++i) {
    const Buffer &buffer = program.buffers[i];
    if (lasts[i] && buffer.space == Space::Device)
      taken.push_back({buffer.offset, (buffer.slots - 1) * buffer.slotStride + buffer.bytes});
  }
  std::sort(taken.begin(), taken.end(),
            [](const ByteRange &a, const ByteRange &b) { return a.offset < b.offset; });
  taken.push_back({program.arenaBytes[size_t(Space::Device)], 0});
  ByteRange largest;
  int64_t end = 0;
  for (const ByteRange &range : taken) {
    if (range.offset - end > largest.bytes)
      largest = {end, range.offset - end};
    end = std::max(end, range.offset + range.bytes);
  }
  return largest;
}

} // namespace autopar::artifact
