// SPDX-License-Identifier: Apache-2.0
// Roles of axes: the batch axis splits samples and nothing else, the context axis positions alone,
// the expert axis the experts of products and samples elsewhere, the weight axis matrix products
// and never samples; where it is an expert axis too, those by expert by expert. Where an operation
// has a strategy that does so, all others are forbidden; where it has none, it stays free of the
// axis.
#include "SearchConstraints.h"

#include "Stages/StepPhase.h"

#include "autopar/Dialect/AutoPar/IR/Arguments.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::Constraints;
using ::autopar::Status;

namespace {

class Constrainer {
public:
  Constrainer(ShardingProblem &problem, const Constraints &demands)
      : problem(problem), demands(demands), axes(problem.meshAxes()),
        function(problem.getFunction()), roles(problem.roles()) {}

  Status run() {
    AUTOPAR_RETURN_IF_ERROR(findAxes());
    if (batchAxis >= 0 || contextAxis >= 0 || expertAxis >= 0 || weightAxis >= 0) {
      findPhases();
      for (auto [position, entry] : llvm::enumerate(problem.operations()))
        constrainOperation(entry.first, position);
      for (BlockArgument argument : function.getArguments())
        constrainArgument(argument);
      if (splitsPositions && positionsSplit == 0)
        return demands.errorAt("sequence", "no operation's positions can be split over axis \"" +
                                               demands.word("weight-axis") + "\"");
      if (contextAxis >= 0 && !splitsContext)
        return demands.errorAt("context-axis",
                               "no operation's positions can be split over axis \"" +
                                   demands.word("context-axis") + "\"");
      if (demands.has("expert-axis") && expertsSplit == 0) {
        const char *over = demands.axes("expert-axis").size() > 1 ? "axes" : "axis";
        return demands.errorAt(
            "expert-axis",
            std::string("no product with a parameter per expert can be split over ") + over +
                " \"" + demands.word("expert-axis") + "\"" + ofWholeMixtures());
      }
    }
    for (const Constraints::Sharding &demand : demands.shardings())
      AUTOPAR_RETURN_IF_ERROR(constrainValues(demand));
    return Status::ok();
  }

private:
  /// What is missing where there are mixtures without capacity that nobody has parted.
  std::string ofWholeMixtures() const {
    bool isWhole = llvm::any_of(problem.operations(), [](const auto &entry) {
      auto product = dyn_cast<GroupedDotOp>(entry.first);
      return product && !product.getInParts();
    });
    return isWhole ? "; mixtures without capacity are parted before shardings are searched: demand "
                     "the mesh too, from the phase prepare on"
                   : "";
  }

  /// The number of an axis that a demand names.
  ::autopar::Result<int8_t> axisOf(const char *key, const std::string &name) const {
    int8_t axis = axes.numberOf(name);
    if (axis < 0)
      return demands.errorAt(key, "the mesh has no axis \"" + name + "\"; its axes are " +
                                      llvm::join(axes.names, ", "));
    return axis;
  }

  Status findAxes() {
    for (auto [key, axis] : {std::pair("batch-axis", &batchAxis),
                             {"context-axis", &contextAxis},
                             {"weight-axis", &weightAxis}}) {
      if (!demands.has(key))
        continue;
      ::autopar::Result<int8_t> found = axisOf(key, demands.word(key));
      if (!found)
        return found.status();
      *axis = *found;
    }
    if (batchAxis >= 0 && batchAxis == weightAxis)
      return demands.errorAt("weight-axis", "is the batch axis too");
    AUTOPAR_RETURN_IF_ERROR(findExpertAxes());
    if (contextAxis >= 0 && llvm::is_contained({batchAxis, expertAxis, weightAxis}, contextAxis))
      return demands.errorAt("context-axis", "has another role too");
    splitsPositions = demands.word("sequence") == "true";
    if (splitsPositions && weightAxis < 0)
      return demands.errorAt("sequence", "needs a weight-axis");
    mayBeOnBatchAxis = demands.has("zero") ? demands.number("zero", 0) : 3;
    return Status::ok();
  }

  /// One of its own, the weight axis, or both.
  Status findExpertAxes() {
    for (const std::string &name : demands.axes("expert-axis")) {
      ::autopar::Result<int8_t> axis = axisOf("expert-axis", name);
      if (!axis)
        return axis.status();
      if (*axis == batchAxis)
        return demands.errorAt("expert-axis", "is the batch axis too");
      if (*axis == weightAxis)
        weightsByExpert = true;
      else if (expertAxis < 0)
        expertAxis = *axis;
      else
        return demands.errorAt("expert-axis",
                               "has axes \"" + axes.names[expertAxis].str() + "\" and \"" + name +
                                   "\" of its own; expected one, and the weight-axis beside it");
    }
    return Status::ok();
  }

  void findPhases() {
    StepPhase phases;
    for (auto &[op, id] : problem.operations())
      lastPhase = phaseOf[op] = phases.of(op);
  }

  void forbid(size_t node, size_t strategy) {
    problem.graph().nodes[node].strategies[strategy].timeUs = ::autopar::kForbidden;
  }

  /// Keeps the strategies that are permitted; of these those that are wanted, if any is.
  size_t keep(size_t node, ArrayRef<bool> permitted, ArrayRef<bool> wanted) {
    bool anyWanted = false;
    for (auto [one, other] : llvm::zip(permitted, wanted))
      anyWanted = anyWanted || (one && other);
    for (size_t k = 0; k < permitted.size(); ++k)
      if (!permitted[k] || (anyWanted && !wanted[k]))
        forbid(node, k);
    return anyWanted;
  }

  /// From which stage of ZeRO on a value that depends on no sample may be split over the batch
  /// axis.
  int64_t zeroStageOf(Operation *op) const {
    StringRef phase = phaseOf.lookup(op);
    return phase == "forward" ? 3 : phase == lastPhase ? 1 : 2;
  }

  /// What an operation or argument has that axes with a role ask for.
  struct Subject {
    bool hasSamples = false, hasExperts = false, hasPositions = false;
    bool keepsExperts = false; ///< only experts belong on the expert axis
    /// Only experts belong on the weight axis: a product by expert, or what is their own.
    bool isOfWholeExperts = false;
    bool isSplitState = false; ///< may lie on the axes of samples though it has none
  };
  /// What one strategy splits over axes with a role.
  struct Split {
    bool isPermitted = true;
    bool samples = false, context = false, experts = false, model = false, positions = false;
    bool onWeightAxis = false, wholeExperts = false;
  };

  /// Adds a dimension of `role` over `axis` to a split; one that is `isUnreduced` may be on any
  /// axis.
  void add(Split &split, const Subject &subject, int8_t axis, DimensionRole role,
           bool isUnreduced) const {
    bool isFree = isUnreduced || subject.isSplitState;
    if (axis == batchAxis) {
      split.samples |= role == DimensionRole::Batch;
      split.isPermitted &= isFree || role == DimensionRole::Batch;
    }
    if (axis == contextAxis) {
      split.context |= role == DimensionRole::Position;
      split.isPermitted &= isFree || role == DimensionRole::Position;
    }
    if (axis == expertAxis) {
      bool isDemanded =
          role == DimensionRole::Expert || (role == DimensionRole::Batch && !subject.keepsExperts);
      split.experts |= isDemanded;
      split.isPermitted &= isFree || isDemanded;
    }
    if (axis == weightAxis) {
      bool isExpert = role == DimensionRole::Expert;
      split.isPermitted &= role != DimensionRole::Batch &&
                           (role != DimensionRole::Position || splitsPositions) &&
                           (isExpert || isUnreduced || !subject.isOfWholeExperts);
      split.wholeExperts |= isExpert;
      split.model |= isOfModel(role) && !isUnreduced;
      split.positions |= role == DimensionRole::Position;
      split.onWeightAxis = true;
    }
  }

  /// Whether a split has on the axes of samples, positions and experts what the subject has of
  /// them.
  bool usesAxes(const Split &split, const Subject &subject) const {
    return (split.samples || batchAxis < 0 || !subject.hasSamples) &&
           (split.context || contextAxis < 0 || !subject.hasPositions) &&
           (split.experts || expertAxis < 0 || !(subject.hasSamples || subject.hasExperts)) &&
           (split.wholeExperts || !subject.isOfWholeExperts);
  }

  /// Parameters and state of experts, and what updates them.
  static bool isOfExperts(const Subject &subject) {
    return subject.hasExperts && !subject.hasSamples;
  }

  Subject subjectOf(Operation *op, const ShardingRule &rule,
                    ArrayRef<DimensionRole> factors) const {
    auto hasFactor = [&](DimensionRole wanted, function_ref<bool(FactorKind)> isOfKind) {
      return llvm::any_of(llvm::zip(rule.factors, factors), [&](const auto &entry) {
        auto &[factor, role] = entry;
        return role == wanted && isOfKind(factor.kind);
      });
    };
    Subject subject;
    subject.hasSamples = llvm::is_contained(factors, DimensionRole::Batch);
    subject.hasExperts = llvm::is_contained(factors, DimensionRole::Expert);
    subject.hasPositions = hasFactor(DimensionRole::Position, [](FactorKind kind) {
      return kind != FactorKind::NeedsReplication;
    });
    subject.keepsExperts = isProduct(rule) && hasFactor(DimensionRole::Expert, [](FactorKind kind) {
                             return kind == FactorKind::PassThrough;
                           });
    subject.isOfWholeExperts = weightsByExpert && (subject.keepsExperts || isOfExperts(subject));
    subject.isSplitState = !subject.hasSamples && mayBeOnBatchAxis >= zeroStageOf(op);
    return subject;
  }

  void constrainOperation(Operation *op, size_t position) {
    ShardingRule rule = shardingRuleOf(op);
    SmallVector<DimensionRole> factors = roles.ofFactors(op, rule);
    Subject subject = subjectOf(op, rule, factors);
    bool isWhole = llvm::any_of(
        rule.factors, [](const Factor &f) { return f.kind == FactorKind::NeedsReplication; });
    bool splitsOnlyPositions =
        splitsPositions && subject.hasSamples && isWhole && splitsNothingElse(rule, factors);
    bool isProductOp = isProduct(rule);
    SmallVector<bool> permitted, wanted;
    for (const FactorAxes &choice : problem.choicesOf(position)) {
      Split split;
      for (auto [index, list] : llvm::enumerate(choice))
        for (int8_t axis : list)
          add(split, subject, axis, factors[index],
              rule.factors[index].size >= ShardingRule::unreducedExtent);
      permitted.push_back(split.isPermitted);
      wanted.push_back(usesAxes(split, subject) &&
                       (split.model || weightAxis < 0 || !isProductOp) &&
                       (split.positions || !splitsOnlyPositions));
    }
    size_t node = function.getNumArguments() + position;
    bool isHeld = keep(node, permitted, wanted);
    positionsSplit += isHeld && splitsOnlyPositions;
    splitsContext |= isHeld && subject.hasPositions;
    expertsSplit += isHeld && subject.keepsExperts;
    if (isProductOp && isHeld && weightAxis >= 0)
      for (Value operand : op->getOperands())
        if (BlockArgument parameter = parameterOf(operand))
          weights.insert(parameter);
  }

  /// What the weight axis splits: experts too, unless they have an axis of their own alone.
  bool isOfModel(DimensionRole role) const {
    return role == DimensionRole::Model ||
           (role == DimensionRole::Expert && (expertAxis < 0 || weightsByExpert));
  }

  /// Whether the weight axis fits positions, and no factor of the model's own.
  bool splitsNothingElse(const ShardingRule &rule, ArrayRef<DimensionRole> factors) const {
    bool fitsPositions = false;
    for (auto [factor, role] : llvm::zip(rule.factors, factors)) {
      if (factor.kind == FactorKind::NeedsReplication || factor.size < axes.sizes[weightAxis])
        continue;
      if (isOfModel(role))
        return false;
      fitsPositions |= role == DimensionRole::Position;
    }
    return fitsPositions;
  }

  /// The parameter that a value is, moved or rewritten by operations of one operand.
  static BlockArgument parameterOf(Value value) {
    while (Operation *op = value.getDefiningOp()) {
      if (op->getNumOperands() != 1)
        return {};
      value = op->getOperand(0);
    }
    auto argument = cast<BlockArgument>(value);
    return isParameter(argument) ? argument : BlockArgument();
  }

  void constrainArgument(BlockArgument argument) {
    ArrayRef<DimensionRole> own = roles.of(argument);
    bool isState = function.getArgAttr(argument.getArgNumber(), "autopar.donated") != nullptr;
    int64_t stage = isParameter(argument) ? 3 : isState ? 1 : 4;
    Subject subject;
    subject.hasSamples = roles.hasSamples(argument);
    subject.hasExperts = llvm::is_contained(own, DimensionRole::Expert);
    subject.hasPositions = llvm::is_contained(own, DimensionRole::Position);
    subject.isOfWholeExperts = weightsByExpert && isOfExperts(subject);
    subject.isSplitState = !subject.hasSamples && mayBeOnBatchAxis >= stage;
    SmallVector<bool> permitted, wanted;
    for (const TensorSharding &sharding : problem.shardingsOfArgument(argument.getArgNumber())) {
      Split split;
      for (auto [dim, list] : llvm::enumerate(sharding.dims))
        for (int8_t axis : list)
          add(split, subject, axis, own.empty() ? DimensionRole::Model : own[dim],
              /*isUnreduced=*/false);
      permitted.push_back(split.isPermitted);
      wanted.push_back(usesAxes(split, subject) &&
                       (split.onWeightAxis || !weights.contains(argument)));
    }
    keep(argument.getArgNumber(), permitted, wanted);
  }

  /// Arguments by their dimensions, operations by their factors.
  Status constrainValues(const Constraints::Sharding &demand) {
    SmallVector<AxisList> axesOfDemand;
    for (const ::autopar::AxisList &words : demand.axes) {
      axesOfDemand.emplace_back();
      for (const std::string &word : words) {
        int8_t axis = axes.numberOf(word);
        if (axis < 0)
          return demands.errorAt(demand.name, "the mesh has no axis \"" + word +
                                                  "\"; its axes are " +
                                                  llvm::join(axes.names, ", "));
        axesOfDemand.back().push_back(axis);
      }
    }
    bool isKnown = false;
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (std::string name = planNameOfArgument(function, i); demand.matches(name)) {
        isKnown = true;
        SmallVector<ArrayRef<AxisList>> choices;
        for (const TensorSharding &sharding : problem.shardingsOfArgument(i))
          choices.push_back(sharding.dims);
        // Demands speak of the whole batch; micro-batches stand in front of it.
        SmallVector<AxisList> wanted = axesOfDemand;
        if (function.getArgAttr(i, "autopar.micro_batches") &&
            choices.front().size() == wanted.size() + 1)
          wanted.insert(wanted.begin(), AxisList());
        AUTOPAR_RETURN_IF_ERROR(holdTo(demand, name, i, choices, wanted));
      }
    for (auto [position, entry] : llvm::enumerate(problem.operations()))
      if (demand.matches(entry.second)) {
        isKnown = true;
        SmallVector<ArrayRef<AxisList>> choices;
        for (const FactorAxes &choice : problem.choicesOf(position))
          choices.push_back(choice);
        AUTOPAR_RETURN_IF_ERROR(holdTo(demand, entry.second, function.getNumArguments() + position,
                                       choices, axesOfDemand));
      }
    if (!isKnown)
      return demands.errorAt(demand.name,
                             "there is no parameter, input or operation \"" + demand.name + "\"");
    return Status::ok();
  }

  Status holdTo(const Constraints::Sharding &demand, const std::string &name, size_t node,
                ArrayRef<ArrayRef<AxisList>> choices, ArrayRef<AxisList> wanted) {
    if (choices.front().size() != wanted.size())
      return demands.errorAt(demand.name, "\"" + name + "\" has " +
                                              std::to_string(choices.front().size()) +
                                              " dimensions or factors, the sharding has " +
                                              std::to_string(wanted.size()));
    bool isPossible = false;
    for (auto [k, choice] : llvm::enumerate(choices))
      if ((choice == wanted) == demand.isForbidden)
        forbid(node, k);
      else
        isPossible = true;
    if (!isPossible)
      return demands.errorAt(demand.name, "\"" + name + "\" cannot be split like that");
    return Status::ok();
  }

  ShardingProblem &problem;
  const Constraints &demands;
  const MeshAxes &axes;
  func::FuncOp function;
  const DimensionRoles &roles;
  int8_t batchAxis = -1, contextAxis = -1, expertAxis = -1, weightAxis = -1;
  bool weightsByExpert = false; ///< the weight axis is an expert axis too
  bool splitsPositions = false; ///< over the weight axis
  bool splitsContext = false;   ///< an operation does
  int64_t mayBeOnBatchAxis = 3; ///< stage of ZeRO
  size_t positionsSplit = 0;    ///< operations
  size_t expertsSplit = 0;      ///< the same
  DenseMap<Operation *, StringRef> phaseOf;
  StringRef lastPhase = "forward";
  DenseSet<BlockArgument> weights; ///< parameters of products
};

} // namespace

Status mlir::autopar::constrain(ShardingProblem &problem, const Constraints &demands) {
  return demands.empty() ? Status::ok() : Constrainer(problem, demands).run();
}
