// SPDX-License-Identifier: Apache-2.0
// Measured operations: sharding rules from the choices of the database, costs from its rows.
#include "autopar/Dialect/AutoPar/IR/AutoPar.h"

#include <limits>

using namespace mlir;
using namespace mlir::autopar;

namespace {

enum SizeColumn { Batch, Degree, Choice, Saved, ForwardWorkspace, BackwardWorkspace };
enum TimeColumn { Forward, Backward, WeightGradient };

/// What a tensor of a measured operation is.
struct Role {
  enum Kind { Input, Output, Weight, Own } kind;
  int64_t number = 0;
};

int64_t rankOf(Value value) { return cast<RankedTensorType>(value.getType()).getRank(); }

} // namespace

//===-- The table ----------------------------------------------------------------------------===//

LogicalResult ProfileAttr::verify(function_ref<InFlightDiagnostic()> emitError, StringAttr key,
                                  int64_t extent, ArrayAttr choices, DenseI64ArrayAttr sizes,
                                  DenseF64ArrayAttr times) {
  if (extent < 1)
    return emitError() << "profile of " << key << ": expected a positive extent";
  if (!llvm::all_of(choices, llvm::IsaPred<ProfileChoiceAttr>))
    return emitError() << "profile of " << key
                       << ": expected choices to be #autopar.profile_choice";
  if (times.size() % kTimes || sizes.size() / kSizes * kTimes != times.size() ||
      sizes.size() % kSizes || times.empty())
    return emitError() << "profile of " << key << ": expected rows of " << kSizes
                       << " sizes and as many of " << kTimes << " times";
  for (int64_t row = 0; row < sizes.size() / kSizes; ++row)
    if (sizes[row * kSizes + Choice] >= static_cast<int64_t>(choices.size()))
      return emitError() << "profile of " << key << ": row " << row << " has no such choice";
  return success();
}

ProfileChoiceAttr ProfileAttr::choice(int64_t number) {
  return cast<ProfileChoiceAttr>(getChoices()[number]);
}

int64_t ProfileAttr::rowFor(ArrayRef<int64_t> saved) {
  int64_t degree = 1, choice = -1;
  for (auto [number, part] : llvm::enumerate(saved.drop_front()))
    if (part != getExtent()) {
      if (choice >= 0)
        return -1; // two choices at once
      choice = number;
      degree = getExtent() / part;
    }
  ArrayRef<int64_t> sizes = getSizes();
  for (int64_t row = 0; row < rowCount(); ++row, sizes = sizes.drop_front(kSizes))
    if (sizes[Batch] == saved[0] && sizes[Degree] == degree && sizes[Choice] == choice)
      return row;
  return -1;
}

double ProfileAttr::timeUs(ArrayRef<int64_t> saved, int64_t column, bool mayScale) {
  int64_t row = rowFor(saved);
  if (row >= 0)
    return getTimes()[row * kTimes + column];
  if (!mayScale)
    return std::numeric_limits<double>::infinity();
  // Of the least degree the largest batch.
  auto rank = [&](int64_t one) {
    return std::pair(getSizes()[one * kSizes + Degree], -getSizes()[one * kSizes + Batch]);
  };
  row = 0;
  for (int64_t other = 1; other < rowCount(); ++other)
    if (rank(other) < rank(row))
      row = other;
  return getTimes()[row * kTimes + column] * static_cast<double>(saved[0]) /
         static_cast<double>(getSizes()[row * kSizes + Batch]);
}

int64_t ProfileAttr::bytes(ArrayRef<int64_t> saved, int64_t column) {
  int64_t row = rowFor(saved);
  return row < 0 ? 0 : getSizes()[row * kSizes + column];
}

//===-- Rules --------------------------------------------------------------------------------===//

/// Factor 0 are the samples, one for each choice follows. What lies whole where a degree splits
/// the operation is whole for each shard: in the forward pass computed by all or completed within
/// the measured time, as a gradient a sum over the shards.
static ShardingRule ruleFor(Operation *op, ProfileAttr profile, ArrayRef<Role> operands,
                            ArrayRef<Role> results, bool isForward) {
  ShardingRule rule = ShardingRule::emptyFor(op);
  auto dimsFor = [](ArrayRef<Role> roles, ValueRange values, auto dimOf) {
    SmallVector<int64_t> dims;
    for (auto [role, value] : llvm::zip_equal(roles, values))
      dims.push_back(rankOf(value) == 0 ? ShardingRule::absent : dimOf(role));
    return dims;
  };
  auto add = [&](int64_t extent, auto dimOf, auto isSumOf) {
    int64_t factor = rule.addFactor(dimsFor(operands, op->getOperands(), dimOf),
                                    dimsFor(results, op->getResults(), dimOf), extent);
    Factor &added = rule.factors[factor];
    added.masksPadding = true;
    SmallVector<int64_t, 1> complete;
    for (auto [number, role] : llvm::enumerate(results))
      if (!isSumOf(role, op->getResult(number)))
        complete.push_back(number);
    if (complete.size() == results.size())
      return factor;
    added.kind = FactorKind::Reduction;
    added.completeResults = complete;
    return factor;
  };
  // The last result, the workspace, has samples.
  int64_t samples = cast<RankedTensorType>(op->getResults().back().getType()).getDimSize(0);
  add(
      samples,
      [](const Role &role) { return role.kind == Role::Weight ? ShardingRule::absent : 0; },
      [&](const Role &role, Value value) {
        bool isLoss = isForward && role.kind == Role::Output && rankOf(value) == 0;
        return isLoss || (!isForward && role.kind == Role::Weight);
      });
  for (int64_t number = 0, count = profile.getChoices().size(); number < count; ++number) {
    ProfileChoiceAttr choice = profile.choice(number);
    auto layoutOf = [&](const Role &role) {
      return role.kind == Role::Input ? choice.getInputs()[role.number]
                                      : choice.getOutputs()[role.number];
    };
    int64_t factor = add(
        profile.getExtent(),
        [&](const Role &role) -> int64_t {
          if (role.kind == Role::Own)
            return 1 + number;
          if (role.kind == Role::Weight)
            return choice.getWeight() ? 0 : ShardingRule::absent;
          return layoutOf(role) < 0 ? ShardingRule::absent : 1 + layoutOf(role);
        },
        [&](const Role &role, Value) {
          if (role.kind == Role::Own || choice.getIncluded())
            return false;
          if (role.kind == Role::Weight)
            return !isForward && !choice.getWeight();
          if (isForward)
            return layoutOf(role) == ProfileChoiceAttr::kPartial;
          return role.kind == Role::Input && layoutOf(role) == ProfileChoiceAttr::kWhole;
        });
    rule.factors[factor].mayBeUneven = false;
  }
  rule.complete(op);
  return rule;
}

static SmallVector<Role> outputs(size_t count) {
  SmallVector<Role> roles;
  for (size_t i = 0; i < count; ++i)
    roles.push_back({Role::Output, static_cast<int64_t>(i)});
  return roles;
}

ShardingRule ProfiledOp::getShardingRule() {
  SmallVector<Role> operands, results = outputs(getOutputs().size());
  for (size_t i = 0; i < getInputs().size(); ++i)
    operands.push_back({Role::Input, static_cast<int64_t>(i)});
  if (getWeight())
    operands.push_back({Role::Weight});
  results.push_back({Role::Own});
  results.push_back({Role::Own});
  ShardingRule rule = ruleFor(*this, getProfile(), operands, results, true);
  rule.fixedResults = {static_cast<int64_t>(getOutputs().size())};
  return rule;
}

ShardingRule ProfiledBackwardOp::getShardingRule() {
  SmallVector<Role> operands = outputs(getCotangents().size()), results;
  operands.push_back({Role::Own});
  for (int64_t input : getInputs())
    results.push_back({Role::Input, input});
  results.push_back({Role::Own});
  return ruleFor(*this, getProfile(), operands, results, false);
}

ShardingRule ProfiledWeightGradientOp::getShardingRule() {
  SmallVector<Role> operands = outputs(getCotangents().size());
  operands.push_back({Role::Own});
  return ruleFor(*this, getProfile(), operands, {{Role::Weight}, {Role::Own}}, false);
}

//===-- Costs --------------------------------------------------------------------------------===//

std::optional<double> ProfiledOp::getMeasuredUs(ArrayRef<RankedTensorType>,
                                                ArrayRef<RankedTensorType> results, bool mayScale) {
  return getProfile().timeUs(results.back().getShape(), Forward, mayScale);
}

std::optional<int64_t> ProfiledOp::getMeasuredBytes(unsigned result,
                                                    ArrayRef<RankedTensorType> results) {
  if (result == getOutputs().size()) // nobody keeps what no backward pass reads
    return getSaved().use_empty() ? 0 : getProfile().bytes(results.back().getShape(), Saved);
  if (result > getOutputs().size())
    return getProfile().bytes(results.back().getShape(), ForwardWorkspace);
  return std::nullopt;
}

std::optional<double> ProfiledBackwardOp::getMeasuredUs(ArrayRef<RankedTensorType>,
                                                        ArrayRef<RankedTensorType> results,
                                                        bool mayScale) {
  return getProfile().timeUs(results.back().getShape(), Backward, mayScale);
}

std::optional<int64_t> ProfiledBackwardOp::getMeasuredBytes(unsigned result,
                                                            ArrayRef<RankedTensorType> results) {
  if (result < getGradients().size())
    return std::nullopt;
  return getProfile().bytes(results.back().getShape(), BackwardWorkspace);
}

std::optional<double> ProfiledWeightGradientOp::getMeasuredUs(ArrayRef<RankedTensorType>,
                                                              ArrayRef<RankedTensorType> results,
                                                              bool mayScale) {
  double us = getProfile().timeUs(results.back().getShape(), WeightGradient, mayScale);
  if (getWhole())
    us += getProfile().timeUs(results.back().getShape(), Backward, mayScale);
  return us;
}

std::optional<int64_t>
ProfiledWeightGradientOp::getMeasuredBytes(unsigned result, ArrayRef<RankedTensorType> results) {
  if (result == 0)
    return std::nullopt;
  return getProfile().bytes(results.back().getShape(), BackwardWorkspace);
}

//===-- Verification -------------------------------------------------------------------------===//

/// Whole or local: samples, and a dimension for each choice.
static LogicalResult checkOwn(Operation *op, ProfileAttr profile, Value value, StringRef what) {
  if (rankOf(value) == 1 + static_cast<int64_t>(profile.getChoices().size()))
    return success();
  return op->emitOpError() << "expects its " << what << " to have a dimension of samples and one "
                           << "for each of " << profile.getChoices().size() << " choices";
}

/// Every choice must speak of as many inputs and outputs as there are.
static LogicalResult checkChoices(Operation *op, ProfileAttr profile, int64_t inputs,
                                  int64_t outputs) {
  for (auto choice : profile.getChoices().getAsRange<ProfileChoiceAttr>())
    if ((inputs >= 0 && choice.getInputs().size() != inputs) ||
        (outputs >= 0 && choice.getOutputs().size() != outputs))
      return op->emitOpError() << "has other inputs and outputs than choice " << choice.getName()
                               << " of its profile";
  return success();
}

LogicalResult ProfiledOp::verify() {
  if (failed(checkOwn(*this, getProfile(), getSaved(), "saved value")) ||
      failed(checkOwn(*this, getProfile(), getWorkspace(), "workspace")))
    return failure();
  return checkChoices(*this, getProfile(), getInputs().size(), getOutputs().size());
}

LogicalResult ProfiledBackwardOp::verify() {
  if (failed(checkOwn(*this, getProfile(), getSaved(), "saved value")) ||
      failed(checkOwn(*this, getProfile(), getWorkspace(), "workspace")))
    return failure();
  if (getInputs().size() != getGradients().size())
    return emitOpError() << "gives " << getGradients().size() << " gradients of "
                         << getInputs().size() << " inputs";
  return checkChoices(*this, getProfile(), -1, getCotangents().size());
}

LogicalResult ProfiledWeightGradientOp::verify() {
  if (failed(checkOwn(*this, getProfile(), getSaved(), "saved value")) ||
      failed(checkOwn(*this, getProfile(), getWorkspace(), "workspace")))
    return failure();
  return checkChoices(*this, getProfile(), -1, getCotangents().size());
}
