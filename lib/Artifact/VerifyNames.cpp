// SPDX-License-Identifier: Apache-2.0
// The names of a program go into JSON: reports, traces, checkpoints, exported weights.
#include "autopar/Artifact/Verify.h"

#include "autopar/Base/Utf8.h"

namespace autopar::artifact {
namespace {

Status verifyName(const std::string &what, const std::string &name) {
  return isUtf8(name) ? Status::ok()
                      : Status::badInput(what + ": the name \"" + escapedToUtf8(name) +
                                         "\" is not UTF-8; rename it in the model");
}

} // namespace

Status verifyNames(const Program &program) {
  for (size_t i = 0; i < program.buffers.size(); ++i)
    AUTOPAR_RETURN_IF_ERROR(verifyName("buffer " + std::to_string(i), program.buffers[i].name));
  for (size_t i = 0; i < program.ports.size(); ++i)
    for (const std::string &name :
         {program.ports[i].name, program.ports[i].transposeOf, program.ports[i].source.drawn})
      AUTOPAR_RETURN_IF_ERROR(verifyName("port " + std::to_string(i), name));
  for (size_t e = 0; e < program.entries.size(); ++e) {
    const Entry &entry = program.entries[e];
    std::string where = "entry " + std::to_string(e);
    AUTOPAR_RETURN_IF_ERROR(verifyName(where, entry.name));
    for (size_t i = 0; i < entry.instructions.size(); ++i) {
      const Instruction &instruction = entry.instructions[i];
      std::string place = where + ": instruction " + std::to_string(i);
      AUTOPAR_RETURN_IF_ERROR(verifyName(place, instruction.id));
      AUTOPAR_RETURN_IF_ERROR(verifyName(place, instruction.profileKey));
    }
  }
  return Status::ok();
}

} // namespace autopar::artifact
