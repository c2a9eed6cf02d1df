// SPDX-License-Identifier: Apache-2.0
// Checks of the geometry of grouped products.
#include "autopar/Artifact/Verify.h"

#include <algorithm>

namespace autopar::artifact {

Status verifyGeometry(const GroupedProductGeometry &g) {
  for (DataType type : {g.type, g.resultType})
    if (type != DataType::F32 && type != DataType::BF16)
      return Status::badInput("a grouped product of element type " + std::string(name(type)) +
                              " is not a library call; expected f32 or bf16");
  if (g.groupType != DataType::I32 && g.groupType != DataType::I64)
    return Status::badInput("groups of rows are numbers of type " + std::string(name(g.groupType)) +
                            "; expected i32 or i64");
  for (const StridedShape *shape : {&g.lhs, &g.rows}) {
    if (shape->dims.empty() || shape->strides.size() != shape->dims.size() ||
        shape->strides.back() != 1)
      return Status::badInput("a grouped product needs as many strides as dims, at least one, the "
                              "last stride being 1");
    for (size_t i = 0; i < shape->dims.size(); ++i)
      if (shape->dims[i] < 1 || shape->strides[i] < 0)
        return Status::badInput("a grouped product has an empty dim or a negative stride");
  }
  if (!std::equal(g.lhs.dims.begin(), g.lhs.dims.end() - 1, g.rows.dims.begin(),
                  g.rows.dims.end() - 1))
    return Status::badInput("both sides of a grouped product need the same rows");
  if (g.groups < 1 || (g.isGradient && g.transposed))
    return Status::badInput("a grouped product needs a group, and its gradient is not transposed");
  if (g.madeColumns < 0 || (g.madeColumns > 0 && (g.isGradient || g.columns() % g.madeColumns)))
    return Status::badInput("a kernel makes " + std::to_string(g.madeColumns) +
                            " columns of a matrix at a time; expected a divisor of " +
                            std::to_string(g.columns()) + ", and no gradient");
  return Status::ok();
}

} // namespace autopar::artifact
