// SPDX-License-Identifier: Apache-2.0
// A small program made by hand that every rank runs at the same time, in a session as any compiled
// one: what it takes here is what an instruction of a plan takes.
#pragma once

#include "autopar/Artifact/Program.h"
#include "autopar/Base/Status.h"
#include "autopar/Runtime/Session.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace autopar::tools {

/// For how long a measurement repeats.
struct Effort {
  double seconds = 0;     ///< go on until that many are spent,
  int32_t leastSteps = 3; ///< but for at least so many steps
};

/// The program. Add buffers, then instructions, then ask for its time.
class Probe {
public:
  /// Collectives and permutes are among `together` neighbouring ranks; 0: all.
  explicit Probe(std::string name, int32_t together = 0) : together(together) {
    program.name = std::move(name);
  }

  /// A buffer of this shape, holding ones.
  int32_t addFilled(std::vector<int64_t> shape, DataType type);
  /// A buffer that instructions write before they read it.
  int32_t addWritten(std::vector<int64_t> shape, DataType type);
  /// A buffer over bytes of another one, from `offset` on.
  int32_t addView(int32_t of, int64_t offset, int64_t bytes, DataType type);
  void add(artifact::Payload payload);
  int64_t instructions() const { return int64_t(step.instructions.size()); }

  /// Seconds per instruction: of each step the slowest rank, of all steps the median. Collectives
  /// take group 0, all ranks; permutes take permutation 0, a ring.
  Result<double> secondsPerInstruction(int32_t ranks, int32_t threads, const Effort &effort) const;
  /// Seconds of each instruction: its median over steps, on the rank where that is longest.
  Result<std::vector<double>> secondsOfEach(int32_t ranks, int32_t threads,
                                            const Effort &effort) const;

private:
  int32_t together;
  artifact::Program program;
  artifact::Entry step{"step", {}};

  int32_t addBuffer(std::vector<int64_t> shape, DataType type);
  /// Calls `seen` with what all ranks did in a step; the first step does not count.
  Status run(int32_t ranks, int32_t threads, const Effort &effort,
             const std::function<void(const std::vector<runtime::RankEvents> &)> &seen) const;
};

/// Of a non-empty list; of two in the middle their mean.
double median(std::vector<double> values);

} // namespace autopar::tools
