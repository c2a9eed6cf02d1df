// SPDX-License-Identifier: Apache-2.0
// See the header. The same sums as ProgramBuilder::describe makes: FLOPs of all that a kernel
// holds, bytes of all that it reads and writes, the type of its first operand.
#include "KernelTime.h"

#include "OpTime.h"

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "autopar/Interfaces/CostInterface.h"
#include "autopar/Interfaces/ElementTypes.h"
#include "autopar/Transforms/Sharding.h"

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::CollectiveKind;

KernelTime::KernelTime(const ::autopar::Cluster &cluster, const ::autopar::Mesh &mesh,
                       bool convolves)
    : cluster(cluster), mesh(mesh), device(cluster.slowestOf(mesh.devices)), convolves(convolves) {}

static SmallVector<RankedTensorType> typesOf(ValueRange values) {
  return llvm::map_to_vector(values, [](Value value) { return tensorTypeOf(value); });
}

/// Whether parts of this dimension lie one after the other.
static bool isOutermost(Value value, int64_t dim) {
  return llvm::all_of(tensorTypeOf(value).getShape().take_front(dim),
                      [](int64_t extent) { return extent == 1; });
}

double KernelTime::collectiveUs(CollectiveKind kind, Operation *op, double bytes) {
  std::vector<std::string> axes;
  for (Attribute axis : op->getAttrOfType<ArrayAttr>("axes"))
    axes.push_back(cast<StringAttr>(axis).str());
  auto group = groups.find(axes);
  if (group == groups.end())
    group = groups.emplace(axes, ::autopar::meshGroup(cluster, mesh, axes)).first;
  return ::autopar::collectiveTimeUs(kind, bytes, group->second);
}

double KernelTime::copyUs(RankedTensorType type) const {
  return ::autopar::opTimeUs(0, 2 * static_cast<double>(bytesOf(type)),
                             dataTypeOf(type.getElementType()), device);
}

KernelTime::Parts KernelTime::of(Operation *op, bool isFirst) {
  Parts parts;
  if (!isa<AllReduceOp, AllGatherOp, ReduceScatterOp, AllToAllOp>(op)) {
    parts.beforeUs = kernelUs(op, isFirst);
    return parts;
  }
  auto input = static_cast<double>(bytesOf(tensorTypeOf(op->getOperand(0)))),
       output = static_cast<double>(bytesOf(tensorTypeOf(op->getResult(0))));
  if (auto gather = dyn_cast<AllGatherOp>(op)) {
    parts.collectiveUs = collectiveUs(CollectiveKind::AllGather, op, output);
    if (!isOutermost(gather.getInput(), gather.getDim()))
      parts.afterUs = copyUs(tensorTypeOf(op->getResult(0)));
  } else if (auto scatter = dyn_cast<ReduceScatterOp>(op)) {
    parts.collectiveUs = collectiveUs(CollectiveKind::ReduceScatter, op, input);
    if (!isOutermost(scatter.getInput(), scatter.getDim()))
      parts.beforeUs = copyUs(tensorTypeOf(op->getOperand(0)));
  } else if (auto exchange = dyn_cast<AllToAllOp>(op)) {
    parts.collectiveUs = collectiveUs(CollectiveKind::AllToAll, op, input);
    if (!isOutermost(exchange.getInput(), exchange.getSplitDim()))
      parts.beforeUs = copyUs(tensorTypeOf(op->getOperand(0)));
    if (!isOutermost(exchange.getResult(), exchange.getConcatDim()))
      parts.afterUs = copyUs(tensorTypeOf(op->getResult(0)));
  } else {
    parts.collectiveUs = collectiveUs(CollectiveKind::AllReduce, op, input);
  }
  return parts;
}

double KernelTime::kernelUs(Operation *op, bool isFirst) const {
  double bytes = 0, flops = 0;
  std::optional<double> measured;
  for (Value operand : op->getOperands())
    if (!isFirst || !operand.getDefiningOp<CarriedOp>())
      bytes += static_cast<double>(bytesOf(tensorTypeOf(operand)));
  for (Value result : op->getResults())
    bytes += static_cast<double>(bytesOf(tensorTypeOf(result)));
  op->walk([&](CostOpInterface inner) {
    SmallVector<RankedTensorType> operands = typesOf(inner->getOperands()),
                                  results = typesOf(inner->getResults());
    if (auto us = inner.getMeasuredUs(operands, results, /*mayScale=*/false))
      measured = measured.value_or(0) + *us;
    flops += inner.getFlops(operands, results);
  });
  if (measured)
    return *measured;
  if (!convolves && bytes > 0)
    if (double us = convolutionUs(op); us > 0)
      return us;
  Value first = op->getNumOperands() ? op->getOperand(0) : op->getResult(0);
  return ::autopar::opTimeUs(flops, bytes, dataTypeOf(tensorTypeOf(first).getElementType()),
                             device);
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
      bytes += static_cast<double>(bytesOf(tensorTypeOf(value)));
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
