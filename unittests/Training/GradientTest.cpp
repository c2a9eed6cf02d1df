// SPDX-License-Identifier: Apache-2.0
// Every operation has a gradient or is in the list of those that need none, and every gradient
// agrees with central differences in f64 on random shapes and attributes.
#include "GradientCases.h"

#include "../Law/RunModule.h"
#include "autopar/Dialect/AutoPar/Gradients/Differentiate.h"
#include "autopar/InitAll.h"
#include "autopar/Interfaces/GradientInterface.h"
#include "autopar/Transforms/Passes.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

using namespace mlir;
using namespace mlir::autopar;
using namespace autopar_training;
using ::autopar::runtime::Session;

namespace {

/// Operations through which no gradient passes.
const std::map<std::string, std::string> notDifferentiable = {
    {"compare", "yields conditions"},
    {"bitcast", "takes bits for numbers"},
    {"arg_reduce", "yields positions"},
    {"arg_pool", "yields positions"},
    {"constant", "has no operands"},
    {"iota", "has no operands"},
    {"random", "depends on positions only"},
    {"shard_index", "has no operands"},
    {"all_reduce", "made by partition, after differentiation"},
    {"all_gather", "made by partition, after differentiation"},
    {"reduce_scatter", "made by partition, after differentiation"},
    {"all_to_all", "made by partition, after differentiation"},
    {"permute", "made by balance-attention, after differentiation"},
    {"hold", "made by hold-across-phases, after differentiation"},
    {"micro_batch", "made by split-micro-batches, after differentiation"},
    {"micro_batch_index", "made by split-micro-batches, after differentiation"},
    {"accumulate", "made by split-micro-batches, after differentiation"},
    {"stack_micro_batches", "made by split-micro-batches, after differentiation"},
    {"carried", "made by expand-accumulators, after differentiation"},
    {"round_begin", "made by schedule, after differentiation"},
    {"round_end", "made by schedule, after differentiation"},
    {"round_slice", "made by schedule, after differentiation"},
    {"insert_part", "made by schedule, after differentiation"},
    {"carry", "made by expand-accumulators, after differentiation"},
    {"transfer", "made by cut-stages, after differentiation"},
    {"send", "made by schedule, after differentiation"},
    {"receive", "made by schedule, after differentiation"},
    {"reshard", "made by insert-reshards, after differentiation"},
    {"group", "made by form-fusion-groups, after differentiation"},
    {"fence", "made by insert-recompute, after differentiation"},
    {"attention_grad", "made by the gradient of attention"},
    {"unary_grad", "expanded before its gradient is asked for"},
    {"softmax_grad", "expanded before its gradient is asked for"},
    {"normalize_again", "expanded before its gradient is asked for"},
    {"normalize_grad", "expanded before its gradient is asked for"},
    {"convolution_filter_grad", "made by the gradient of a convolution"},
    {"profiled_backward", "made by the gradient of a measured operation"},
    {"profiled_weight_gradient", "made by the gradient of a measured operation"},
    {"update", "made by build-training-step, after differentiation"},
    {"formula", "of updates, after differentiation"},
    {"mark_positive", "made by form-fusion-groups, after differentiation"},
    {"grouped_dot_tiles", "made of grouped_dot, after differentiation"},
    {"grouped_dot_rhs_grad_tiles", "made of a gradient"},
    {"block_dot", "made of dot_general, after differentiation"},
    {"keep_marked", "made by form-fusion-groups, after differentiation"},
    {"store_on_host", "made by insert-recompute, after differentiation"},
    {"fetch_from_host", "made by insert-recompute, after differentiation"},
    {"yield", "part of a group"},
    {"cluster", "a symbol"},
    {"mesh", "a symbol"},
    {"origin", "a symbol"},
};

/// Operations whose gradient cannot be held against differences.
const std::map<std::string, std::string> notRun = {
    {"profiled",
     "nobody knows what it computes; python/tests/test_profiles.py trains graphs of it"},
};

class Gradient : public testing::Test {
protected:
  Gradient() {
    DialectRegistry registry;
    registerAllDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    context.disableMultithreading();
  }
  MLIRContext context;
};

TEST_F(Gradient, EveryOperationHasOneOrIsListed) {
  std::set<std::string> tested;
  for (const GradientCase &c : gradientCases())
    tested.insert(c.op);
  for (RegisteredOperationName name : context.getRegisteredOperationsByDialect("autopar")) {
    std::string op = name.getStringRef().drop_front(strlen("autopar.")).str();
    bool has = name.hasInterface<GradientOpInterface>();
    EXPECT_NE(has, notDifferentiable.count(op) == 1)
        << op << ": give it a gradient, or list it as not differentiable and say why";
    EXPECT_EQ(has, tested.count(op) + notRun.count(op) == 1)
        << op << ": has a gradient, but no case in GradientCases";
  }
}

/// The compiled function: its scalar and its gradient at given arguments.
class Evaluation {
public:
  explicit Evaluation(std::unique_ptr<Session> session) : session(std::move(session)) {}

  double value(const std::vector<std::vector<double>> &arguments) {
    const auto &inputs = session->inputs();
    for (size_t i = 0; i < inputs.size(); ++i) {
      size_t number = std::stoul(inputs[i].name.substr(1));
      auto status = session->setInput(inputs[i].name, inputs[i].dtype, inputs[i].shape,
                                      arguments[number].data());
      EXPECT_TRUE(status.isOk()) << status.message();
    }
    auto status = session->run(0, 1);
    EXPECT_TRUE(status.isOk()) << status.message();
    status = session->collectOutputs();
    EXPECT_TRUE(status.isOk()) << status.message();
    return *static_cast<const double *>(*session->output("loss"));
  }
  /// By argument `number`, of the last value().
  std::vector<double> gradient(size_t number, size_t count) {
    auto data = static_cast<const double *>(*session->output("g" + std::to_string(number)));
    return {data, data + count};
  }

private:
  std::unique_ptr<Session> session;
};

class GradientOf : public Gradient, public testing::WithParamInterface<size_t> {};

/// @main: the arguments -> sum of weights * function, and its gradient by every argument.
OwningOpRef<ModuleOp> buildModule(MLIRContext &context, const GradientCase &c, uint64_t seed,
                                  std::vector<std::vector<double>> &arguments) {
  Location loc = UnknownLoc::get(&context);
  OwningOpRef<ModuleOp> module = ModuleOp::create(loc);
  OpBuilder top = OpBuilder::atBlockEnd(module->getBody());
  auto function = func::FuncOp::create(top, loc, "main", top.getFunctionType({}, {}));
  function.addEntryBlock();
  CaseBuilder builder(function, seed);
  Value y = c.build(builder);
  RankedTensorType type = CaseBuilder::typeOf(y);
  Value weighted = BinaryOp::create(builder.builder, loc, type, BinaryKind::Mul, y,
                                    builder.numbers(type.getShape()));
  Value loss = weighted;
  if (type.getRank())
    loss = ReduceOp::create(builder.builder, loc, ReduceKind::Sum, weighted,
                            llvm::to_vector(llvm::seq<int64_t>(0, type.getRank())));
  FailureOr<SmallVector<Value>> gradients =
      differentiate(builder.builder, loss, function.getArguments());
  if (failed(gradients))
    return {};
  SmallVector<Value> results{loss};
  llvm::append_range(results, *gradients);
  func::ReturnOp::create(builder.builder, loc, results);
  function.setFunctionType(
      top.getFunctionType(function.getArgumentTypes(), ValueRange(results).getTypes()));
  function.setResultAttr(0, "autopar.name", top.getStringAttr("loss"));
  for (unsigned i = 1; i < results.size(); ++i)
    function.setResultAttr(i, "autopar.name", top.getStringAttr("g" + Twine(i - 1)));
  arguments = builder.values;
  // There is no kernel of f64. Rows of a triangle are written at once, one by one, or in pairs.
  PassManager expansion(&context);
  ExpandAttentionPassOptions attention;
  attention.rows = static_cast<int64_t>(seed % 3);
  expansion.addNestedPass<func::FuncOp>(createExpandAttentionPass(attention));
  expansion.addNestedPass<func::FuncOp>(createExpandConvolutionGradientsPass());
  if (failed(expansion.run(*module)))
    return {};
  return module;
}

/// The derivative along random directions, by the gradient and by differences.
void compareAlongDirections(Evaluation &evaluation, std::vector<std::vector<double>> arguments,
                            uint64_t seed) {
  constexpr double step = 1e-5;
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> draw(-1, 1);
  evaluation.value(arguments);
  std::vector<std::vector<double>> gradients;
  for (size_t i = 0; i < arguments.size(); ++i)
    gradients.push_back(evaluation.gradient(i, arguments[i].size()));
  for (int direction = 0; direction < 4; ++direction) {
    auto forward = arguments, backward = arguments;
    double expected = 0, scale = 1;
    for (size_t i = 0; i < arguments.size(); ++i)
      for (size_t j = 0; j < arguments[i].size(); ++j) {
        double along = draw(random);
        forward[i][j] += step * along;
        backward[i][j] -= step * along;
        expected += gradients[i][j] * along;
        scale += std::abs(gradients[i][j]);
      }
    double difference = (evaluation.value(forward) - evaluation.value(backward)) / (2 * step);
    EXPECT_NEAR(expected, difference, 2e-7 * scale);
  }
}

TEST_P(GradientOf, AgreesWithDifferences) {
  GradientCase c = gradientCases()[GetParam()];
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE(c.op + " " + c.variant + ", seed " + std::to_string(seed));
    std::vector<std::vector<double>> arguments;
    OwningOpRef<ModuleOp> module = buildModule(context, c, seed, arguments);
    ASSERT_TRUE(module);
    ASSERT_TRUE(succeeded(verify(*module)));
    auto session = autopar_law::openModule(*module);
    ASSERT_TRUE(session.isOk()) << session.status().message();
    Evaluation evaluation(session.take());
    compareAlongDirections(evaluation, arguments, seed);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, GradientOf, testing::Range<size_t>(0, gradientCases().size()),
                         [](const testing::TestParamInfo<size_t> &info) {
                           GradientCase c = gradientCases()[info.param];
                           return c.op + (c.variant.empty() ? "" : "_") + c.variant;
                         });

} // namespace
