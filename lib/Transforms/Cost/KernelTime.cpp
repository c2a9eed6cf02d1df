// SPDX-License-Identifier: Apache-2.0
// See the header. The same sums as ProgramBuilder::describe makes: FLOPs of all that a kernel
// holds, bytes of all that it reads and writes, the type of its first operand.
#include "KernelTime.h"

#include "OpTime.h"

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "autopar/Interfaces/CostInterface.h"
#include "autopar/Interfaces/ElementTypes.h"
#include "autopar/Transforms/InPlace.h"
#include "autopar/Transforms/KernelBytes.h"
#include "autopar/Transforms/Sharding.h"

using namespace mlir;
using namespace mlir::autopar;

KernelTime::KernelTime(const ::autopar::Cluster &cluster, const ::autopar::Mesh &mesh,
                       bool convolves, Known *known)
    : cluster(cluster), mesh(mesh), device(cluster.slowestOf(mesh.devices)), convolves(convolves),
      known(known) {}

static SmallVector<RankedTensorType> typesOf(ValueRange values) {
  return llvm::map_to_vector(values, [](Value value) { return tensorTypeOf(value); });
}

static ::autopar::CollectiveKind costKindOf(CollectiveKind kind) {
  switch (kind) {
  case CollectiveKind::AllReduce:
    return ::autopar::CollectiveKind::AllReduce;
  case CollectiveKind::AllGather:
    return ::autopar::CollectiveKind::AllGather;
  case CollectiveKind::ReduceScatter:
    return ::autopar::CollectiveKind::ReduceScatter;
  case CollectiveKind::AllToAll:
    return ::autopar::CollectiveKind::AllToAll;
  case CollectiveKind::Permute:
    return ::autopar::CollectiveKind::Permute;
  }
  llvm_unreachable("all kinds are listed");
}

const ::autopar::MeshGroup &KernelTime::groupOf(CollectiveOpInterface op) {
  std::vector<std::string> axes;
  for (Attribute axis : op.getAxes())
    axes.push_back(cast<StringAttr>(axis).str());
  auto group = groups.find(axes);
  if (group == groups.end())
    group = groups.emplace(axes, ::autopar::meshGroup(cluster, mesh, axes)).first;
  return group->second;
}

double KernelTime::copyUs(RankedTensorType type) const {
  return ::autopar::opTimeUs(0, 2 * static_cast<double>(tensorBytes(type)),
                             dataTypeOf(type.getElementType()), device);
}

/// Whether it reads what is carried from one micro-batch to the next.
static bool readsCarried(Operation *op) {
  return llvm::any_of(op->getOperands(),
                      [](Value operand) { return operand.getDefiningOp<CarriedOp>() != nullptr; });
}

KernelTime::Parts KernelTime::of(Operation *op, bool isFirst) {
  // Whether it writes over what it changes depends on who reads that behind it.
  if (!known || changesFirstOperand(op) || (isFirst && readsCarried(op)))
    return newTimeOf(op, isFirst);
  auto [time, isNew] = known->try_emplace(op);
  if (isNew)
    time->second = newTimeOf(op, false);
  return time->second;
}

KernelTime::Parts KernelTime::newTimeOf(Operation *op, bool isFirst) {
  Parts parts;
  auto collective = dyn_cast<CollectiveOpInterface>(op);
  if (!collective) {
    parts.beforeUs = kernelUs(op, isFirst);
    return parts;
  }
  RankedTensorType input = tensorTypeOf(op->getOperand(0)), output = tensorTypeOf(op->getResult(0));
  const ::autopar::MeshGroup &group = groupOf(collective);
  parts.spansNodes = group.spansNodes();
  ::autopar::CollectiveKind kind = costKindOf(collective.getCollectiveKind());
  auto bytes = static_cast<double>(std::max(tensorBytes(input), tensorBytes(output)));
  parts.collectiveUs = ::autopar::collectiveTimeUs(kind, bytes, group);
  if (device.communicatesWhileIdle)
    parts.lossUs = ::autopar::computeLossUs(kind, bytes, group);
  if (auto dim = collective.getSplitDimension(); dim && !isOutermost(input.getShape(), *dim))
    parts.beforeUs = copyUs(input);
  if (auto dim = collective.getJoinedDimension(); dim && !isOutermost(output.getShape(), *dim))
    parts.afterUs = copyUs(output);
  return parts;
}

double KernelTime::kernelUs(Operation *op, bool isFirst) const {
  double flops = 0;
  ::autopar::Work work = ::autopar::Work::Product;
  std::optional<double> measured;
  SmallVector<RankedTensorType> read = typesOf(op->getOperands()), made = typesOf(op->getResults());
  auto bytes = static_cast<double>(kernelBytes(op, read, made, changesInPlace(op)));
  for (OpOperand &operand : op->getOpOperands())
    if (isFirst && operand.get().getDefiningOp<CarriedOp>())
      bytes -= static_cast<double>(touchedBytes(op, operand.getOperandNumber(), read, made));
  op->walk([&](CostOpInterface inner) {
    SmallVector<RankedTensorType> operands = typesOf(inner->getOperands()),
                                  results = typesOf(inner->getResults());
    if (auto us = inner.getMeasuredUs(operands, results, /*mayScale=*/false))
      measured = measured.value_or(0) + *us;
    flops += inner.getFlops(operands, results);
    if (::autopar::Work own = workOf(inner); own != ::autopar::Work::Product)
      work = own;
  });
  if (measured)
    return *measured;
  if (!convolves && bytes > 0)
    if (double us = convolutionUs(op); us > 0)
      return us;
  Value first = op->getNumOperands() ? op->getOperand(0) : op->getResult(0);
  return ::autopar::opTimeUs(flops, bytes, dataTypeOf(tensorTypeOf(first).getElementType()), device,
                             work);
}

/// Of a group around a convolution: its kernel, and one for the rest. 0 for any other operation.
double KernelTime::convolutionUs(Operation *op) const {
  auto group = dyn_cast<GroupOp>(op);
  if (!group)
    return 0;
  auto found = group.getBody().front().getOps<ConvolutionOp>();
  if (found.empty() || llvm::range_size(group.getBody().front().without_terminator()) == 1)
    return 0;
  ConvolutionOp convolution = *found.begin();
  auto sizeOf = [](ValueRange values) {
    double bytes = 0;
    for (Value value : values)
      bytes += static_cast<double>(tensorBytes(tensorTypeOf(value)));
    return bytes;
  };
  double result = sizeOf(convolution->getResults()), inputs = sizeOf(convolution->getOperands());
  ::autopar::DataType type = dataTypeOf(convolution.getType().getElementType());
  double rest = sizeOf(op->getOperands()) - inputs + result + sizeOf(op->getResults());
  return ::autopar::opTimeUs(convolution.getFlops(typesOf(convolution->getOperands()),
                                                  typesOf(convolution->getResults())),
                             inputs + result, type, device) +
         ::autopar::opTimeUs(0, std::max(rest, 0.0), type, device);
}
