// SPDX-License-Identifier: Apache-2.0
// Status: see the header.
#include "autopar/Base/Status.h"

namespace autopar {

Status Status::at(const std::string &where) const {
  return isOk() ? Status() : Status(statusCode, where + ": " + text);
}

} // namespace autopar
