// SPDX-License-Identifier: Apache-2.0
// PTX text, decoded once into operations on the register file of a warp.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace emulated {

struct Warp;
struct Operation;
using Execute = void (*)(Warp &warp, const Operation &operation);

/// One instruction for the 32 lanes of a warp. Operands are places in its register file: a value
/// per lane, or one word with a bit per lane for a predicate. Immediates and special registers have
/// places too.
struct Operation {
  enum class Kind : uint8_t { Simple, Together, Branch, Exit, Barrier, Trap };
  Kind kind = Kind::Simple;
  bool isGuarded = false, isNegated = false;
  uint32_t guard = 0;
  Execute execute = nullptr;
  uint32_t d = 0, a = 0, b = 0, c = 0, e = 0;
  int64_t offset = 0;           ///< of addresses; the target of a branch
  std::vector<uint32_t> vector; ///< places of a vector's elements
  uint32_t line = 0;
};

/// Places of what the hardware knows, in front of the register file.
enum Special : uint32_t {
  kTidX,
  kTidY,
  kTidZ,
  kNTidX,
  kNTidY,
  kNTidZ,
  kCtaX,
  kCtaY,
  kCtaZ,
  kNCtaX,
  kNCtaY,
  kNCtaZ,
  kLane,
  kWarp,
  kMaskEq,
  kMaskLt,
  kMaskLe,
  kMaskGt,
  kMaskGe,
  kClock,
  kDynamicShared,
  kSpecialCount
};
constexpr uint32_t kLanes = 32, kWordPlace = 4 * kLanes;

struct Constant {
  uint32_t place = 0, bytes = 4;
  uint64_t value = 0;
};

struct Kernel {
  std::string name;
  std::vector<Operation> operations;
  std::vector<Constant> constants;
  uint32_t registerBytes = 0, parameterBytes = 0, localBytes = 0, sharedBytes = 0;
  uint32_t sharedGranule = 8, globalGranule = 8; ///< bytes of the smallest elements accessed
  std::vector<std::pair<uint32_t, uint32_t>> parameters; ///< offset, bytes
  std::vector<std::pair<uint32_t, uint32_t>> shared;     ///< begin, end; the dynamic one has no end
  uint32_t mostThreads = 1024, requiredThreads = 0;
};

/// A variable of the module in global or constant memory.
struct Variable {
  uint64_t bytes = 0, address = 0;
  std::vector<uint8_t> initial;
};

struct PtxModule {
  std::map<std::string, Kernel> kernels;
  std::map<std::string, Variable> variables;
  std::vector<std::string> lines; ///< for messages
  int versionMajor = 0, versionMinor = 0, chip = 0;
};

/// Throws std::runtime_error that names the line; variables' addresses come from `allocate`.
PtxModule decodePtx(std::string_view text, uint64_t (*allocate)(uint64_t bytes));

struct LaunchShape {
  uint32_t grid[3] = {1, 1, 1}, block[3] = {1, 1, 1}, dynamicShared = 0;
};

/// A fault of a kernel.
struct Fault {
  int error; ///< the driver's number for it
  std::string text;
};

/// Runs all blocks; throws Fault. `parameters` has kernel.parameterBytes bytes.
void runKernel(const PtxModule &module, const Kernel &kernel, const LaunchShape &shape,
               const std::vector<uint8_t> &parameters);

/// Thread-instructions that were executed in this process.
uint64_t executedInstructions();

} // namespace emulated
