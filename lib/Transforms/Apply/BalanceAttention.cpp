// SPDX-License-Identifier: Apache-2.0
// The pass autopar-balance-attention: where the rows of a triangle are split among ranks, each
// computes a part early in it and one late.
//
// Of n ranks, rank i holds the chunks 2i and 2i + 1 of 2n. It computes the chunks i and
// 2n - 1 - i, which together see as many keys as those of any other rank. Chunks of even numbers go
// to ranks that all differ, and so do the others: one permutation for the first halves, and one for
// the second.
#include "Cost/BalancedAttention.h"
#include "Cost/ModuleCluster.h"
#include "Cost/OpTime.h"
#include "Stages/MadeFrom.h"

#include "autopar/Transforms/LibraryAttention.h"
#include "autopar/Transforms/Passes.h"
#include "autopar/Transforms/Sharding.h"
#include "mlir/IR/IRMapping.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_BALANCEATTENTIONPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {

constexpr int64_t kRows = 2; ///< the dimension, of all that has rows

/// The chunks that each rank computes, and how they come there.
struct Chunks {
  /// Of the first halves, and of the second: by rank, the chunk, whose half it is, and who computes
  /// the half of this rank.
  SmallVector<int64_t> numbers[2], sources[2], targets[2];

  explicit Chunks(int64_t ranks) {
    for (int64_t half : {0, 1}) {
      targets[half].resize(ranks);
      for (int64_t rank = 0; rank < ranks; ++rank) {
        int64_t own = rank % 2 == half ? rank : 2 * ranks - 1 - rank;
        numbers[half].push_back(own);
        sources[half].push_back(own / 2);
        targets[half][own / 2] = rank;
      }
    }
  }
};

/// Operands and results of an operation that have the rows.
template <typename Attention>
constexpr std::array<unsigned, 1> kRowOperands = {0};
template <>
constexpr std::array<unsigned, 4> kRowOperands<AttentionGradOp> = {0, 3, 4, 5};

class Balancer {
public:
  Balancer(const ::autopar::Cluster &cluster, Target target, int64_t chip, MLIRContext *context)
      : cluster(cluster), target(target), chip(chip), builder(context) {}

  void run(func::FuncOp function) {
    for (Operation &op : llvm::make_early_inc_range(function.getBody().front()))
      if (auto attention = dyn_cast<AttentionOp>(op))
        balance(attention);
      else if (auto gradient = dyn_cast<AttentionGradOp>(op))
        balance(gradient);
    // A gradient reads what attention gave where that is, so the rows need not come back for it.
    for (Balanced &one : llvm::reverse(balanced))
      join(one);
  }

private:
  using Halves = std::array<Value, 2>;

  /// What takes the place of an operation.
  struct Balanced {
    Operation *op;
    std::array<Operation *, 2> halves;
    ShardIndexOp index;
    Chunks chunks;
  };

  template <typename Attention>
  void balance(Attention op) {
    auto index = op.getShard() ? op.getShard().template getDefiningOp<ShardIndexOp>() : nullptr;
    if (!index || index.getNumbers() || !isLibraryAttention(target, chip, op) || !pays(op, index))
      return;
    builder.setInsertionPoint(op);
    Chunks chunks(*op.getParts());
    IRMapping mappings[2];
    for (unsigned number : kRowOperands<Attention>) {
      Halves halves = exchange(op, op->getOperand(number), index, chunks);
      for (int half : {0, 1})
        mappings[half].map(op->getOperand(number), halves[half]);
    }
    Balanced one{op, {}, index, chunks};
    for (int half : {0, 1}) {
      Value number =
          madeFrom(op, ShardIndexOp::create(builder, op.getLoc(), index.getType(),
                                            index.getMeshAttr(), index.getAxes(),
                                            builder.getDenseI64ArrayAttr(chunks.numbers[half])));
      mappings[half].map(op.getShard(), number);
      auto local = cast<Attention>(builder.clone(*op, mappings[half]));
      local.setParts(2 * *op.getParts());
      one.halves[half] = local;
      for (OpResult result : local->getResults())
        if (hasRows(op, result.getResultNumber()))
          result.setType(halfOf(tensorTypeOf(result)));
    }
    for (OpResult result : op->getResults())
      if (hasRows(op, result.getResultNumber()))
        known[result] = {one.halves[0]->getResult(result.getResultNumber()),
                         one.halves[1]->getResult(result.getResultNumber())};
    balanced.push_back(one);
  }

  /// By the cost model: attention with its gradients, which go where it goes.
  bool pays(AttentionOp op, ShardIndexOp index) const {
    double us = savedUs(op, index);
    for (Operation *user : op.getLogSum().getUsers())
      if (auto gradient = dyn_cast<AttentionGradOp>(user))
        us += savedUs(gradient, index);
    return us > 0;
  }
  bool pays(AttentionGradOp op, ShardIndexOp index) const {
    return op.getLogSum().getDefiningOp<AttentionOp>() ? known.contains(op.getLogSum())
                                                       : savedUs(op, index) > 0;
  }

  /// Less than nothing where rows have no halves.
  template <typename Attention>
  double savedUs(Attention op, ShardIndexOp index) const {
    constexpr double never = -std::numeric_limits<double>::infinity();
    auto mesh = SymbolTable::lookupNearestSymbolFrom<MeshOp>(op, index.getMeshAttr());
    if (!mesh)
      return never;
    ::autopar::Mesh own = costMeshOf(mesh);
    std::vector<std::string> axes;
    for (StringAttr axis : index.getAxes().template getAsRange<StringAttr>())
      axes.push_back(axis.str());
    auto types = [](ValueRange values) {
      return llvm::map_to_vector(values, [](Value value) { return tensorTypeOf(value); });
    };
    SmallVector<RankedTensorType> operands = types(op->getOperands()),
                                  results = types(op->getResults());
    const ::autopar::DeviceType &device = cluster.slowestOf(own.devices);
    std::optional<double> us = balancedAttentionUs(op, operands, results, *op.getParts(), device,
                                                   ::autopar::meshGroup(cluster, own, axes));
    return us ? opTimeUs(op, operands, results, kernelTrafficOf(op), device) - *us : never;
  }

  /// The results of attention that have rows are both, those of its gradient the first.
  static bool hasRows(Operation *op, unsigned result) {
    return isa<AttentionOp>(op) || result == 0;
  }

  static RankedTensorType halfOf(RankedTensorType type) {
    SmallVector<int64_t> shape(type.getShape());
    shape[kRows] /= 2;
    return type.clone(shape);
  }

  /// Of two ranks the first halves stay where they are.
  Value permute(Operation *origin, Value value, ArrayRef<int64_t> sources, ShardIndexOp index) {
    if (llvm::is_sorted(sources))
      return value;
    return madeFrom(origin, PermuteOp::create(builder, origin->getLoc(), value.getType(), value,
                                              builder.getDenseI64ArrayAttr(sources),
                                              index.getMeshAttr(), index.getAxes()));
  }

  /// The halves of the rows that this rank computes with, of a value whose rows are split as
  /// `index` says.
  Halves exchange(Operation *origin, Value value, ShardIndexOp index, const Chunks &chunks) {
    auto [place, isNew] = known.try_emplace(value);
    if (!isNew)
      return place->second;
    Halves halves;
    RankedTensorType type = halfOf(tensorTypeOf(value));
    SmallVector<int64_t> starts(type.getRank(), 0), steps(type.getRank(), 1);
    for (int half : {0, 1}) {
      starts[kRows] = half * type.getDimSize(kRows);
      Value own =
          madeFrom(origin, SliceOp::create(builder, origin->getLoc(), type, value, starts, steps));
      halves[half] = permute(origin, own, chunks.sources[half], index);
    }
    return known[value] = halves;
  }

  /// Gives readers of the operation's results what they had, and erases it.
  void join(Balanced &one) {
    Operation *op = one.op;
    builder.setInsertionPoint(op);
    for (OpResult result : op->getResults()) {
      if (result.use_empty())
        continue;
      unsigned number = result.getResultNumber();
      Value first = one.halves[0]->getResult(number), second = one.halves[1]->getResult(number);
      Value whole;
      if (hasRows(op, number)) {
        first = permute(op, first, one.chunks.targets[0], one.index);
        second = permute(op, second, one.chunks.targets[1], one.index);
        whole = madeFrom(op, ConcatOp::create(builder, op->getLoc(), result.getType(),
                                              ValueRange{first, second}, kRows));
      } else {
        whole =
            madeFrom(op, BinaryOp::create(builder, op->getLoc(), BinaryKind::Add, first, second));
      }
      result.replaceAllUsesWith(whole);
    }
    op->erase();
  }

  const ::autopar::Cluster &cluster;
  Target target;
  int64_t chip;
  OpBuilder builder;
  DenseMap<Value, Halves> known; ///< of what has rows
  std::vector<Balanced> balanced;
};

struct BalanceAttentionPass
    : public mlir::autopar::impl::BalanceAttentionPassBase<BalanceAttentionPass> {
  using Base::Base;

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    auto isPart = [](Operation &op) {
      return isa<AttentionOp, AttentionGradOp>(op) && op.hasAttr("parts");
    };
    if (function.isExternal() || llvm::none_of(function.getBody().front(), isPart))
      return;
    auto module = function->getParentOfType<ModuleOp>();
    if (cluster.empty() && module.getOps<ClusterOp>().empty())
      return; // nothing to tell costs by
    auto loaded = clusterOf(module, cluster);
    if (!loaded) {
      function.emitOpError() << loaded.status().message();
      return signalPassFailure();
    }
    Balancer(*loaded, target, chip, &getContext()).run(function);
  }
};

} // namespace
