// SPDX-License-Identifier: Apache-2.0
// Loss, derivatives, update: see the header.
#include "RandomStep.h"

#include "autopar/Base/AverageName.h"
#include "autopar/Dialect/AutoPar/Gradients/Differentiate.h"
#include "autopar/Dialect/AutoPar/IR/Arguments.h"
#include "autopar/Training/Optimizers.h"
#include "autopar/Training/StepSignature.h"
#include "autopar/Training/UpdateFormulas.h"

#include <map>
#include <random>

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// Lion is left out: a sign is no law for numbers that depend on the order of a sum.
constexpr const char *optimizers[] = {
    "sgd(lr=0.1)",         "sgd(lr=0.1,momentum=0.9,nesterov=true)",
    "adam(lr=0.1)",        "adamw(lr=0.1)",
    "adagrad(lr=0.1)",     "adamw(lr=0.1,ema=0.75)",
    "muon(lr=0.1,steps=2)"};

constexpr const char *narrowOptimizers[] = {
    "sgd(lr=0.1,momentum=0.9,state_bits=16)", "adam(lr=0.1,beta2=0.95,state_bits=16)",
    "adamw(lr=0.1,beta2=0.95,ema=0.75,state_bits=16)", "muon(lr=0.1,steps=2,state_bits=16)"};

class StepDrawer {
public:
  StepDrawer(func::FuncOp function, uint64_t seed, autopar_law::StateKind states)
      : function(function), states(states), terminator(function.getBody().front().getTerminator()),
        builder(terminator), b(builder, function.getLoc()), random(seed), places(seed),
        results(terminator->getOperands()) {}

  bool draw() {
    Value loss = drawLoss();
    SmallVector<Value> values;
    for (BlockArgument argument : function.getArguments())
      if (b.typeOf(argument).getElementType().isF32())
        values.push_back(argument);
    if (!loss || values.empty())
      return false;
    nameNew();
    ScopedDiagnosticHandler silence(function.getContext(), [](Diagnostic &) { return success(); });
    FailureOr<SmallVector<Value>> gradients = differentiate(builder, loss, values);
    if (failed(gradients) || llvm::none_of(*gradients, [](Value value) { return value; }))
      return false;
    evaluated = results.size();
    results.push_back(loss);
    results.push_back(drawMetric());
    auto call = ::autopar::Call::parse("optimizer", drawOptimizer());
    auto optimizers = makeOptimizers(*call);
    mayBeZero = call->name == "sgd";
    UpdateFormulas formulas(function);
    for (auto [value, gradient] : llvm::zip_equal(values, *gradients))
      if (gradient)
        update(*optimizers, formulas, value, gradient);
    finish();
    return true;
  }

private:
  const char *drawOptimizer() {
    if (states == autopar_law::StateKind::Narrow)
      return narrowOptimizers[random() % std::size(narrowOptimizers)];
    return optimizers[random() % std::size(optimizers)];
  }

  /// Weights differ from place to place, so that no derivative is the same everywhere.
  Value drawLoss() {
    Value loss;
    for (Value result : terminator->getOperands()) {
      RankedTensorType type = b.typeOf(result);
      if (!type.getElementType().isF32() || type.getNumElements() == 0)
        continue;
      SmallVector<float> weights;
      for (int64_t i = 0; i < type.getNumElements(); ++i)
        weights.push_back(0.25f * (static_cast<float>(random() % 17) - 8));
      Value weight = ConstantOp::create(builder, b.loc,
                                        DenseElementsAttr::get(type, ArrayRef<float>(weights)));
      Value part = b.mul(result, weight);
      if (type.getRank())
        part = b.sum(part, llvm::to_vector(llvm::seq<int64_t>(0, type.getRank())));
      loss = loss ? b.add(loss, part) : part;
    }
    return loss;
  }

  /// The mean of what every result of the model is, without its sign: of the forward pass, too.
  Value drawMetric() {
    Value metric;
    for (Value result : terminator->getOperands()) {
      RankedTensorType type = b.typeOf(result);
      if (!type.getElementType().isF32() || type.getNumElements() == 0)
        continue;
      Value part = b.unary(UnaryKind::Abs, result);
      part = b.sum(part, llvm::to_vector(llvm::seq<int64_t>(0, type.getRank())));
      part = b.scale(part, 1.0 / static_cast<double>(type.getNumElements()));
      metric = metric ? b.add(metric, part) : part;
    }
    return metric;
  }

  /// Any tensor of two dimensions and more serves as matrices.
  void update(const Optimizers &optimizers, UpdateFormulas &formulas, Value parameter,
              Value gradient) {
    int64_t rank = b.typeOf(parameter).getRank();
    Optimizer &optimizer =
        *(optimizers.ofMatrices && rank >= 2 ? optimizers.ofMatrices : optimizers.others);
    optimizer.weightDecay = 0.01;
    auto scalar = RankedTensorType::get({}, builder.getF64Type());
    SmallVector<Value> state;
    size_t next = results.size(); // the parameter's
    for (StringRef name : optimizer.keptNames()) {
      RankedTensorType type = b.typeOf(parameter);
      bool isNarrow = optimizer.stateBits == 16 && name != ::autopar::kAverageState;
      state.push_back(drawState(isNarrow ? type.clone(builder.getBF16Type()) : type, ++next));
    }
    // In groups of rates of their own.
    double rate = cast<BlockArgument>(parameter).getArgNumber() % 2 ? 0.1 : 0.05;
    SmallVector<Value> shared = optimizer.shared(b, b.splat(scalar, rate), b.splat(scalar, 3));
    ParameterMatrix matrix{{rank - 2}, {rank - 1}};
    llvm::append_range(
        results, formulas.apply(b, optimizer,
                                {parameter, gradient, state, shared, {}, /*decays=*/true, matrix}));
  }

  /// No state is negative, and none that is divided by is zero (what steps hand on is at first),
  /// else the rounding of a gradient near zero would be all that is left.
  Value drawState(RankedTensorType type, size_t next) {
    std::string name = "s" + std::to_string(function.getNumArguments());
    if (states == autopar_law::StateKind::Given) {
      Value square = b.square(addArgument(function, type, name));
      return mayBeZero ? square : b.add(square, b.splat(type, 0.0625));
    }
    BlockArgument kept =
        addArgument(function, type, name + "/kept",
                    {{builder.getStringAttr("autopar.donated"), builder.getUnitAttr()}});
    keptBy[next] = name + "/kept";
    if (states == autopar_law::StateKind::Offloaded && type.getRank() > 0 && places() % 4)
      function.setArgAttr(kept.getArgNumber(), kOnHostAttribute, builder.getUnitAttr());
    if (mayBeZero)
      return kept;
    auto wide = type.clone(builder.getF32Type());
    Value square = b.square(addArgument(function, wide, name));
    return b.cast(b.add(square, b.cast(kept, builder.getF32Type())), type.getElementType());
  }

  void nameNew() {
    for (Operation &op : function.getBody().front().without_terminator())
      if (getOpId(&op).empty())
        setOpId(&op, "step_" + std::to_string(count++));
  }

  void finish() {
    nameNew();
    terminator->setOperands(results);
    function.removeResAttrsAttr();
    function.setFunctionType(builder.getFunctionType(function.getBody().front().getArgumentTypes(),
                                                     ValueRange(results).getTypes()));
    for (unsigned i = 0; i < results.size(); ++i)
      function.setResultAttr(
          i, "autopar.name",
          builder.getStringAttr(keptBy.count(i) ? keptBy[i] : "y" + std::to_string(i)));
    for (unsigned i : {evaluated, evaluated + 1}) {
      function.setResultAttr(i, "autopar.metric", builder.getUnitAttr());
      function.setResultAttr(i, kEvaluatedAttribute, builder.getUnitAttr());
    }
  }

  func::FuncOp function;
  autopar_law::StateKind states;
  bool mayBeZero = false; ///< every state
  Operation *terminator;
  OpBuilder builder;
  FormulaBuilder b;
  std::mt19937_64 random, places;
  SmallVector<Value> results;
  unsigned evaluated = 0;               ///< the first of two metrics among the results
  std::map<size_t, std::string> keptBy; ///< arguments, by the result that is their next value
  int count = 0;
};

} // namespace

bool autopar_law::addTrainingStep(ModuleOp module, uint64_t seed, StateKind states) {
  return StepDrawer(module.lookupSymbol<func::FuncOp>("main"), seed, states).draw();
}
