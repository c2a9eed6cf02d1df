// SPDX-License-Identifier: Apache-2.0
// What ranks hold of the tensors that a program takes and gives: all of it. Who asks for an output
// or a state gets memory for the whole tensor, which is therefore no larger than what ranks hold.
#include "VerifyBoxes.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace autopar::artifact {
namespace {

struct Whole {
  const Port *port = nullptr;
  int64_t held = 0; ///< elements, counted once per replica 0, at most those of the tensor
};

int64_t elements(const std::vector<int64_t> &extents) {
  // Of bytes that verifyProgram() found to be no overflow, and boxes inside of them.
  return checkedBytes(extents, DataType::U8).value_or(0);
}

} // namespace

Status verifyBoxes(const std::vector<RankTable> &ranks,
                   const std::vector<const Program *> &programs) {
  std::map<std::pair<Role, std::string>, Whole> wholes;
  for (const RankTable &table : ranks) {
    const Program &program = *programs[size_t(table.rankClass)];
    for (size_t i = 0; i < program.ports.size(); ++i) {
      const Port &port = program.ports[i];
      if (port.role == Role::Parameter)
        continue; // a file's; what no rank reads of it needs no memory
      Whole &whole = wholes[{port.role, port.name}];
      if (!whole.port)
        whole.port = &port;
      if (table.ports[i].replica == 0)
        whole.held += std::min(elements(table.ports[i].extent), elements(port.shape) - whole.held);
    }
  }
  for (const auto &[key, whole] : wholes)
    if (int64_t all = elements(whole.port->shape); whole.held < all)
      return Status::badInput("port " + whole.port->name + ": the boxes of replica 0 hold " +
                              std::to_string(whole.held) + " of the tensor's " +
                              std::to_string(all) + " elements; expected all of them");
  return Status::ok();
}

} // namespace autopar::artifact
