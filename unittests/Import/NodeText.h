// SPDX-License-Identifier: Apache-2.0
// Models of one node from one line, for what importing them says.
#pragma once

#include <string>
#include <vector>

namespace autopar::test {

/// The bytes of a model whose one node is called "n". The line: the operator (with its domain
/// before "::"), its operands, attributes, and how many outputs it has.
///   f[2,3]       an input of the model: f float, d double, h half, i int64, j int32, b bool, u
///   uint8, n int4, s string i{1,2}       a constant; i{2,2:1,2,3,4} with its shape; i=3 a scalar
///   -            an operand that is left out
///   axis=1 alpha=0.5 mode='x' pads=[1,1] scales=[0.5]
///   >2           outputs; one where nothing is said
///   @9           version of the operator set; the newest that import knows where nothing is said
std::string modelOf(const std::string &line);

/// A line, and what import says of its node; "unsupported: ..." for operators that it does not
/// have.
struct Refusal {
  std::string line, message;
};
void expectRefusals(const std::vector<Refusal> &refusals);

} // namespace autopar::test
