// SPDX-License-Identifier: Apache-2.0
// A program of two ranks with every kind of instruction but those that need machine code, for tests
// that damage it. What it computes has no meaning.
#pragma once

#include "autopar/Artifact/Writer.h"

namespace autopar::testing {

artifact::Contents everyInstruction();

} // namespace autopar::testing
