// SPDX-License-Identifier: Apache-2.0
// Runs kernels. The lanes of a warp that stand at the same place go on together, those furthest
// behind first, so that they meet again where paths join; the warps of a block take turns at
// barriers.
#include "DeviceMemory.h"
#include "Warp.h"

#include <atomic>
#include <cstdlib>
#include <memory>

namespace emulated {
namespace {

std::atomic<uint64_t> executed{0};

constexpr int kIllegalAddress = 700, kMisalignedAddress = 716, kLaunchFailed = 719,
              kIllegalInstruction = 715;

} // namespace

uint64_t executedInstructions() { return executed; }

void Warp::fault(int error, const std::string &text, uint32_t lane, const Operation &operation) {
  const Block &b = *block;
  std::string place = "kernel " + b.kernel->name + ", block " + std::to_string(b.id[0]) + "," +
                      std::to_string(b.id[1]) + "," + std::to_string(b.id[2]) + ", thread " +
                      std::to_string(index * kLanes + lane);
  std::string source = operation.line && operation.line <= b.module->lines.size()
                           ? b.module->lines[operation.line - 1]
                           : "";
  throw Fault{error,
              place + ", line " + std::to_string(operation.line) + ": " + text + ":" + source};
}

/// Whether an access stays within one variable.
static bool isInOne(const std::vector<std::pair<uint32_t, uint32_t>> &variables, uint64_t address,
                    uint32_t bytes) {
  for (auto [begin, end] : variables)
    if (address >= begin && address + bytes <= end)
      return true;
  return false;
}

uint8_t *Warp::reach(Space space, uint64_t address, uint32_t bytes, uint32_t lane,
                     const Operation &operation) {
  auto outside = [&](const char *what, uint64_t size) {
    fault(kIllegalAddress,
          std::to_string(bytes) + " bytes at " + std::to_string(address) + " of " + what +
              " memory, which has " + std::to_string(size) + " bytes",
          lane, operation);
  };
  if (address % bytes)
    fault(kMisalignedAddress,
          "address " + std::to_string(address) + " is not a multiple of " + std::to_string(bytes),
          lane, operation);
  if (space == Space::Generic && address - kSharedWindow < kWindowBytes) {
    space = Space::Shared;
    address -= kSharedWindow;
  } else if (space == Space::Generic && address - kLocalWindow < kWindowBytes) {
    space = Space::Local;
    address -= kLocalWindow;
  }
  switch (space) {
  case Space::Shared:
    if (address > block->shared.size() || bytes > block->shared.size() - address)
      outside("shared", block->shared.size());
    if (!isInOne(block->kernel->shared, address, bytes))
      fault(kIllegalAddress,
            std::to_string(bytes) + " bytes at " + std::to_string(address) +
                " of shared memory are not within one variable",
            lane, operation);
    return block->shared.data() + address;
  case Space::Local: {
    uint64_t own = block->kernel->localBytes;
    if (address > own || bytes > own - address)
      outside("local", own);
    return local.data() + lane * own + address;
  }
  case Space::Parameter:
    if (address > block->kernel->parameterBytes || bytes > block->kernel->parameterBytes - address)
      outside("parameter", block->kernel->parameterBytes);
    return const_cast<uint8_t *>(block->parameters) + address;
  default:
    break;
  }
  const Allocation *allocation = DeviceMemory::get().find(address, bytes);
  if (!allocation)
    fault(kIllegalAddress,
          std::to_string(bytes) + " bytes at " + std::to_string(address) + " are not allocated",
          lane, operation);
  block->begin = allocation->begin;
  block->end = allocation->begin + allocation->bytes;
  block->host = allocation->host;
  return block->host + (address - block->begin);
}

namespace {

/// Chooses the lanes that go on: those furthest behind that wait for no others.
void reschedule(Warp &warp) {
  auto add = [&](uint32_t next, uint32_t mask, bool waits) {
    for (Warp::Group &group : warp.others)
      if (group.next == next) {
        group.mask |= mask;
        group.waits = false;
        return;
      }
    warp.others.push_back({next, mask, waits});
  };
  if (warp.mask)
    add(warp.next, warp.mask, false);
  warp.mask = 0;
  size_t best = warp.others.size();
  for (size_t i = 0; i < warp.others.size(); ++i)
    if (!warp.others[i].waits &&
        (best == warp.others.size() || warp.others[i].next < warp.others[best].next))
      best = i;
  if (best == warp.others.size()) {
    // Those that others were waited for may have ended.
    for (Warp::Group &group : warp.others)
      group.waits = false;
    best = 0;
    for (size_t i = 0; i < warp.others.size(); ++i)
      if (warp.others[i].next < warp.others[best].next)
        best = i;
  }
  if (warp.others.empty()) {
    warp.isDone = true;
    return;
  }
  warp.next = warp.others[best].next;
  warp.mask = warp.others[best].mask;
  warp.others.erase(warp.others.begin() + int64_t(best));
  warp.limit = ~0u;
  for (const Warp::Group &group : warp.others)
    warp.limit = std::min(warp.limit, group.next);
}

/// Until the warp ends or stands at a barrier.
void runWarp(Warp &warp, const Kernel &kernel, uint64_t &count) {
  const Operation *operations = kernel.operations.data();
  uint32_t fruitless = 0;
  warp.isAtBarrier = false;
  while (!warp.isDone) {
    if (warp.next >= warp.limit)
      reschedule(warp);
    const Operation &op = operations[warp.next];
    uint32_t active = warp.mask;
    if (op.isGuarded) {
      uint32_t p = warp.predicate(op.guard);
      active &= op.isNegated ? ~p : p;
    }
    count += uint32_t(__builtin_popcount(warp.mask));
    switch (op.kind) {
    case Operation::Kind::Simple:
      if (active) {
        warp.active = active;
        op.execute(warp, op);
      }
      ++warp.next;
      break;
    case Operation::Kind::Branch: {
      uint32_t stay = warp.mask & ~active;
      if (active && stay) {
        warp.others.push_back({warp.next + 1, stay, false});
        warp.next = uint32_t(op.offset);
        warp.mask = active;
        reschedule(warp);
      } else {
        warp.next = active ? uint32_t(op.offset) : warp.next + 1;
      }
      break;
    }
    case Operation::Kind::Together:
    case Operation::Kind::Barrier: {
      uint32_t members = op.kind == Operation::Kind::Barrier
                             ? ~0u
                             : warp.lanes<uint32_t>(op.e)[__builtin_ctz(warp.mask)];
      uint32_t missing = members & warp.alive & ~active;
      if (missing && !warp.others.empty()) {
        if (++fruitless > 4 * kLanes)
          warp.fault(kLaunchFailed, "lanes wait for each other at different places",
                     uint32_t(__builtin_ctz(warp.mask)), op);
        warp.others.push_back({warp.next, warp.mask, true});
        warp.mask = 0;
        reschedule(warp);
        break;
      }
      if (missing)
        warp.fault(kLaunchFailed, "lanes that should take part do not",
                   uint32_t(__builtin_ctz(missing)), op);
      fruitless = 0;
      ++warp.next;
      if (op.kind == Operation::Kind::Barrier) {
        warp.isAtBarrier = true;
        return;
      }
      warp.active = active & members;
      op.execute(warp, op);
      break;
    }
    case Operation::Kind::Exit:
      warp.alive &= ~active;
      warp.mask &= ~active;
      if (warp.mask)
        ++warp.next;
      else
        reschedule(warp);
      break;
    case Operation::Kind::Trap:
      if (active)
        warp.fault(kIllegalInstruction, "a trap", uint32_t(__builtin_ctz(active)), op);
      ++warp.next;
      break;
    }
  }
}

void fillSpecials(Warp &warp, const LaunchShape &shape, const Block &block, uint32_t threads) {
  for (uint32_t l = 0; l < kLanes; ++l) {
    uint32_t thread = warp.index * kLanes + l;
    uint32_t values[kSpecialCount] = {};
    values[kTidX] = thread % shape.block[0];
    values[kTidY] = thread / shape.block[0] % shape.block[1];
    values[kTidZ] = thread / shape.block[0] / shape.block[1];
    for (int d = 0; d < 3; ++d) {
      values[kNTidX + d] = shape.block[d];
      values[kCtaX + d] = block.id[d];
      values[kNCtaX + d] = shape.grid[d];
    }
    values[kLane] = l;
    values[kWarp] = warp.index;
    values[kMaskEq] = 1u << l;
    values[kMaskLt] = (1u << l) - 1;
    values[kMaskLe] = values[kMaskLt] | values[kMaskEq];
    values[kMaskGt] = ~values[kMaskLe];
    values[kMaskGe] = ~values[kMaskLt];
    values[kDynamicShared] = shape.dynamicShared;
    for (uint32_t s = 0; s < kSpecialCount; ++s)
      warp.lanes<uint32_t>(s * kWordPlace)[l] = values[s];
  }
  uint32_t rest = threads - warp.index * kLanes;
  warp.mask = warp.alive = rest >= kLanes ? ~0u : (1u << rest) - 1;
}

void fillConstants(Warp &warp, const Kernel &kernel) {
  for (const Constant &c : kernel.constants)
    for (uint32_t l = 0; l < kLanes; ++l)
      switch (c.bytes) {
      case 0:
        warp.predicate(c.place) = uint32_t(c.value);
        break;
      case 2:
        warp.lanes<uint16_t>(c.place)[l] = uint16_t(c.value);
        break;
      case 4:
        warp.lanes<uint32_t>(c.place)[l] = uint32_t(c.value);
        break;
      default:
        warp.lanes<uint64_t>(c.place)[l] = c.value;
      }
}

} // namespace

void runKernel(const PtxModule &module, const Kernel &kernel, const LaunchShape &shape,
               const std::vector<uint8_t> &parameters) {
  uint32_t threads = shape.block[0] * shape.block[1] * shape.block[2],
           warpCount = (threads + kLanes - 1) / kLanes;
  struct Free {
    void operator()(uint8_t *memory) const { std::free(memory); }
  };
  std::unique_ptr<uint8_t, Free> registers(
      static_cast<uint8_t *>(std::aligned_alloc(64, size_t(kernel.registerBytes) * warpCount)));
  std::memset(registers.get(), 0x5a, size_t(kernel.registerBytes) * warpCount);
  Block block;
  block.module = &module;
  block.kernel = &kernel;
  block.parameters = parameters.data();
  std::vector<Warp> warps(warpCount);
  for (uint32_t w = 0; w < warpCount; ++w) {
    warps[w].registers = registers.get() + size_t(kernel.registerBytes) * w;
    warps[w].block = &block;
    warps[w].index = w;
    fillConstants(warps[w], kernel);
  }
  uint64_t count = 0;
  uint64_t blocks = uint64_t(shape.grid[0]) * shape.grid[1] * shape.grid[2];
  for (uint64_t number = 0; number < blocks; ++number) {
    block.id[0] = uint32_t(number % shape.grid[0]);
    block.id[1] = uint32_t(number / shape.grid[0] % shape.grid[1]);
    block.id[2] = uint32_t(number / shape.grid[0] / shape.grid[1]);
    // Nothing is left of another block.
    block.shared.assign(kernel.sharedBytes + shape.dynamicShared, 0xff);
    for (Warp &warp : warps) {
      fillSpecials(warp, shape, block, threads);
      warp.next = 0;
      warp.limit = ~0u;
      warp.others.clear();
      warp.isDone = warp.isAtBarrier = false;
      warp.local.assign(size_t(kernel.localBytes) * kLanes, 0xff);
    }
    for (bool isRunning = true; isRunning;) {
      isRunning = false;
      for (Warp &warp : warps)
        if (!warp.isDone) {
          runWarp(warp, kernel, count);
          isRunning |= !warp.isDone;
        }
    }
  }
  executed += count;
}

} // namespace emulated
