// SPDX-License-Identifier: Apache-2.0
#include "LiveBytes.h"

#include "llvm/ADT/SmallSet.h"

using namespace mlir;
using namespace mlir::autopar;

LiveBytes::LiveBytes(exec::ProgramOp program) {
  llvm::DenseSet<Operation *> lasting;
  for (auto port : program.getOps<exec::PortOp>())
    if (port.getBuffer())
      lasting.insert(exec::rootOf(port.getBuffer()).first);
  int64_t time = 0;
  auto touch = [&](ArrayRef<Value> buffers) {
    for (Value value : buffers) {
      exec::BufferOp buffer = exec::rootOf(value).first;
      if (lasting.contains(buffer) || buffer.getBinding() != exec::Binding::None ||
          buffer.getSpace() != exec::Space::Device)
        continue;
      int64_t bytes = (buffer.getSlots() - 1) * buffer.getSlotStride() + buffer.getBytes();
      lives.try_emplace(buffer, Life{time, time, bytes}).first->second.last = time;
    }
  };
  for (auto entry : program.getOps<exec::EntryOp>()) {
    begins[entry] = time;
    for (Operation &op : entry.getBody().front()) {
      auto instruction = cast<exec::InstructionOpInterface>(op);
      touch(instruction.getReads());
      touch(instruction.getWrites());
      ++time;
    }
  }
  // By how much it changes from one instruction to the next.
  live.resize(time + 1);
  for (auto &[buffer, life] : lives) {
    live[life.first] += life.bytes;
    live[life.last + 1] -= life.bytes;
  }
  int64_t now = 0;
  for (int64_t &bytes : live) {
    bytes = now += bytes;
    peak = std::max(peak, now);
  }
}

/// Returns whether the peak is not exceeded there.
bool LiveBytes::add(int64_t begin, int64_t end, int64_t bytes) {
  bool fits = true;
  for (int64_t time = begin; time < end; ++time) {
    live[time] += bytes;
    fits &= live[time] <= peak;
  }
  return fits;
}

bool LiveBytes::extend(ValueRange buffers, int64_t time) {
  llvm::SmallSetVector<Operation *, 8> roots;
  for (Value value : buffers)
    roots.insert(exec::rootOf(value).first);
  SmallVector<std::pair<Life *, Life>> before;
  bool fits = true;
  for (Operation *root : roots) {
    auto found = lives.find(root);
    if (found == lives.end())
      continue;
    Life &life = found->second;
    before.push_back({&life, life});
    fits &= add(time, life.first, life.bytes);
    fits &= add(life.last + 1, time + 1, life.bytes);
    life.first = std::min(life.first, time);
    life.last = std::max(life.last, time);
  }
  if (fits)
    return true;
  for (auto &[life, old] : before) {
    add(life->first, old.first, -life->bytes);
    add(old.last + 1, life->last + 1, -life->bytes);
    *life = old;
  }
  return false;
}
