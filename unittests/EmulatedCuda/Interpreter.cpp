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
                     const Operation &operation, Access access, const void *written) {
  auto outside = [&](const char *what, uint64_t size) {
    fault(kIllegalAddress,
          std::to_string(bytes) + " bytes at " + std::to_string(address) + " of " + what +
              " memory, which has " + std::to_string(size) + " bytes",
          lane, operation);
  };
  auto watched = [&](const char *memory, uint8_t *at, auto touchMemory) {
    Touch touch = {access, index * kLanes + lane, operation.line, at,
                   static_cast<const uint8_t *>(written)};
    if (Hazard hazard = touchMemory(touch))
      fault(kLaunchFailed, block->hazards->describe(hazard, address, bytes, memory), lane,
            operation);
    return at;
  };
  if (address & (bytes - 1))
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
    return watched("shared", block->shared.data() + address, [&](const Touch &touch) {
      return block->hazards->touchShared(address, bytes, touch);
    });
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
  if (block->hazards->checksGlobal)
    return watched(
        "global", allocation->host + (address - allocation->begin),
        [&](const Touch &touch) { return block->hazards->touchGlobal(address, bytes, touch); });
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

/// The lanes that have to come to an operation of `active` lanes, each of which must be one of
/// those that it names; lanes that have ended come no more.
uint32_t membersOf(Warp &warp, const Operation &op, uint32_t active) {
  if (op.kind == Operation::Kind::Barrier)
    return warp.launched;
  const uint32_t *named = warp.lanes<uint32_t>(op.e);
  uint32_t members = 0;
  for (uint32_t rest = active; rest; rest &= rest - 1) {
    uint32_t lane = uint32_t(__builtin_ctz(rest));
    if (!(named[lane] >> lane & 1))
      warp.fault(kLaunchFailed, "a thread is not among the members that it names", lane, op);
    members |= named[lane];
  }
  return members;
}

/// Whether all lanes have come to an operation that they do together; else those that are here
/// wait. Lanes that can come no more are a fault.
bool haveAllCome(Warp &warp, const Operation &op, uint32_t active, uint32_t &fruitless) {
  uint32_t missing = membersOf(warp, op, active) & ~active;
  if (!missing) {
    fruitless = 0;
    return true;
  }
  uint32_t first = uint32_t(__builtin_ctz(missing));
  if (missing & ~warp.alive)
    warp.fault(kLaunchFailed, "lanes that should take part have ended",
               uint32_t(__builtin_ctz(missing & ~warp.alive)), op);
  if (warp.others.empty())
    warp.fault(kLaunchFailed, "lanes that should take part do not", first, op);
  if (++fruitless > 4 * kLanes)
    warp.fault(kLaunchFailed, "lanes wait for each other at different places", first, op);
  warp.others.push_back({warp.next, warp.mask, true});
  warp.mask = 0;
  reschedule(warp);
  return false;
}

/// Lanes do it with those that they name, which must name the same ones.
void runTogether(Warp &warp, const Operation &op, uint32_t active) {
  const uint32_t *named = warp.lanes<uint32_t>(op.e);
  while (active) {
    uint32_t members = named[__builtin_ctz(active)];
    for (uint32_t rest = members; rest; rest &= rest - 1)
      if (named[__builtin_ctz(rest)] != members)
        warp.fault(kLaunchFailed, "members of an operation name different members",
                   uint32_t(__builtin_ctz(rest)), op);
    warp.active = members;
    op.execute(warp, op);
    active &= ~members;
  }
}

/// Until the warp ends or stands at a barrier.
void runWarp(Warp &warp, const Kernel &kernel, uint64_t &count) {
  const Operation *operations = kernel.operations.data();
  uint32_t fruitless = 0;
  warp.atBarrier = nullptr;
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
      if (active && !haveAllCome(warp, op, active, fruitless))
        break;
      ++warp.next;
      runTogether(warp, op, active);
      break;
    case Operation::Kind::Barrier:
      if (active && !haveAllCome(warp, op, active, fruitless))
        break;
      ++warp.next;
      if (!active)
        break;
      warp.atBarrier = &op;
      return;
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
  warp.mask = warp.alive = warp.launched = rest >= kLanes ? ~0u : (1u << rest) - 1;
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

/// From barrier to barrier: one warp after the other.
void runBlock(std::vector<Warp> &warps, const Kernel &kernel, Hazards &hazards, uint64_t &count) {
  for (bool isRunning = true; isRunning;) {
    isRunning = false;
    Warp *first = nullptr; // that waits
    for (Warp &warp : warps) {
      if (warp.isDone)
        continue;
      runWarp(warp, kernel, count);
      if (warp.isDone)
        continue;
      isRunning = true;
      first = first ? first : &warp;
      if (warp.atBarrier != first->atBarrier)
        warp.fault(kLaunchFailed,
                   "warps of a block wait at different barriers, thread " +
                       std::to_string(first->index * kLanes) + " in line " +
                       std::to_string(first->atBarrier->line),
                   0, *warp.atBarrier);
    }
    hazards.orderBlock();
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
  uint32_t sharedBytes = kernel.sharedBytes + shape.dynamicShared;
  Hazards hazards(kernel, sharedBytes, setting("AUTOPAR_EMULATED_CUDA_RACECHECK", 0) != 0);
  block.hazards = &hazards;
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
    block.shared.assign(sharedBytes, 0xff);
    hazards.beginBlock();
    for (Warp &warp : warps) {
      fillSpecials(warp, shape, block, threads);
      warp.next = 0;
      warp.limit = ~0u;
      warp.others.clear();
      warp.isDone = false;
      warp.local.assign(size_t(kernel.localBytes) * kLanes, 0xff);
    }
    runBlock(warps, kernel, hazards, count);
  }
  executed += count;
}

} // namespace emulated
