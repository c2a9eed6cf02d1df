// SPDX-License-Identifier: Apache-2.0
// A hand-written program that the tests of the artifact and the runtime share:
// y = relu(x W1) W2 with W1 split by columns and W2 by rows over all ranks, so that it has a packed
// weight, a kernel, matrix products, an all-reduce, external and constant parameters.
#pragma once

#include "autopar/Artifact/Writer.h"

#include <string>
#include <vector>

namespace autopar::testing {

constexpr int64_t kRows = 4, kIn = 8, kHidden = 8, kOut = 5;

/// x[i] for input "x", W1, W2: small deterministic numbers.
std::vector<float> sampleInput();
std::vector<float> sampleWeight1();
std::vector<float> sampleWeight2();
/// y computed naively.
std::vector<float> sampleOutput();

/// kernels: bytes of the shared object with symbol "relu_rows". ranks must divide kHidden. W1 comes
/// from `weightFile` at byte 16 (see writeSampleWeights), W2 from the constants.
artifact::Contents sampleContents(int32_t ranks, const std::vector<uint8_t> &kernels,
                                  const std::string &weightFile);
/// 16 bytes of something, then W1.
void writeSampleWeights(const std::string &path);

std::vector<uint8_t> readBytes(const std::string &path);

/// The file with digests that fit what its sections and its header hold by now.
std::vector<uint8_t> resealed(std::vector<uint8_t> file);

} // namespace autopar::testing
