// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "autopar/Runtime/BufferPlaces.h"

#include "Communication.h"
#include "autopar/Artifact/CudaScratch.h"
#include "autopar/Artifact/InstructionBuffers.h"

#include <algorithm>

namespace autopar::runtime {

using namespace artifact;

namespace {

/// No buffer is aligned to more, so what moves keeps its place between multiples of it.
constexpr int64_t kStep = kCudaScratchAlignment;

int64_t roundedUp(int64_t bytes) { return (bytes + kStep - 1) / kStep * kStep; }

const Entry *loadOf(const Program &program) {
  for (const Entry &entry : program.entries)
    if (entry.name == "load")
      return &entry;
  return nullptr;
}

/// Buffers that are no views, by number: those that something uses.
std::vector<bool> usedBuffers(const Program &program, const std::vector<bool> &leftOut) {
  std::vector<bool> used(program.buffers.size());
  auto use = [&](int32_t buffer) {
    if (buffer >= 0)
      used[size_t(program.rootOf(buffer))] = true;
  };
  for (const Port &port : program.ports)
    use(port.buffer);
  use(program.controlBuffer);
  use(program.rankValuesBuffer);
  for (const Entry &entry : program.entries)
    for (size_t i = 0; i < entry.instructions.size(); ++i) {
      if (entry.name == "load" && leftOut[i])
        continue;
      InstructionBuffers touched = buffersOf(entry.instructions[i].payload);
      for (const std::vector<int32_t> *list : {&touched.read, &touched.written})
        for (int32_t buffer : *list)
          use(buffer);
    }
  return used;
}

} // namespace

BufferPlaces::BufferPlaces(const Program &program)
    : bytes(program.arenaBytes), own(workspaceOf(program)) {
  for (const Buffer &buffer : program.buffers)
    offsets.push_back(buffer.offset);
}

/// Gives buffers places behind what the arenas have. What overlaps moves together, and what is so
/// close that moving it would gain nothing.
void BufferPlaces::place(const Program &program, std::vector<int32_t> buffers) {
  auto at = [&](int32_t i) -> const Buffer & { return program.buffers[size_t(i)]; };
  std::sort(buffers.begin(), buffers.end(), [&](int32_t a, int32_t b) {
    return std::pair(at(a).space, at(a).offset) < std::pair(at(b).space, at(b).offset);
  });
  int64_t moved = 0, end = 0;
  for (size_t i = 0; i < buffers.size(); ++i) {
    const Buffer &buffer = at(buffers[i]);
    int64_t &top = bytes[size_t(buffer.space)];
    bool isNew = i == 0 || at(buffers[i - 1]).space != buffer.space || buffer.offset >= end + kStep;
    if (isNew)
      moved = roundedUp(top) + buffer.offset % kStep - buffer.offset;
    int64_t ownEnd = buffer.offset + (buffer.slots - 1) * buffer.slotStride + buffer.bytes;
    end = isNew ? ownEnd : std::max(end, ownEnd);
    offsets[size_t(buffers[i])] = buffer.offset + moved;
    top = std::max(top, ownEnd + moved);
  }
}

BufferPlaces::BufferPlaces(const Program &program, const HeldElsewhere &elsewhere,
                           const std::vector<bool> &leftOut, Workspace lent)
    : offsets(program.buffers.size(), -1), outside(program.buffers.size()),
      held(program.buffers.size()) {
  for (auto [buffer, address] : elsewhere)
    outside[size_t(buffer)] = static_cast<uint8_t *>(address);
  for (size_t i = 0; i < held.size(); ++i)
    held[i] = elsewhere.contains(program.rootOf(int32_t(i)));
  std::vector<bool> used = usedBuffers(program, leftOut), lasts = lastingBuffers(program);
  std::vector<int32_t> lasting, ofSteps;
  for (size_t i = 0; i < used.size(); ++i)
    if (used[i] && !outside[i]) {
      bool isOfStep = !lasts[i] && program.buffers[i].space == Space::Device;
      (isOfStep ? ofSteps : lasting).push_back(int32_t(i));
    }
  place(program, lasting);
  int64_t &top = bytes[size_t(Space::Device)], lastingEnd = top;
  top = roundedUp(top);
  own.offset = top;
  place(program, ofSteps);
  own.bytes = top - own.offset;
  if (lent.bytes >= own.bytes && !ofSteps.empty()) {
    for (int32_t buffer : ofSteps)
      outside[size_t(buffer)] = lent.address + (offsets[size_t(buffer)] - own.offset);
    top = lastingEnd;
    isBorrowing = true;
  }
  for (size_t i = 0; i < program.buffers.size(); ++i) {
    auto root = size_t(program.rootOf(int32_t(i)));
    int64_t within = program.buffers[i].offset - program.buffers[root].offset;
    if (root != i && outside[root])
      outside[i] = outside[root] + within;
    else if (root != i && offsets[root] >= 0)
      offsets[i] = offsets[root] + within;
  }
}

std::vector<bool> leftOutOfLoad(const Program &program, const HeldElsewhere &elsewhere) {
  const Entry *load = loadOf(program);
  if (!load)
    return {};
  std::vector<bool> leftOut(load->instructions.size(), true), needed(program.buffers.size(), true);
  // Whatever load writes is needed if the steps have it, unless another holds it.
  for (const Instruction &instruction : load->instructions)
    for (int32_t buffer : buffersOf(instruction.payload).written)
      needed[size_t(program.rootOf(buffer))] = false;
  auto need = [&](int32_t buffer) {
    int32_t root = program.rootOf(buffer);
    needed[size_t(root)] = !elsewhere.contains(root);
  };
  for (const Port &port : program.ports)
    if (port.buffer >= 0)
      need(port.buffer);
  for (const Entry &entry : program.entries)
    for (const Instruction &instruction : entry.instructions)
      if (&entry != load)
        for (int32_t buffer : buffersOf(instruction.payload).read)
          need(buffer);
  for (size_t i = load->instructions.size(); i-- > 0;) {
    const Payload &payload = load->instructions[i].payload;
    InstructionBuffers touched = buffersOf(payload);
    // Other ranks wait for messages.
    bool isNeeded = isCommunication(payload);
    for (int32_t buffer : touched.written)
      isNeeded |= needed[size_t(program.rootOf(buffer))];
    leftOut[i] = !isNeeded;
    if (isNeeded)
      for (int32_t buffer : touched.read)
        need(buffer);
  }
  return leftOut;
}

} // namespace autopar::runtime
