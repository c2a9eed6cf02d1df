// SPDX-License-Identifier: Apache-2.0
// What lasts from step to step: parameters, state, the number of the step, the learning rate.
#include "../Law/RunModule.h"
#include "autopar/InitAll.h"
#include "mlir/Parser/Parser.h"
#include <gtest/gtest.h>
#include <limits>

using namespace mlir;
using ::autopar::runtime::Session;

namespace {

class Step : public testing::Test {
protected:
  Step() {
    DialectRegistry registry;
    mlir::autopar::registerAllDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    context.disableMultithreading();
  }

  std::unique_ptr<Session> open(const char *text) {
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module);
    auto session = autopar_law::openModule(*module);
    EXPECT_TRUE(session.isOk()) << session.status().message();
    return session.isOk() ? session.take() : nullptr;
  }

  static double run(Session &session, int64_t step, const char *output) {
    EXPECT_TRUE(session.run(step, 1).isOk());
    EXPECT_TRUE(session.collectOutputs().isOk());
    return *static_cast<const double *>(*session.output(output));
  }

  MLIRContext context;
};

TEST_F(Step, StateAndControlWords) {
  // sum' = sum + rate * (step + 1); the output is the old sum.
  std::unique_ptr<Session> session = open(R"mlir(
    func.func @main(%sum: tensor<f64> {autopar.name = "sum", autopar.donated},
                    %rate: tensor<f64> {autopar.name = "rate", autopar.control = "learning_rate", autopar.initial = 0.5 : f64},
                    %step: tensor<i64> {autopar.name = "step", autopar.control = "step"})
        -> (tensor<f64> {autopar.name = "sum"}, tensor<f64> {autopar.name = "y"}) {
      %one = autopar.constant {autopar.id = "one"} dense<1.0> : tensor<f64>
      %s = autopar.cast %step {autopar.id = "cast"} : tensor<i64> -> tensor<f64>
      %t = autopar.binary add %s, %one {autopar.id = "t"} : tensor<f64>
      %d = autopar.binary mul %rate, %t {autopar.id = "d"} : tensor<f64>
      %n = autopar.binary add %sum, %d {autopar.id = "n"} : tensor<f64>
      return %n, %sum : tensor<f64>, tensor<f64>
    })mlir");
  ASSERT_TRUE(session);
  EXPECT_EQ(run(*session, 0, "y"), 0);
  EXPECT_EQ(run(*session, 1, "y"), 0.5);
  EXPECT_EQ(run(*session, 2, "y"), 1.5);
  ASSERT_TRUE(session->setLearningRate(2).isOk());
  EXPECT_EQ(run(*session, 3, "y"), 3);
  EXPECT_EQ(run(*session, 4, "y"), 11);
}

TEST_F(Step, StateMayChangePlaces) {
  std::unique_ptr<Session> session = open(R"mlir(
    func.func @main(%a: tensor<f64> {autopar.name = "a", autopar.donated}, %b: tensor<f64> {autopar.name = "b", autopar.donated})
        -> (tensor<f64> {autopar.name = "a"}, tensor<f64> {autopar.name = "b"}, tensor<f64> {autopar.name = "y"}) {
      %one = autopar.constant {autopar.id = "one"} dense<1.0> : tensor<f64>
      %n = autopar.binary add %a, %one {autopar.id = "n"} : tensor<f64>
      %y = autopar.binary sub %a, %b {autopar.id = "y"} : tensor<f64>
      return %b, %n, %y : tensor<f64>, tensor<f64>, tensor<f64>
    })mlir");
  ASSERT_TRUE(session);
  // (a, b): (0, 0), (0, 1), (1, 1), (1, 2)
  for (int64_t step = 0; step < 4; ++step)
    EXPECT_EQ(run(*session, step, "y"), step % 2 ? -1 : 0);
}

TEST_F(Step, UpdatesInPlaceReadOldValues) {
  // Both results of one kernel read both arguments: (a, b) -> (a + b, a - b).
  std::unique_ptr<Session> session = open(R"mlir(
    func.func @main(%a: tensor<64xf64> {autopar.name = "a", autopar.donated}, %b: tensor<64xf64> {autopar.name = "b", autopar.donated})
        -> (tensor<64xf64> {autopar.name = "a"}, tensor<64xf64> {autopar.name = "b"}, tensor<f64> {autopar.name = "y"}) {
      %one = autopar.constant {autopar.id = "one"} dense<1.0> : tensor<64xf64>
      %a1 = autopar.binary add %a, %one {autopar.id = "a1"} : tensor<64xf64>
      %y = autopar.reduce sum %b dims [0] {autopar.id = "y"} : tensor<64xf64> -> tensor<f64>
      %p = autopar.binary add %a1, %b {autopar.id = "p"} : tensor<64xf64>
      %m = autopar.binary sub %a1, %b {autopar.id = "m"} : tensor<64xf64>
      return %p, %m, %y : tensor<64xf64>, tensor<64xf64>, tensor<f64>
    })mlir");
  ASSERT_TRUE(session);
  double a = 0, b = 0;
  for (int64_t step = 0; step < 5; ++step) {
    EXPECT_EQ(run(*session, step, "y"), 64 * b);
    std::tie(a, b) = std::pair(a + 1 + b, a + 1 - b);
  }
}

TEST_F(Step, ProgramsWithoutStepsHaveNoLearningRate) {
  std::unique_ptr<Session> session = open(R"mlir(
    func.func @main(%x: tensor<f64> {autopar.name = "x"}) -> (tensor<f64> {autopar.name = "y"}) {
      %y = autopar.unary neg %x {autopar.id = "y"} : tensor<f64>
      return %y : tensor<f64>
    })mlir");
  ASSERT_TRUE(session);
  ::autopar::Status status = session->setLearningRate(1);
  EXPECT_NE(status.message().find("has no learning rate: compile the model with --train"),
            std::string::npos);
  for (double rate : {-1.0, std::numeric_limits<double>::quiet_NaN()})
    EXPECT_NE(
        session->setLearningRate(rate).message().find("expected a number that is not negative"),
        std::string::npos);
}

} // namespace
