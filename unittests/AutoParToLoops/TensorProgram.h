// SPDX-License-Identifier: Apache-2.0
// Runs a function of autopar operations on this machine's CPU and on an emulated GPU: every group
// or operation is emitted, compiled and called in order, so that tests compare numbers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace autopar::test {

/// A tensor with its elements as doubles; `type` is the element type as MLIR spells it.
struct Tensor {
  std::string type;
  std::vector<int64_t> shape;
  std::vector<double> data;

  /// `tensor<2x3xf32>`
  std::string mlirType() const;
  int64_t size() const;
};

/// A tensor whose elements vary between low and high in a fixed irregular pattern.
Tensor makeTensor(const std::string &type, std::vector<int64_t> shape, double low = -2,
                  double high = 2, unsigned seed = 1);

/// Parses `text` (one function), forms groups if asked, and runs it on `inputs`. Each kernel's
/// range is run in two calls. The
/// same is then run on an emulated GPU, which must agree. A failure is a test failure and gives
/// empty tensors.
std::vector<Tensor> runProgram(const std::string &text, const std::vector<Tensor> &inputs,
                               bool formGroups);

/// The same on the CPU alone, where a GPU has no kernel.
std::vector<Tensor> runOnCpu(const std::string &text, const std::vector<Tensor> &inputs,
                             bool formGroups);

/// Runs one operation: `line` is its text with operands %0, %1, ... and without results, whose
/// types are those of `results`.
std::vector<Tensor> runOperation(const std::string &line, const std::vector<Tensor> &inputs,
                                 const std::vector<std::string> &resultTypes);

/// Number of groups and other operations (views and constants not counted) that group formation
/// leaves of `text`, as "groups+others".
std::string countKernels(const std::string &text);

/// Expects both to agree within `tolerance` (relative above 1, absolute below); NaN equals NaN.
void expectClose(const Tensor &actual, const std::vector<double> &expected, double tolerance,
                 const std::string &what);

} // namespace autopar::test
