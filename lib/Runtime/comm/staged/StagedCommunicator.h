// SPDX-License-Identifier: Apache-2.0
// A communicator for device memory over one that knows host memory only.
#pragma once

#include "autopar/Runtime/Communicator.h"
#include "autopar/Runtime/Device.h"

#include <memory>

namespace autopar::runtime {

/// Every operation is a copy to the host, the same operation there, and a copy back. Neither of the
/// two is owned; `device` has staging().
std::unique_ptr<Communicator> createStagedCommunicator(Communicator &inner, Device &device);

} // namespace autopar::runtime
