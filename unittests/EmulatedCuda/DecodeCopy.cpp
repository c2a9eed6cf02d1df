// SPDX-License-Identifier: Apache-2.0
// Copies from global to shared memory that a thread does not wait for. The bytes come when the
// group that a copy is part of is waited for, and not before: until then shared memory has what
// nobody wrote.
#include "Decoder.h"

namespace emulated {

namespace {

constexpr uint32_t kCopyBytes = 16;
constexpr int kLaunchFailed = 719;

void requireWhole(Warp &warp, const Operation &op) {
  if (warp.active != warp.alive)
    warp.fault(kLaunchFailed, "the emulated GPU knows groups of copies of whole warps only", 0, op);
}

/// b: source; d: offset of it; c: bytes that are read, the rest are zeros.
void issueCopy(Warp &warp, const Operation &op) {
  uint8_t unwritten[kCopyBytes];
  std::memset(unwritten, 0xff, sizeof unwritten);
  eachLane(warp, [&](uint32_t l) {
    Warp::Copy copy;
    copy.operation = &op;
    copy.lane = l;
    copy.to = (op.e ? warp.lanes<uint32_t>(op.a)[l] : warp.lanes<uint64_t>(op.a)[l]) +
              uint64_t(op.offset);
    copy.from = warp.lanes<uint64_t>(op.b)[l] + warp.lanes<uint64_t>(op.d)[l];
    copy.bytes = warp.lanes<uint32_t>(op.c)[l];
    if (copy.bytes > kCopyBytes || copy.from % kCopyBytes)
      warp.fault(kLaunchFailed, "a copy has up to 16 bytes, from a multiple of 16", l, op);
    std::memcpy(
        warp.reach(Warp::Space::Shared, copy.to, kCopyBytes, l, op, Access::Store, unwritten),
        unwritten, kCopyBytes);
    warp.copies.push_back(copy);
  });
}

void commitGroup(Warp &warp, const Operation &op) {
  requireWhole(warp, op);
  warp.copyGroups.push_back(std::move(warp.copies));
  warp.copies.clear();
}

void finish(Warp &warp, const Warp::Copy &copy) {
  uint8_t bytes[kCopyBytes] = {};
  const Operation &op = *copy.operation;
  // Elements are of two bytes at least.
  for (uint32_t i = 0; i < copy.bytes; i += 2)
    std::memcpy(
        bytes + i,
        warp.reach(Warp::Space::Global, copy.from + i, 2, copy.lane, op, Access::Load, nullptr), 2);
  std::memcpy(
      warp.reach(Warp::Space::Shared, copy.to, kCopyBytes, copy.lane, op, Access::Store, bytes),
      bytes, kCopyBytes);
}

/// offset: how many groups may be left.
void waitGroups(Warp &warp, const Operation &op) {
  requireWhole(warp, op);
  while (warp.copyGroups.size() > uint64_t(op.offset)) {
    for (const Warp::Copy &copy : warp.copyGroups.front())
      finish(warp, copy);
    warp.copyGroups.erase(warp.copyGroups.begin());
  }
}

} // namespace

void Decoder::addAsyncCopy() {
  if (lastPart() == "commit_group")
    return emit(&commitGroup);
  if (lastPart() == "wait_all")
    return emit(&waitGroups);
  if (lastPart() == "wait_group") {
    op.offset = int64_t(operand(0).bits);
    return emit(&waitGroups);
  }
  if (!has("async") || !has("cg") || !(has("shared") || has("shared::cta")) || !has("global") ||
      operand(2).bits != kCopyBytes)
    unknown();
  const Operand &to = operand(0), &from = operand(1);
  op.offset = to.offset;
  op.a = addressPlace(to, op.e);
  uint32_t isNarrow = 0;
  op.b = addressPlace(from, isNarrow);
  if (isNarrow)
    fail("an address of global memory has 64 bits");
  op.d = constant(uint64_t(from.offset), 8);
  op.c = statement->operands.size() > 3 ? place(3, 4) : constant(kCopyBytes, 4);
  kernel.globalGranule = std::min(kernel.globalGranule, 2u);
  emit(&issueCopy);
}

} // namespace emulated
