// SPDX-License-Identifier: Apache-2.0
// The pass autopar-build-training-step: loss, derivatives, clipping and update behind the forward
// graph, as one function of values.
#include "autopar/Training/Passes.h"

#include "NormalizeAgain.h"
#include "RateScales.h"
#include "TrainedParameter.h"

#include "autopar/Dialect/AutoPar/Gradients/Differentiate.h"
#include "autopar/Dialect/AutoPar/IR/Arguments.h"
#include "autopar/Dialect/AutoPar/IR/UniqueIds.h"
#include "autopar/Training/LearningRates.h"
#include "autopar/Training/LossScaling.h"
#include "autopar/Training/Losses.h"
#include "autopar/Training/Metrics.h"
#include "autopar/Training/MixedPrecision.h"
#include "autopar/Training/StepSignature.h"
#include "autopar/Training/UpdateFormulas.h"

#include <map>

namespace mlir::autopar {
#define GEN_PASS_DEF_BUILDTRAININGSTEPPASS
#include "autopar/Training/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::Call;
using ::autopar::Result;
using ::autopar::WeightedCall;

namespace {
/// A result of the step.
struct StepResult {
  Value value;
  std::string name;
  bool isMetric = false;
  bool guards = false;      ///< must be finite for the step to change anything
  bool isEvaluated = false; ///< also known without a step
};

class StepBuilder {
public:
  StepBuilder(func::FuncOp function, double clipNorm, StringRef gradientType,
              ArrayRef<std::string> rateScales)
      : function(function), clipNorm(clipNorm), gradientType(gradientType), rateScales(rateScales),
        builder(function.getBody().front().getTerminator()), b(builder, function.getLoc()),
        ids(function.getBody().front()) {}

  LogicalResult build(StringRef lossText, StringRef metricsText, StringRef optimizerText,
                      StringRef scheduleText, StringRef scaleText) {
    Result<std::vector<WeightedCall>> terms = Call::parseSum("loss", lossText.str());
    if (!terms)
      return refuse(terms.status());
    Result<Call> optimizerCall = Call::parse("optimizer", optimizerText.str());
    if (!optimizerCall)
      return refuse(optimizerCall.status());
    Result<Optimizers> optimizers = makeOptimizers(*optimizerCall);
    if (!optimizers)
      return refuse(optimizers.status());
    std::optional<LearningRateSchedule> schedule;
    if (!scheduleText.empty()) {
      Result<LearningRateSchedule> parsed = LearningRateSchedule::parse(scheduleText.str());
      if (!parsed)
        return refuse(parsed.status());
      schedule = *parsed;
    }
    if (!scaleText.empty()) {
      Result<LossScaling> parsed = LossScaling::parse(scaleText.str());
      if (!parsed)
        return refuse(parsed.status());
      scaling = *parsed;
    }
    if (!(clipNorm >= 0))
      return function.emitError() << "clip-norm: expected a positive number, got " << clipNorm;
    llvm::MapVector<BlockArgument, ParameterMatrix> matrices;
    if (optimizers->ofMatrices)
      matrices = innerMatrices(function);
    Result<Loss> loss = buildLoss(function, *terms);
    if (!loss)
      return refuse(loss.status());
    SmallVector<Operation *> slope = nameSlope(*loss);
    nameNew("loss");
    if (failed(addMetrics(metricsText, *terms)))
      return failure();
    for (Operation *op : slope) // behind all of the forward pass
      op->moveBefore(function.getBody().front().getTerminator());
    findOwnState();
    enter("");
    if (failed(checkGradientType()) || failed(findTrained(*loss)) || failed(scaleRates()))
      return failure();
    enter("backward");
    results.push_back({loss->value, "loss", true, true, true});
    results.append(metrics);
    clip();
    chooseOptimizers(trained, *optimizers, matrices, function.getLoc());
    update(*optimizers->others, schedule);
    enter("update");
    finish();
    return success();
  }

private:
  LogicalResult refuse(const ::autopar::Status &status) {
    return function.emitError() << status.message();
  }

  /// They are of the forward pass.
  LogicalResult addMetrics(StringRef text, ArrayRef<WeightedCall> loss) {
    Result<std::vector<Metric>> parsed = parseMetrics(text);
    if (!parsed)
      return refuse(parsed.status());
    for (Metric &metric : *parsed) {
      Result<Value> value = buildMetric(function, metric.call, loss);
      if (!value)
        return refuse(value.status());
      metrics.push_back({*value, metric.name, true, false, true});
      nameNew(metric.name);
    }
    return success();
  }

  /// Names what was built since the last call: the last operation `id`, the others `id/kind`. All
  /// of it lies behind `before` where that is given.
  void nameNew(const Twine &id, Operation *last = nullptr, Operation *before = nullptr) {
    Block &block = function.getBody().front();
    auto begin = before ? std::next(before->getIterator()) : block.begin();
    for (Operation &op : llvm::make_range(begin, block.getTerminator()->getIterator())) {
      if (!getOpId(&op).empty())
        continue;
      ids.name(&op, (&op == last ? id : id + "/" + op.getName().stripDialect()).str());
    }
  }

  Operation *lastOp() { return builder.getInsertionBlock()->getTerminator()->getPrevNode(); }

  /// What only the slope of the loss needs is of the backward pass, and named like it.
  SmallVector<Operation *> nameSlope(const Loss &loss) {
    DenseSet<Operation *> forward;
    SmallVector<Operation *> worklist{loss.value.getDefiningOp()};
    while (!worklist.empty()) {
      Operation *op = worklist.pop_back_val();
      if (!op || !forward.insert(op).second)
        continue;
      for (Value operand : op->getOperands())
        worklist.push_back(operand.getDefiningOp());
    }
    SmallVector<Operation *> slope;
    for (Operation &op : function.getBody().front().without_terminator())
      if (getOpId(&op).empty() && !forward.contains(&op)) {
        ids.name(&op, "loss/vjp/" + op.getName().stripDialect());
        slope.push_back(&op);
      }
    return slope;
  }

  /// What the model itself keeps from step to step (running statistics).
  void findOwnState() {
    Operation *terminator = function.getBody().front().getTerminator();
    for (auto [i, donor] : llvm::enumerate(donorsOfResults(function)))
      if (donor)
        ownState.push_back({terminator->getOperand(i), nameOfArgument(donor)});
  }

  LogicalResult checkGradientType() {
    auto narrow = function->getAttrOfType<TypeAttr>(kPrecisionAttribute);
    FloatType wanted = precisionType(function.getContext(), gradientType);
    if (wanted && (wanted.isF32() || (narrow && narrow.getValue() == wanted)))
      return success();
    auto error = function.emitError() << "gradient-dtype: expected f32";
    if (narrow)
      error << ", or " << (narrow.getValue().isF16() ? "fp16" : "bf16")
            << " as the precision of the step";
    return error << ", got \"" << gradientType << "\"";
  }

  /// Everything built since the last call belongs to `phase`; forward operations bear no mark.
  void enter(StringRef phase) {
    for (Operation &op : llvm::reverse(function.getBody().front().without_terminator())) {
      if (&op == lastMarked)
        break;
      if (!phase.empty())
        op.setAttr("autopar.phase", builder.getStringAttr(phase));
    }
    lastMarked = lastOp();
  }

  LogicalResult findTrained(const Loss &loss) {
    SmallVector<Value> values;
    for (BlockArgument argument : function.getArguments()) {
      auto mark =
          function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), "autopar.trainable");
      if (!mark)
        continue;
      trained.push_back({argument, nameOfArgument(argument), mark.getValue() == "decay"});
      values.push_back(argument);
    }
    if (trained.empty())
      return function.emitError("has no parameter to train: none is marked autopar.trainable "
                                "(autopar-choose-trainable marks them)");
    SmallVector<std::pair<Value, Value>> seeds = loss.seeds;
    if (seeds.empty())
      seeds.emplace_back(loss.value, b.splatLike(loss.value, 1));
    scaleLoss(seeds);
    nameNew("loss/vjp", seeds.back().second.getDefiningOp());
    FailureOr<SmallVector<Value>> gradients = differentiate(builder, loss.value, values, seeds);
    if (failed(gradients))
      return failure();
    SmallVector<Value> cotangents = llvm::to_vector(llvm::make_second_range(seeds));
    settlePrecision(function, cotangents, *gradients, gradientType == "f32");
    for (auto [parameter, gradient] : llvm::zip_equal(trained, *gradients)) {
      parameter.gradient = gradient;
      if (!gradient)
        function.emitWarning() << "the loss does not depend on parameter \"" << parameter.name
                               << "\"; it keeps its values";
    }
    llvm::erase_if(trained, [](const TrainedParameter &parameter) { return !parameter.gradient; });
    if (trained.empty())
      return function.emitError("the loss depends on no parameter that is to be trained");
    normalizeAgain(function.getBody().front(), lastMarked);
    unscaleGradients();
    return success();
  }

  LogicalResult scaleRates() {
    Operation *module = function->getParentOp();
    FailureOr<RateScales> scales = RateScales::of(module, rateScales);
    if (failed(scales))
      return failure();
    for (TrainedParameter &parameter : trained)
      parameter.rateScale = scales->scaleOf(ParameterNames(parameter.argument));
    return scales->checkUsed(module);
  }

  void scaleLoss(MutableArrayRef<std::pair<Value, Value>> seeds) {
    if (!scaling)
      return;
    for (StringRef name : scaling->stateNames())
      scalingState.push_back(
          addArgument(function, RankedTensorType::get({}, builder.getI64Type()), name, donated()));
    scale = scaling->scale(b, scalingState);
    nameNew("loss_scale");
    for (auto &[value, cotangent] : seeds)
      cotangent = b.mul(cotangent, ofType(scale, cotangent));
  }

  void unscaleGradients() {
    if (!scaling)
      return;
    Value inverse = b.div(b.splatLike(scale, 1), scale);
    nameNew("loss_scale");
    for (TrainedParameter &parameter : trained) {
      RankedTensorType type = b.typeOf(parameter.gradient);
      Operation *before = lastOp();
      Value gradient = b.cast(parameter.gradient, wide(parameter.gradient, builder));
      gradient = b.mul(gradient, ofType(inverse, gradient));
      parameter.gradient = b.cast(gradient, type.getElementType());
      nameNew(parameter.name + "/unscale", parameter.gradient.getDefiningOp(), before);
    }
    Value sum = squaredNorm();
    isFinite = b.compare(ComparePredicate::Lt, sum,
                         b.splatLike(sum, std::numeric_limits<double>::infinity()));
    nameNew("loss_scale");
  }

  /// Of all gradients together.
  Value squaredNorm() {
    if (normSquare)
      return normSquare;
    for (TrainedParameter &parameter : trained) {
      Operation *before = lastOp();
      Value gradient = b.cast(parameter.gradient, wide(parameter.gradient, builder));
      int64_t rank = FormulaBuilder::typeOf(gradient).getRank();
      Value part = b.sum(b.square(gradient), llvm::to_vector(llvm::seq<int64_t>(0, rank)));
      part = b.cast(part, builder.getF32Type());
      normSquare = normSquare ? b.add(normSquare, part) : part;
      nameNew(parameter.name + "/norm", nullptr, before);
    }
    return normSquare;
  }

  /// What replaces `old` in this step: nothing where a gradient has overflowed.
  Value unlessSkipped(Value next, Value old) {
    return isFinite ? b.select(repeat(isFinite, b.typeOf(old).getShape()), next, old) : next;
  }

  static Type wide(Value value, Builder &builder) {
    Type element = FormulaBuilder::typeOf(value).getElementType();
    return element.isF64() ? element : builder.getF32Type();
  }

  // Pascanu, Mikolov and Bengio, "On the difficulty of training recurrent neural networks", 2013.
  void clip() {
    if (clipNorm == 0)
      return;
    Value norm = b.unary(UnaryKind::Sqrt, squaredNorm());
    Value factor = b.div(b.splatLike(norm, clipNorm), b.shift(norm, 1e-6));
    factor = b.binary(BinaryKind::Min, factor, b.splatLike(factor, 1));
    nameNew("clip");
    // A skipped step is none that must not happen: its norm is shown as 0.
    results.push_back({isFinite ? b.where(isFinite, norm) : norm, "gradient_norm", true,
                       /*guards=*/!isFinite});
    clipFactor = factor;
    nameNew("clip");
  }

  Value repeat(Value scalar, ArrayRef<int64_t> shape) {
    if (shape.empty())
      return scalar;
    return BroadcastOp::create(builder, b.loc, b.typeOf(scalar).clone(shape), scalar,
                               ArrayRef<int64_t>{});
  }

  /// A scalar, repeated.
  Value ofType(Value scalar, Value like) {
    RankedTensorType type = FormulaBuilder::typeOf(like);
    return repeat(b.cast(scalar, type.getElementType()), type.getShape());
  }

  BlockArgument control(StringRef word, Type element) {
    NamedAttribute mark(builder.getStringAttr("autopar.control"), builder.getStringAttr(word));
    return addArgument(function, RankedTensorType::get({}, element), "control." + word, mark);
  }

  void update(const Optimizer &optimizer, const std::optional<LearningRateSchedule> &schedule) {
    addState(function, trained);
    BlockArgument rate = control("learning_rate", builder.getF64Type());
    function.setArgAttr(rate.getArgNumber(), "autopar.initial",
                        builder.getF64FloatAttr(optimizer.learningRate));
    BlockArgument step = control("step", builder.getI64Type());
    drawAnew(step);
    Value count = b.shift(b.cast(step, builder.getF64Type()), 1);
    Value rateNow = rate;
    if (schedule)
      rateNow = schedule->rate(b, rate, count);
    results.push_back({rateNow, "learning_rate", true});
    // Skipped steps are no steps of the optimizer.
    skippedSteps = control("skipped_steps", builder.getI64Type());
    count = b.sub(count, b.cast(skippedSteps, builder.getF64Type()));
    if (scaling)
      count = b.sub(count, b.cast(LossScaling::skippedSteps(scalingState), builder.getF64Type()));
    std::map<std::pair<const Optimizer *, double>, SmallVector<Value>> shared; ///< by rate's scale
    auto sharedBy = [&](const TrainedParameter &parameter) -> SmallVector<Value> & {
      return shared[{parameter.optimizer, parameter.rateScale}];
    };
    for (const TrainedParameter &parameter : trained)
      if (SmallVector<Value> &group = sharedBy(parameter); group.empty())
        group = parameter.optimizer->shared(
            b, parameter.rateScale == 1 ? rateNow : b.scale(rateNow, parameter.rateScale), count);
    nameNew("optimizer");
    SmallVector<StepResult> told = std::exchange(results, {});
    SmallVector<StepResult> states;
    UpdateFormulas formulas(function);
    for (const TrainedParameter &parameter : trained) {
      Operation *before = lastOp();
      SmallVector<Value> next = formulas.apply(b, *parameter.optimizer,
                                               {parameter.argument,
                                                parameter.gradient,
                                                parameter.state,
                                                sharedBy(parameter),
                                                {clipFactor, isFinite},
                                                parameter.decays,
                                                parameter.matrix});
      nameNew(parameter.name + "/update", next[0].getDefiningOp(), before);
      results.push_back({next[0], parameter.name});
      for (auto [value, state] : llvm::zip_equal(ArrayRef(next).drop_front(), parameter.state))
        states.push_back({value, nameOfArgument(cast<BlockArgument>(state))});
    }
    for (StepResult &state : ownState)
      if (isFinite)
        state.value = unlessSkipped(state.value, argumentNamed(state.name));
    nameNew("state/update");
    results.append(states);
    results.append(ownState);
    if (scaling)
      updateScale(told);
    results.append(told);
  }

  void updateScale(SmallVector<StepResult> &told) {
    SmallVector<Value> next = scaling->next(b, scalingState, isFinite);
    for (auto [value, name] : llvm::zip_equal(next, scaling->stateNames()))
      results.push_back({value, name.str()});
    told.push_back({scale, "loss_scale", true});
    told.push_back(
        {b.cast(LossScaling::skippedSteps(next), builder.getF64Type()), "skipped_steps", true});
    nameNew("loss_scale/update");
  }

  BlockArgument argumentNamed(StringRef name) {
    for (BlockArgument argument : function.getArguments())
      if (nameOfArgument(argument) == name)
        return argument;
    llvm_unreachable("state has an argument and a result of one name");
  }

  /// Random numbers differ from step to step: those of one step follow those of the step before, as
  /// if there were one tensor with a row of steps in front.
  void drawAnew(Value step) {
    for (RandomOp random : function.getBody().front().getOps<RandomOp>()) {
      ArrayRef<int64_t> shape = random.getGlobalShape();
      if (!random.getOffsets().empty() || shape.empty())
        continue;
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPoint(random);
      SmallVector<Value> offsets(shape.size(), b.zeros(b.typeOf(step)));
      offsets[0] = b.scale(step, static_cast<double>(shape[0]));
      nameNew(getOpId(random) + "/step");
      random.getOffsetsMutable().assign(offsets);
    }
  }

  /// The mark of what a step replaces by its next value.
  NamedAttribute donated() {
    return {builder.getStringAttr("autopar.donated"), builder.getUnitAttr()};
  }

  void finish() {
    SmallVector<Value> values;
    SmallVector<Type> types;
    SmallVector<DictionaryAttr> attributes;
    for (const StepResult &result : results) {
      values.push_back(result.value);
      types.push_back(result.value.getType());
      NamedAttrList list;
      list.set("autopar.name", builder.getStringAttr(result.name));
      if (result.isMetric)
        list.set("autopar.metric", builder.getUnitAttr());
      if (result.guards)
        list.set("autopar.guard", builder.getUnitAttr());
      if (result.isEvaluated)
        list.set(kEvaluatedAttribute, builder.getUnitAttr());
      attributes.push_back(list.getDictionary(builder.getContext()));
    }
    Block &body = function.getBody().front();
    body.getTerminator()->setOperands(values);
    function.removeResAttrsAttr();
    function.setFunctionType(builder.getFunctionType(body.getArgumentTypes(), types));
    function.setAllResultAttrs(attributes);
    // The forward results that are no longer returned may have been the only users.
    SmallVector<Operation *> ops =
        llvm::map_to_vector(body.without_terminator(), [](Operation &op) { return &op; });
    for (Operation *op : llvm::reverse(ops))
      if (isOpTriviallyDead(op))
        op->erase();
    // An optimizer that does not count.
    if (skippedSteps.use_empty())
      (void)function.eraseArgument(skippedSteps.getArgNumber());
  }

  func::FuncOp function;
  double clipNorm;
  StringRef gradientType;
  ArrayRef<std::string> rateScales;
  OpBuilder builder;
  FormulaBuilder b;
  UniqueIds ids;
  std::vector<TrainedParameter> trained;
  SmallVector<StepResult> results, metrics, ownState;
  std::optional<LossScaling> scaling;
  SmallVector<Value> scalingState;
  Value scale, isFinite; ///< scalars; null without scaling
  Value clipFactor;      ///< scalar; null without clipping
  Value normSquare;
  BlockArgument skippedSteps; ///< of the run
  Operation *lastMarked = nullptr;
};

struct BuildTrainingStepPass
    : mlir::autopar::impl::BuildTrainingStepPassBase<BuildTrainingStepPass> {
  using Base::Base;

  void runOnOperation() override {
    auto function = getOperation().lookupSymbol<func::FuncOp>("main");
    if (!function || function.isExternal() || !function.getBody().hasOneBlock()) {
      getOperation().emitError("expected a function @main of one block to train");
      return signalPassFailure();
    }
    if (failed(StepBuilder(function, clipNorm, gradientType, lrScale)
                   .build(loss, metrics, optimizer, schedule, lossScale)))
      signalPassFailure();
  }
};
} // namespace
