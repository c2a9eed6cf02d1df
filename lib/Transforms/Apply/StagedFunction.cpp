// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "StagedFunction.h"

using namespace mlir;
using namespace mlir::autopar;

StagedFunction::StagedFunction(func::FuncOp function)
    : function(function), microBatches(function.getBody().front()), stages(function),
      phases(function.getBody().front()) {
  Block &block = function.getBody().front();
  for (auto transfer : block.getOps<TransferOp>())
    numbers[transfer] = numbers.size();
  for (Operation &op : llvm::reverse(block.without_terminator()))
    if (microBatches.phaseOf(&op) == MicroBatchPhase::Before &&
        llvm::any_of(op.getUsers(), [&](Operation *user) {
          return microBatches.phaseOf(user) == MicroBatchPhase::Each || beforeAll.contains(user);
        }))
      beforeAll.insert(&op);
  llvm::append_range(meshes, function->getParentOfType<ModuleOp>().getOps<MeshOp>());
}

LogicalResult StagedFunction::findRoutes(const ::autopar::Schedule &schedule) {
  for (auto transfer : function.getBody().front().getOps<TransferOp>()) {
    if (!transfer.getFrom())
      continue;
    if (int64_t(meshes.size()) < schedule.meshes)
      return transfer.emitOpError()
             << "has shardings on " << schedule.meshes << " meshes, of which the module declares "
             << meshes.size() << "; expected an autopar.mesh for each of them";
    MeshOp near = meshes[schedule.meshOf(stages.of(transfer.getInput()))];
    MeshOp far = meshes[schedule.meshOf(transfer.getStage())];
    FailureOr<TransferRoute> route = transferRoute(transfer, near, far);
    if (failed(route))
      return failure();
    routes[transfer] = std::move(*route);
  }
  return success();
}

std::optional<TransferRoute> StagedFunction::routeOfMetric(int64_t rank, int64_t from,
                                                           int64_t to) const {
  if (meshes.empty())
    return std::nullopt;
  MeshOp near = meshes[from], far = meshes[to];
  if (near.getSizes() == far.getSizes())
    return std::nullopt;
  TensorSharding whole = TensorSharding::replicated(rank);
  return transferRoute(SmallVector<int64_t>(rank, 1), whole, near, whole, far);
}

int64_t StagedFunction::tagOf(Operation *transfer, int64_t microBatch) const {
  return numbers.lookup(transfer) * (microBatches.count() + 1) + microBatch + 1;
}

int64_t StagedFunction::tagOfMetric(unsigned result, int64_t mesh) const {
  return static_cast<int64_t>(numbers.size()) * (microBatches.count() + 1) +
         result * stages.count() + mesh;
}
