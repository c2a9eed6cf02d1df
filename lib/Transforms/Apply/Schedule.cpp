// SPDX-License-Identifier: Apache-2.0
// The pass autopar-schedule: what runs once per micro-batch is written out in the order of
// the schedule, for every mesh that stages take turns on a function of its own. Groups are cloned
// whole, so that every micro-batch runs the same kernels, whatever the schedule.
#include "MeshWriter.h"
#include "StepParts.h"

#include "autopar/Interfaces/RunSideBySide.h"
#include "autopar/Transforms/Passes.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_SCHEDULEPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::findRounds;
using ::autopar::Schedule;
using ::autopar::ScheduleRounds;
using ::autopar::UseRounds;

namespace {

struct SchedulePass : mlir::autopar::impl::SchedulePassBase<SchedulePass> {
  using Base::Base;

  void runOnOperation() override {
    auto function = getOperation().lookupSymbol<func::FuncOp>("main");
    if (!function || function.isExternal() || !function.getBody().hasOneBlock())
      return;
    if (failed(write(function)))
      signalPassFailure();
  }

private:
  LogicalResult write(func::FuncOp function) {
    StagedFunction source(function);
    if (failed(source.stages.verify()) || failed(verifyCarries(source)) ||
        failed(verifyResults(source)))
      return failure();
    if (source.numbers.empty() && source.stages.count() == 1 && source.microBatches.count() == 1)
      return success(); // nothing to write apart
    ::autopar::Result<Schedule> schedule = scheduleOf(function);
    if (!schedule)
      return function.emitOpError() << schedule.status().message();
    std::optional<UseRounds> use = ::autopar::useRoundsFromName(rounds);
    if (!use)
      return getOperation().emitError()
             << "rounds: expected auto, always or never, got \"" << rounds << "\"";
    std::vector<std::optional<ScheduleRounds>> found;
    for (int32_t mesh = 0; mesh < schedule->meshes; ++mesh)
      found.push_back(
          findRounds(*schedule, mesh, putsTogetherAtEnd(source) ? UseRounds::Never : *use));
    if (failed(source.phases.verifyDirection(source.stages, source.microBatches)) ||
        failed(source.findRoutes(*schedule)))
      return failure();
    std::unique_ptr<TimedStep> step; // null: nobody knows, or needs to
    std::vector<OverlappedCollectives> overlapped(schedule->meshes);
    if (schedule->microBatches > 1) {
      FailureOr<std::unique_ptr<TimedStep>> timed =
          timeStep(StepOrder(function), *schedule, cluster, target);
      if (failed(timed))
        return failure();
      step = std::move(*timed);
      if (step)
        overlapped = OverlappedCollectives::find(step->work, *schedule, step->times);
    }
    std::vector<std::unique_ptr<MeshWriter>> writers;
    for (int32_t mesh = 0; mesh < schedule->meshes; ++mesh)
      writers.push_back(
          std::make_unique<MeshWriter>(source, *schedule, found[mesh], overlapped[mesh], mesh));
    SmallVector<LogicalResult> written(writers.size(), failure());
    runSideBySide(getContext(), writers.size(), [&](size_t i) {
      std::optional<RowsTogether> together;
      if (step && runsRowsTogether(*schedule))
        together.emplace(step->work, step->times[i]);
      written[i] = writers[i]->write(together ? &*together : nullptr);
    });
    if (llvm::any_of(written, [](LogicalResult result) { return failed(result); }))
      return failure();
    function.erase();
    return success();
  }

  /// Whether something is put together on no stage: at the end, of all that micro-batches gave.
  static bool putsTogetherAtEnd(const StagedFunction &source) {
    return source.stages.count() > 1 &&
           llvm::any_of(source.function.getBody().front(), [&](Operation &op) {
             return MicroBatches::joins(&op) && source.stages.of(&op) == Stages::kNone;
           });
  }

  static bool runsRowsTogether(const Schedule &schedule) {
    return llvm::any_of(schedule.rows, [](const auto &rows) {
      return llvm::any_of(rows, [](const ::autopar::ScheduleRow &row) { return row.withNext; });
    });
  }

  /// A step has one of each result.
  static LogicalResult verifyResults(const StagedFunction &source) {
    Operation *end = source.function.getBody().front().getTerminator();
    for (OpOperand &result : end->getOpOperands()) {
      Operation *op = result.get().getDefiningOp();
      if (op && source.microBatches.phaseOf(op) == MicroBatchPhase::Each &&
          !MicroBatches::joins(op))
        return op->emitOpError() << "gives result " << result.getOperandNumber()
                                 << " anew in every micro-batch; expected an operation that puts "
                                    "them together, such as autopar.stack_micro_batches";
    }
    return success();
  }

  /// What a micro-batch finds, the one before has handed on: one operation, of that type and on the
  /// stage that reads it.
  static LogicalResult verifyCarries(const StagedFunction &source) {
    Block &block = source.function.getBody().front();
    DenseMap<int64_t, CarryOp> carries;
    for (auto carry : block.getOps<CarryOp>())
      if (auto [it, isNew] = carries.try_emplace(carry.getNumber(), carry); !isNew) {
        InFlightDiagnostic error = carry.emitOpError()
                                   << "hands on number " << carry.getNumber() << " again";
        error.attachNote(it->second.getLoc()) << "the first one is here";
        return failure();
      }
    for (auto carried : block.getOps<CarriedOp>()) {
      CarryOp carry = carries.lookup(carried.getNumber());
      if (!carry || carry.getType() != carried.getType())
        return carried.emitOpError() << "expected one autopar.carry of number "
                                     << carried.getNumber() << " and type " << carried.getType();
      for (Operation *user : carried->getUsers())
        if (source.stages.of(user) != source.stages.of(carry.getOperation()))
          return carried.emitOpError()
                 << "is read on stage " << source.stages.of(user) << ", but handed on by stage "
                 << source.stages.of(carry.getOperation());
    }
    return success();
  }
};

} // namespace
