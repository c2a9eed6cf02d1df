// SPDX-License-Identifier: Apache-2.0
// Gives instructions that communicate to a communicator.
#pragma once

#include "autopar/Artifact/Program.h"
#include "autopar/Runtime/Communicator.h"
#include "autopar/Runtime/Device.h"

namespace autopar::runtime {

bool isCommunication(const artifact::Payload &payload);

/// Starts an instruction for which isCommunication() is true.
Result<Token> communicate(const artifact::Payload &payload, int32_t slot,
                          const artifact::RankTable &table, Device &device,
                          Communicator &communicator);

} // namespace autopar::runtime
