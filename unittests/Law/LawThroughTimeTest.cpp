// SPDX-License-Identifier: Apache-2.0
// The law through time: steps in micro-batches, in stages, and with parts computed again give what
// the whole step gives on one rank.
#include "Law.h"

#include "autopar/Pipelines/Pipelines.h"
#include "autopar/Transforms/Stages.h"
#include "mlir/Pass/PassManager.h"

#include <cstdio>
#include <random>

using namespace mlir;
using namespace autopar_law;

namespace {

/// Of more than three a step repeats some, as rounds.
constexpr int kMicroBatches[] = {2, 3, 4, 6, 8, 12};
constexpr const char *kSchedules[] = {"gpipe", "1f1b", "eager-1f1b", "zero-bubble",
                                      "overlapped-1f1b"};

/// Cuts a step in micro-batches, from where its inputs are on; false: it has too few operations.
bool cutStages(ModuleOp module, const mlir::autopar::AutoShardOptions &options) {
  auto function = module.lookupSymbol<func::FuncOp>("main");
  Builder builder(module.getContext());
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (!function.getArgAttr(i, "autopar.micro_batches") &&
        !function.getArgAttr(i, "autopar.donated"))
      function.setArgAttr(i, mlir::autopar::kStageAttribute, builder.getI64IntegerAttr(0));
  PassManager manager(module.getContext());
  mlir::autopar::buildPhase(manager, mlir::autopar::Phase::CutStages, options, {});
  return succeeded(manager.run(module));
}

struct NotKept {
  size_t again = 0, onHost = 0;
};

/// Names about two thirds of the operations of the forward pass: to be computed again, or to wait
/// in host memory. What is made of parameters alone does not wait.
NotKept keepLess(func::FuncOp function, uint64_t seed) {
  std::mt19937_64 random(seed);
  SmallVector<StringRef> again, onHost;
  DenseSet<Value> waiting;
  for (BlockArgument argument : function.getArguments())
    if (!function.getArgAttr(argument.getArgNumber(), "autopar.origin"))
      waiting.insert(argument);
  for (Operation &op : function.getBody().front().without_terminator()) {
    StringRef id = mlir::autopar::getOpId(&op);
    bool waits = llvm::any_of(op.getOperands(), [&](Value v) { return waiting.contains(v); });
    if (waits)
      waiting.insert_range(op.getResults());
    bool isFixed = isa<mlir::autopar::StackMicroBatchesOp, mlir::autopar::TransferOp,
                       mlir::autopar::MicroBatchOp>(op);
    uint64_t draw = random() % 3;
    if (id.empty() || id.contains("/vjp") || op.getNumOperands() == 0 || isFixed || draw == 0)
      continue;
    if (draw == 1)
      again.push_back(id);
    else if (waits)
      onHost.push_back(id);
  }
  Builder builder(function.getContext());
  function->setAttr("autopar.recompute", builder.getStrArrayAttr(again));
  function->setAttr("autopar.offload_activations", builder.getStrArrayAttr(onHost));
  return {again.size(), onHost.size()};
}

// The first input's first dimension is the batch; graphs in which samples depend on each other are
// refused and do not count.
TEST_F(Law, MicroBatchesComputeWhatTheWholeBatchComputes) {
  std::vector<std::string> ops = makerNames();
  int run = 0, inRounds = 0, failures = 0;
  for (uint64_t attempt = 0; run < std::max(20, caseCount() / 8) && attempt < 4000; ++attempt) {
    Case c{200000 + attempt,
           {ops[attempt % ops.size()], "", ""},
           1,
           1 + static_cast<int>(attempt % 4)};
    DrawnModule drawn = drawModule(context, c.seed, c.cell.op, c.size);
    if (!drawn.target)
      continue;
    mlir::autopar::AutoShardOptions options;
    options.microBatches = kMicroBatches[attempt % std::size(kMicroBatches)];
    PassManager manager(&context);
    mlir::autopar::buildPhase(manager, mlir::autopar::Phase::SplitMicroBatches, options, {});
    ScopedDiagnosticHandler quiet(&context, [](Diagnostic &) { return success(); });
    if (failed(manager.run(*drawn.module)))
      continue;
    ++run;
    inRounds += options.microBatches > 3;
    std::string why = differenceFromOneRank(c, *drawn.module);
    if (why.empty())
      continue;
    ADD_FAILURE() << c << ", " << options.microBatches.getValue() << " micro-batches: " << why;
    if (++failures >= 10)
      break;
  }
  std::printf("%d graphs in micro-batches, %d of them in rounds\n", run, inRounds);
  EXPECT_GE(inRounds, run / 4);
  EXPECT_GE(run, 20);
}

// Training steps in micro-batches under random plans, some in stages, on devices that wait for
// messages about as long as they compute: what is gathered or added up for all micro-batches goes
// on while one computes.
TEST_F(Law, ShardedMicroBatchesTrainLikeOneDevice) {
  std::vector<std::string> ops = makerNames();
  int run = 0, summed = 0, staged = 0, failures = 0;
  int wanted = std::max(20, caseCount() / 8);
  int mostWhole = wanted - wanted / 10; // the others in stages: few steps can be cut
  for (uint64_t attempt = 0; run < wanted && attempt < 4000; ++attempt) {
    int stages = attempt % 4 < 2 ? 1 : 2, ranks = attempt % 4 == 0 ? 2 : 4;
    if (stages == 1 && run - staged >= mostWhole)
      continue;
    Case c{600000 + attempt, {ops[attempt % ops.size()], "", ""}, ranks, 2 * stages};
    c.trains = true;
    DrawnModule drawn = draw(c);
    if (!drawn.module || !drawn.target)
      continue;
    mlir::autopar::AutoShardOptions options;
    options.microBatches = kMicroBatches[attempt % std::size(kMicroBatches)];
    options.mesh = ranks == 2 ? "x=2" : "x=2,y=2";
    if (stages > 1) {
      options.stages = stages;
      options.schedule = kSchedules[attempt / 4 % std::size(kSchedules)];
      options.mesh = attempt % 8 < 4 ? "x=2" : "x=2,y=1/x=1,y=2";
    }
    options.engine = "random";
    options.seed = c.seed;
    options.cluster = "presets:cpux" + std::to_string(ranks);
    PassManager splitter(&context), manager(&context);
    mlir::autopar::buildPhase(splitter, mlir::autopar::Phase::SplitMicroBatches, options, {});
    {
      ScopedDiagnosticHandler quiet(&context, [](Diagnostic &) { return success(); });
      if (failed(splitter.run(*drawn.module)) || (stages > 1 && !cutStages(*drawn.module, options)))
        continue;
    }
    for (auto phase : {mlir::autopar::Phase::Search, mlir::autopar::Phase::Annotate,
                       mlir::autopar::Phase::InsertReshards})
      mlir::autopar::buildPhase(manager, phase, options, {});
    mlir::autopar::buildPartitionPipeline(manager);
    bool isPlanned = succeeded(manager.run(*drawn.module));
    waitForMessages(*drawn.module);
    ++run;
    staged += stages > 1;
    drawn.module->walk([&](mlir::autopar::AccumulateOp sum) {
      bool isSummed = llvm::any_of(sum->getUsers(), [](Operation *user) {
        return isa<mlir::autopar::CollectiveOpInterface>(user);
      });
      summed += isSummed;
      return isSummed ? WalkResult::interrupt() : WalkResult::advance();
    });
    std::string why = isPlanned ? differenceFromOneRank(c, *drawn.module) : "no plan";
    if (why.empty())
      continue;
    ADD_FAILURE() << c << ", " << options.microBatches.getValue() << " micro-batches, " << stages
                  << " stages, " << options.schedule.getValue() << ": " << why;
    if (++failures >= 10)
      break;
  }
  std::printf("%d training steps in micro-batches, %d of them with sums over ranks, %d in stages\n",
              run, summed, staged);
  EXPECT_GE(run, 20);
  EXPECT_GE(summed, run / 4);
  EXPECT_GE(staged, run / 20);
}

// Arguments lie on stages drawn at random, so that values and derivatives go to and fro between
// them; half of the graphs are training steps, some of the others go in micro-batches.
TEST_F(Law, StagesComputeWhatOneDeviceComputes) {
  std::vector<std::string> ops = makerNames();
  int run = 0, sent = 0, split = 0, inRounds = 0, onHost = 0, failures = 0;
  for (uint64_t attempt = 0; run < std::max(20, caseCount() / 8) && attempt < 4000; ++attempt) {
    Case c{300000 + attempt,
           {ops[attempt % ops.size()], "", ""},
           2 + static_cast<int>(attempt % 3),
           1 + static_cast<int>(attempt % 4)};
    // Drawn, so that every operation meets every kind.
    uint64_t kind = std::mt19937_64(attempt)();
    bool splits = kind % 4 == 2 || kind % 8 == 0;
    c.trains = kind % 2;
    c.states = static_cast<StateKind>(kind / 8 % 3);
    DrawnModule drawn = draw(c);
    if (!drawn.module || !drawn.target)
      continue;
    auto function = drawn.module->lookupSymbol<func::FuncOp>("main");
    ScopedDiagnosticHandler quiet(&context, [](Diagnostic &) { return success(); });
    mlir::autopar::AutoShardOptions options;
    options.stages = c.ranks;
    options.schedule = kSchedules[attempt % std::size(kSchedules)];
    options.cluster = "presets:cpux" + std::to_string(c.ranks);
    OpBuilder builder(&context);
    if (splits) {
      options.microBatches = attempt % 3 ? 2 : 8;
      PassManager splitter(&context);
      mlir::autopar::buildPhase(splitter, mlir::autopar::Phase::SplitMicroBatches, options, {});
      if (failed(splitter.run(*drawn.module)))
        continue;
    }
    // Stages are anchored at what is the same in all micro-batches; without them, anywhere.
    std::mt19937_64 random(c.seed);
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (!(splits && function.getArgAttr(i, "autopar.micro_batches")) &&
          !function.getArgAttr(i, "autopar.donated"))
        function.setArgAttr(i, mlir::autopar::kStageAttribute,
                            builder.getI64IntegerAttr(splits ? 0 : random() % c.ranks));
    PassManager manager(&context);
    mlir::autopar::buildPhase(manager, mlir::autopar::Phase::CutStages, options, {});
    if (failed(manager.run(*drawn.module)))
      continue; // too few operations
    builder.setInsertionPointToStart(drawn.module->getBody());
    for (int64_t rank = 0; rank < c.ranks; ++rank)
      mlir::autopar::MeshOp::create(builder, function.getLoc(), "m" + std::to_string(rank),
                                    builder.getStrArrayAttr({}), ArrayRef<int64_t>{},
                                    builder.getDenseI64ArrayAttr({rank}));
    sent += !function.getOps<mlir::autopar::TransferOp>().empty();
    split += splits;
    inRounds += splits && options.microBatches > 2;
    ++run;
    if (c.trains && kind / 32 % 2)
      onHost += keepLess(function, c.seed).onHost > 0;
    std::string why = differenceFromOneRank(c, *drawn.module);
    if (why.empty())
      continue;
    ADD_FAILURE() << c << ", " << options.schedule.getValue() << ", "
                  << options.microBatches.getValue() << " micro-batches: " << why;
    if (++failures >= 10)
      break;
  }
  std::printf("%d graphs in stages, %d with messages, %d in micro-batches, %d of them in rounds, "
              "%d with activations on the host\n",
              run, sent, split, inRounds, onHost);
  EXPECT_GE(run, 20);
  EXPECT_GE(sent, run / 2);
  EXPECT_GE(split, run / 20);
  EXPECT_GE(inRounds, 1);
  EXPECT_GE(onHost, run / 20);
}

// Two stages, each on a mesh of its own size, under sharding plans drawn at random: what goes from
// one to the other is cut anew on the way.
TEST_F(Law, StagesOnMeshesOfDifferentSizesComputeWhatOneDeviceComputes) {
  constexpr std::pair<int, const char *> shapes[] = {
      {3, "x=1/x=2"}, {3, "x=2/x=1"}, {4, "x=1/x=3"},         {4, "x=2,y=1/x=1,y=2"},
      {5, "x=2/x=3"}, {5, "x=4/x=1"}, {6, "x=2,y=2/x=1,y=2"},
  };
  std::vector<std::string> ops = makerNames();
  int run = 0, sent = 0, trained = 0, failures = 0;
  for (uint64_t attempt = 0; run < std::max(20, caseCount() / 8) && attempt < 4000; ++attempt) {
    auto [ranks, shape] = shapes[attempt % std::size(shapes)];
    Case c{500000 + attempt,
           {ops[attempt % ops.size()], "", ""},
           ranks,
           1 + static_cast<int>(attempt % 4)};
    uint64_t kind = std::mt19937_64(attempt)();
    c.trains = kind % 2;
    c.states = static_cast<StateKind>(kind / 8 % 3);
    DrawnModule drawn = draw(c);
    if (!drawn.module || !drawn.target)
      continue;
    auto function = drawn.module->lookupSymbol<func::FuncOp>("main");
    ScopedDiagnosticHandler quiet(&context, [](Diagnostic &) { return success(); });
    mlir::autopar::AutoShardOptions options;
    options.stages = 2;
    options.mesh = shape;
    options.engine = "random";
    options.seed = c.seed;
    options.cluster = "presets:cpux" + std::to_string(ranks);
    OpBuilder builder(&context);
    std::mt19937_64 random(c.seed);
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (!function.getArgAttr(i, "autopar.donated"))
        function.setArgAttr(i, mlir::autopar::kStageAttribute,
                            builder.getI64IntegerAttr(random() % 2));
    PassManager cutter(&context);
    mlir::autopar::buildPhase(cutter, mlir::autopar::Phase::CutStages, options, {});
    if (failed(cutter.run(*drawn.module)))
      continue; // too few operations
    PassManager manager(&context);
    for (auto phase : {mlir::autopar::Phase::Search, mlir::autopar::Phase::Annotate,
                       mlir::autopar::Phase::InsertReshards})
      mlir::autopar::buildPhase(manager, phase, options, {});
    mlir::autopar::buildPartitionPipeline(manager);
    ++run;
    trained += c.trains;
    std::string why =
        succeeded(manager.run(*drawn.module)) ? differenceFromOneRank(c, *drawn.module) : "no plan";
    sent += !drawn.module->lookupSymbol<func::FuncOp>("main")
                 .getOps<mlir::autopar::TransferOp>()
                 .empty();
    if (why.empty())
      continue;
    ADD_FAILURE() << c << ", meshes " << shape << ": " << why;
    if (++failures >= 10)
      break;
  }
  std::printf("%d graphs on unequal meshes, %d with messages, %d training\n", run, sent, trained);
  EXPECT_GE(run, 20);
  EXPECT_GE(sent, run / 2);
  EXPECT_GE(trained, run / 5);
}

// Training steps under random plans; what is computed again, or fetched from host memory, is the
// same to the last bit.
TEST_F(Law, KeepingLessForTheBackwardPassDoesNotChangeABit) {
  std::vector<Cell> cells = allCells();
  int wanted = std::max(8, caseCount() / 40), run = 0, again = 0, onHost = 0;
  for (uint64_t attempt = 0; run < wanted && attempt < 20000; ++attempt) {
    Case c{400000 + attempt, cells[(attempt * 11) % cells.size()],
           1 + static_cast<int>(attempt % 3), 2 + static_cast<int>(attempt % 3)};
    c.trains = true;
    OwningOpRef<ModuleOp> module = c.ranks == 1 ? draw(c).module.release() : partitioned(c);
    if (!module)
      continue;
    ++run;
    ScopedDiagnosticHandler quiet(&context, [](Diagnostic &diagnostic) {
      return success(diagnostic.getSeverity() != DiagnosticSeverity::Error);
    });
    ::autopar::Result<std::vector<Output>> kept = runModule(*module, c.seed);
    NotKept named = keepLess(module->lookupSymbol<func::FuncOp>("main"), c.seed);
    ::autopar::Result<std::vector<Output>> less = runModule(*module, c.seed);
    ASSERT_TRUE(kept.isOk()) << c << ": " << kept.status().message();
    ASSERT_TRUE(less.isOk()) << c << ": " << less.status().message();
    EXPECT_EQ(firstDifference(*kept, *less, 0), "") << c;
    again += named.again > 0;
    onHost += named.onHost > 0;
  }
  std::printf("%d training steps, %d of them with recomputation, %d with activations on the host\n",
              run, again, onHost);
  EXPECT_GE(run, wanted);
  EXPECT_GE(again, run / 2);
  EXPECT_GE(onHost, run / 2);
}

} // namespace
