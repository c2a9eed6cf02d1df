// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "VaryingExtents.h"

#include <algorithm>

namespace autopar::runtime {

using artifact::VaryingDim;

static const VaryingDim *varyingAt(const TensorSpec &spec, size_t dim) {
  auto found = std::find_if(spec.varying.begin(), spec.varying.end(),
                            [&](const VaryingDim &each) { return size_t(each.dim) == dim; });
  return found == spec.varying.end() ? nullptr : &*found;
}

std::vector<int64_t> leastShape(const TensorSpec &spec) {
  std::vector<int64_t> shape = spec.shape;
  for (const VaryingDim &varying : spec.varying)
    shape[size_t(varying.dim)] = varying.least;
  return shape;
}

std::vector<int64_t> stepShape(const TensorSpec &spec) {
  std::vector<int64_t> steps(spec.shape.size(), 1);
  for (const VaryingDim &varying : spec.varying)
    steps[size_t(varying.dim)] = varying.step;
  return steps;
}

std::optional<Missing> missingIn(const TensorSpec &spec, const std::vector<int64_t> &shape) {
  if (shape.size() != spec.shape.size())
    return std::nullopt;
  Missing missing;
  std::vector<int64_t> least = leastShape(spec);
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    int64_t fewer = spec.shape[dim] - shape[dim];
    const VaryingDim *varying = varyingAt(spec, dim);
    if (fewer < 0 || shape[dim] < least[dim])
      return std::nullopt;
    if (!varying)
      continue;
    int64_t steps = fewer / varying->step;
    if (fewer % varying->step != 0 ||
        missing.try_emplace(varying->extent, steps).first->second != steps)
      return std::nullopt;
  }
  return missing;
}

void MissingPositions::set(const TensorSpec &input, Missing missing) {
  byInput[input.name] = std::move(missing);
}

Status MissingPositions::agree(const std::vector<TensorSpec> &inputs) {
  agreed.clear();
  for (const TensorSpec &input : inputs)
    for (const VaryingDim &varying : input.varying) {
      int64_t own = byInput[input.name][varying.extent];
      auto [known, isNew] = agreed.try_emplace(varying.extent, own);
      if (isNew || known->second == own)
        continue;
      auto positions = [&](int64_t missing) {
        return std::to_string(input.shape[size_t(varying.dim)] - missing * varying.step);
      };
      return Status::badInput("inputs disagree about '" + varying.extent + "': " + input.name +
                              " has " + positions(own) + " positions in dimension " +
                              std::to_string(varying.dim) + ", where others ask for " +
                              positions(known->second));
    }
  return Status::ok();
}

int64_t MissingPositions::of(const std::string &extent) const {
  auto found = agreed.find(extent);
  return found == agreed.end() ? 0 : found->second;
}

std::vector<int64_t> MissingPositions::shapeOf(const TensorSpec &spec) const {
  std::vector<int64_t> shape = spec.shape;
  for (const VaryingDim &varying : spec.varying)
    shape[size_t(varying.dim)] -= of(varying.extent) * varying.step;
  return shape;
}

} // namespace autopar::runtime
