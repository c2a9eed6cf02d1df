// SPDX-License-Identifier: Apache-2.0
// Shadow memory: who touched which bytes last.
#include "Hazards.h"

#include <algorithm>
#include <cstring>

namespace emulated {
namespace {

// A stamp: when (32 bits), where in the text (21), whether it was an atomic (1), by whom (10).
constexpr uint32_t kThreadBits = 10, kLineBits = 21;

uint64_t stampOf(uint32_t now, const Touch &touch) {
  uint64_t line = touch.line >> kLineBits ? 0 : touch.line;
  uint64_t isAtomic = touch.access == Access::Atomic;
  return uint64_t{now} << 32 | line << (kThreadBits + 1) | isAtomic << kThreadBits | touch.thread;
}
uint32_t timeOf(uint64_t stamp) { return uint32_t(stamp >> 32); }
uint32_t threadOf(uint64_t stamp) { return uint32_t(stamp) & ((1u << kThreadBits) - 1); }
uint32_t lineOf(uint64_t stamp) {
  return uint32_t(stamp >> (kThreadBits + 1)) & ((1u << kLineBits) - 1);
}
bool isAtomic(uint64_t stamp) { return stamp >> kThreadBits & 1; }

} // namespace

Hazards::Hazards(const Kernel &kernel, uint32_t sharedBytes, bool checksGlobal)
    : checksGlobal(checksGlobal), sharedShift(uint32_t(__builtin_ctz(kernel.sharedGranule))),
      globalShift(uint32_t(__builtin_ctz(kernel.globalGranule))),
      shared((sharedBytes + kernel.sharedGranule - 1) >> sharedShift) {}

void Hazards::beginBlock() {
  blockBegin = barrier = ++now;
  blockBegins.push_back(now);
}

/// Whether an access is over before what `thread` does now.
template <Hazards::Memory memory>
bool Hazards::isOrdered(uint64_t stamp, uint32_t thread) const {
  uint32_t time = timeOf(stamp), other = threadOf(stamp);
  // Other blocks have shared memory of their own; a stamp of 0 is no access.
  if (time < barrier)
    return memory == Memory::Shared || time >= blockBegin || stamp == 0;
  if (other == thread)
    return true;
  return other / kLanes == thread / kLanes && time < warps[thread / kLanes];
}

/// How far an access is from a thread: it itself, a lane of its warp, another warp, another block.
int Hazards::distance(uint64_t stamp, uint32_t thread) const {
  if (timeOf(stamp) < blockBegin)
    return 3;
  uint32_t other = threadOf(stamp);
  return other == thread ? 0 : other / kLanes == thread / kLanes ? 1 : 2;
}

template <Hazards::Memory memory>
Hazard Hazards::load(Cell &cell, uint64_t stamp) const {
  uint32_t thread = threadOf(stamp);
  if (memory == Memory::Shared && timeOf(cell.writer) < blockBegin)
    return {Hazard::Kind::Unwritten, 0};
  if (!isOrdered<memory>(cell.writer, thread))
    return {Hazard::Kind::ReadAfterWrite, cell.writer};
  if (!isOrdered<memory>(cell.reader, thread) &&
      (isOrdered<memory>(cell.otherReader, thread) ||
       distance(cell.otherReader, thread) <= distance(cell.reader, thread)))
    cell.otherReader = cell.reader;
  cell.reader = stamp;
  return {};
}

template <Hazards::Memory memory>
Hazard Hazards::write(Cell &cell, uint64_t stamp, const uint8_t *old, const uint8_t *written,
                      uint32_t bytes) const {
  uint32_t thread = threadOf(stamp);
  auto isHarmless = [&] {
    return isAtomic(stamp) ? isAtomic(cell.writer) : std::memcmp(old, written, bytes) == 0;
  };
  if (!isOrdered<memory>(cell.writer, thread) && !isHarmless())
    return {Hazard::Kind::WriteAfterWrite, cell.writer};
  for (uint64_t reader : {cell.reader, cell.otherReader})
    if (!isOrdered<memory>(reader, thread))
      return {Hazard::Kind::WriteAfterRead, reader};
  if (memory == Memory::Global && cell.readOnlyReader)
    return {Hazard::Kind::WriteAfterRead, cell.readOnlyReader};
  cell = {stamp, 0, 0, 0};
  return {};
}

template <Hazards::Memory memory>
Hazard Hazards::touch(Cell *cells, uint32_t shift, uint32_t bytes, const Touch &touch) {
  uint64_t stamp = stampOf(now, touch);
  uint32_t granule = 1u << shift;
  for (uint32_t at = 0; at < bytes; at += granule, ++cells) {
    Hazard hazard;
    switch (touch.access) {
    case Access::Load:
      hazard = load<memory>(*cells, stamp);
      break;
    case Access::ReadOnlyLoad:
      if (cells->writer)
        hazard = {Hazard::Kind::ReadAfterWrite, cells->writer};
      cells->readOnlyReader = stamp;
      break;
    case Access::Store:
      hazard = write<memory>(*cells, stamp, touch.old + at, touch.written + at, granule);
      break;
    case Access::Atomic:
      if (memory == Memory::Shared && timeOf(cells->writer) < blockBegin)
        return {Hazard::Kind::Unwritten, 0};
      hazard = write<memory>(*cells, stamp, nullptr, nullptr, granule);
      break;
    }
    if (hazard)
      return hazard;
  }
  return {};
}

Hazard Hazards::touchShared(uint64_t address, uint32_t bytes, const Touch &one) {
  return touch<Memory::Shared>(&shared[address >> sharedShift], sharedShift, bytes, one);
}

Hazard Hazards::touchGlobal(uint64_t address, uint32_t bytes, const Touch &one) {
  return touch<Memory::Global>(globalCells(address), globalShift, bytes, one);
}

/// Aligned accesses do not leave a page.
Hazards::Cell *Hazards::globalCells(uint64_t address) {
  if (address / kPage != lastPage) {
    lastPage = address / kPage;
    std::unique_ptr<Cell[]> &page = pages[lastPage];
    if (!page)
      page = std::make_unique<Cell[]>(kPage >> globalShift);
    lastCells = page.get();
  }
  return lastCells + (address % kPage >> globalShift);
}

std::string Hazards::describe(const Hazard &hazard, uint64_t address, uint32_t bytes,
                              const char *memory) const {
  std::string text =
      std::to_string(bytes) + " bytes at " + std::to_string(address) + " of " + memory + " memory";
  if (hazard.kind == Hazard::Kind::Unwritten)
    return text + " that the block has not written are read";
  bool isRead = hazard.kind == Hazard::Kind::ReadAfterWrite,
       wasRead = hazard.kind == Hazard::Kind::WriteAfterRead;
  auto block = std::upper_bound(blockBegins.begin(), blockBegins.end(), timeOf(hazard.earlier));
  text += std::string(" are ") + (isRead ? "read" : "written") + " that thread " +
          std::to_string(threadOf(hazard.earlier)) + " of block number " +
          std::to_string(block - blockBegins.begin() - 1) + (wasRead ? " read" : " wrote") +
          " in line " + std::to_string(lineOf(hazard.earlier));
  return text + ", and nothing orders the two (" + (isRead ? "read" : "write") + " after " +
         (wasRead ? "read" : "write") + ")";
}

} // namespace emulated
