// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "OpTime.h"

#include "autopar/Cost/CostModel.h"
#include "autopar/Interfaces/CostInterface.h"
#include "autopar/Interfaces/ElementTypes.h"
#include "autopar/Transforms/InPlace.h"
#include "autopar/Transforms/KernelBytes.h"
#include "autopar/Transforms/Sharding.h"
#include "autopar/Transforms/TrainingEpilogues.h"

using namespace mlir;
using namespace mlir::autopar;

int64_t mlir::autopar::bytesOf(Operation *op, unsigned index, ArrayRef<RankedTensorType> results) {
  if (auto cost = dyn_cast<CostOpInterface>(op))
    if (std::optional<int64_t> measured = cost.getMeasuredBytes(index, results))
      return *measured;
  return tensorBytes(results[index]);
}

::autopar::Work mlir::autopar::workOf(CostOpInterface op) {
  switch (op.getWork()) {
  case Work::Product:
    return ::autopar::Work::Product;
  case Work::Attention:
    return ::autopar::Work::Attention;
  case Work::AttentionGradient:
    return ::autopar::Work::AttentionGradient;
  }
  llvm_unreachable("a kind of work");
}

/// Of an operation that changes its first operand in places alone: what is touched of it.
static double trafficBytesOf(Operation *op, ArrayRef<RankedTensorType> operands,
                             ArrayRef<RankedTensorType> results, const KernelTraffic &traffic) {
  if (changesFirstOperand(op))
    return static_cast<double>(kernelBytes(op, operands, results, changesInPlace(op)));
  double bytes = 0;
  for (auto [index, share] : llvm::enumerate(traffic.reads))
    bytes += share * static_cast<double>(touchedBytes(op, index, operands, results));
  for (auto [type, share] : llvm::zip_equal(results, traffic.writes))
    bytes += share * static_cast<double>(tensorBytes(type));
  return bytes;
}

/// Of a light operation, which is part of another's kernel: at most as many elements of an operand
/// as it has.
static double lightBytesOf(ArrayRef<RankedTensorType> operands, ArrayRef<RankedTensorType> results,
                           const KernelTraffic &traffic) {
  auto written = static_cast<double>(tensorBytes(results.front()));
  double bytes = traffic.writes.front() * written;
  for (auto [type, share] : llvm::zip_equal(operands, traffic.reads))
    bytes += share * std::min(static_cast<double>(tensorBytes(type)), written);
  return bytes;
}

double mlir::autopar::opTimeUs(Operation *op, ArrayRef<RankedTensorType> operands,
                               ArrayRef<RankedTensorType> results, const KernelTraffic &traffic,
                               const ::autopar::DeviceType &device, bool mayScale) {
  double flops = 0;
  ::autopar::Work work = ::autopar::Work::Product;
  auto cost = dyn_cast<CostOpInterface>(op);
  if (cost)
    if (std::optional<double> measured = cost.getMeasuredUs(operands, results, mayScale))
      return *measured;
  if (auto bytes = op->getAttrOfType<IntegerAttr>(kInProduct)) {
    RankedTensorType made = results.front();
    return ::autopar::opTimeUs(0, static_cast<double>(bytes.getInt() * made.getNumElements()),
                               dataTypeOf(made.getElementType()), device) -
           device.launchUs;
  }
  if (cost)
    flops = cost.getFlops(operands, results);
  ::autopar::DataType type =
      dataTypeOf((operands.empty() ? results : operands).front().getElementType());
  if (cost && cost.isLight())
    return ::autopar::opTimeUs(0, lightBytesOf(operands, results, traffic), type, device) -
           device.launchUs;
  double bytes = trafficBytesOf(op, operands, results, traffic);
  int64_t ahead = 0;
  if (cost) {
    type = dataTypeOf(cost.getFlopsType(operands, results));
    ahead = cost.getBytesAhead(operands);
    work = workOf(cost);
  }
  double time = ::autopar::opTimeUs(flops, bytes, type, device, work);
  return ahead == 0 ? time
                    : time + ::autopar::opTimeUs(0, static_cast<double>(ahead), type, device);
}

double mlir::autopar::wholeTimeUs(Operation *op, const ::autopar::DeviceType &device) {
  auto types = [](auto values) {
    SmallVector<RankedTensorType> list;
    for (Value value : values)
      list.push_back(tensorTypeOf(value));
    return list;
  };
  return opTimeUs(op, types(op->getOperands()), types(op->getResults()), kernelTrafficOf(op),
                  device, /*mayScale=*/true);
}
