// SPDX-License-Identifier: Apache-2.0
// Where measured instructions find their operands, and the sizes that they are measured at.
#pragma once

#include "Probe.h"

#include <cstdint>
#include <vector>

namespace autopar::tools {

/// Operands lie in one area that is walked through, as the weights of layer after layer are, and
/// results in another.
constexpr int64_t kArea = int64_t{96} << 20;

/// Where instructions of a grid find their operands.
class ProbeMemory {
public:
  explicit ProbeMemory(Probe &probe)
      : probe(probe), read(probe.addFilled({kArea / 4}, DataType::F32)),
        written(probe.addWritten({kArea / 4}, DataType::F32)) {}

  /// The next bytes that nobody read for long.
  int32_t fresh(int64_t bytes, DataType type) { return next(read, readAt, bytes, type); }
  int32_t result(int64_t bytes, DataType type) { return next(written, writtenAt, bytes, type); }
  /// Bytes that the instruction before has written, a copy which is added here: the operand of a
  /// kernel mostly comes from the one before. Copied is what others copied too, so that nothing
  /// which is measured waits for it.
  int32_t recent(int64_t bytes, DataType type) {
    int32_t from = probe.addView(read, 0, bytes, type), to = result(bytes, type);
    probe.add(artifact::Copy{from, 0, to, 0, bytes});
    return to;
  }

private:
  Probe &probe;
  int32_t read, written;
  int64_t readAt = 0, writtenAt = 0;

  int32_t next(int32_t area, int64_t &at, int64_t bytes, DataType type) {
    if (at + bytes > kArea)
      at = 0;
    int32_t view = probe.addView(area, at, bytes, type);
    at += (bytes + 63) / 64 * 64;
    return view;
  }
};

/// From `first` to `last`, each `factor` times the one before.
inline std::vector<double> steps(double first, double last, double factor) {
  std::vector<double> values;
  for (double value = first; value < last * 1.001; value *= factor)
    values.push_back(value);
  return values;
}

} // namespace autopar::tools
