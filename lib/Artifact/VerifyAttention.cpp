// SPDX-License-Identifier: Apache-2.0
// Checks of shapes and strides of attention.
#include "autopar/Artifact/Verify.h"

namespace autopar::artifact {

Status verifyGeometry(const AttentionGeometry &g) {
  if (g.operands.size() != 4 && g.operands.size() != 8)
    return Status::badInput("attention needs 4 operands, or 8 of a gradient, it has " +
                            std::to_string(g.operands.size()));
  for (DataType type : {g.type, g.biasType})
    if (type != DataType::F32 && type != DataType::BF16 && type != DataType::F16)
      return Status::badInput("attention of element type " + std::string(name(type)) +
                              " is not a library call; expected f32, bf16 or f16");
  auto verifyShape = [](const StridedShape &shape, const char *what) {
    if (shape.dims.size() != 4 || shape.strides.size() != 4 || shape.strides[3] != 1)
      return Status::badInput(std::string("attention: ") + what +
                              " needs 4 dims and strides, the last stride being 1");
    for (size_t i = 0; i < 4; ++i)
      if (shape.dims[i] < 1 || shape.strides[i] < 0)
        return Status::badInput(std::string("attention: ") + what +
                                " has an empty dim or a negative stride");
    return Status::ok();
  };
  for (const StridedShape &operand : g.operands)
    AUTOPAR_RETURN_IF_ERROR(verifyShape(operand, "an operand"));
  const auto &query = g.operands[0].dims, &key = g.operands[1].dims, &value = g.operands[2].dims,
             &output = g.operands[3].dims;
  bool fits = query[0] == key[0] && key[0] == value[0] && query[1] % key[1] == 0 &&
              key[1] == value[1] && key[2] == value[2] && query[3] == key[3] &&
              output == std::vector<int64_t>{query[0], query[1], query[2], value[3]};
  if (g.isGradient())
    fits = fits && g.operands[4].dims == output && g.operands[5].dims == query &&
           g.operands[6].dims == key && g.operands[7].dims == value;
  if (!fits)
    return Status::badInput("attention: the operands' dims do not fit");
  if (g.window < 0 || (g.window > 0 && !g.causal))
    return Status::badInput("attention: a window of " + std::to_string(g.window) +
                            " keys needs a causal mask");
  if (!g.hasBias())
    return Status::ok();
  AUTOPAR_RETURN_IF_ERROR(verifyShape(g.bias, "the bias"));
  if (g.bias.dims != std::vector<int64_t>{query[0], query[1], query[2], key[2]})
    return Status::badInput("attention: the bias' dims do not fit the scores");
  return Status::ok();
}

} // namespace autopar::artifact
