// SPDX-License-Identifier: Apache-2.0
// The evaluator of constants: scalar meaning at the edges, data movement, limits.
#include "autopar/Dialect/AutoPar/IR/ConstantFolding.h"
#include "autopar/Dialect/AutoPar/IR/AutoPar.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace mlir::autopar;

namespace {
struct ConstantFolding : testing::Test {
  MLIRContext context{MLIRContext::Threading::DISABLED};
  OpBuilder builder{&context};
  OwningOpRef<ModuleOp> module;

  ConstantFolding() {
    context.loadDialect<AutoParDialect>();
    module = ModuleOp::create(builder.getUnknownLoc());
    builder.setInsertionPointToEnd(module->getBody());
  }
  DenseElementsAttr integers(ArrayRef<int64_t> shape, ArrayRef<int64_t> values) {
    return DenseElementsAttr::get(RankedTensorType::get(shape, builder.getI64Type()), values);
  }
  Value value(DenseElementsAttr attribute) {
    return ConstantOp::create(builder, builder.getUnknownLoc(), attribute);
  }
  template <typename OpTy, typename... Args>
  OpTy make(Args &&...args) {
    return OpTy::create(builder, builder.getUnknownLoc(), std::forward<Args>(args)...);
  }
  std::optional<SmallVector<int64_t>> evaluate(Operation *op,
                                               ArrayRef<DenseElementsAttr> operands) {
    auto results = evaluateConstant(op, operands);
    if (!results)
      return std::nullopt;
    return SmallVector<int64_t>(results->front().getValues<int64_t>());
  }
};

TEST_F(ConstantFolding, DividesAsMachinesDo) {
  DenseElementsAttr a = integers({3}, {-7, 7, INT64_MIN}), b = integers({3}, {2, -2, -1});
  Value lhs = value(a), rhs = value(b);
  EXPECT_EQ(*evaluate(make<BinaryOp>(BinaryKind::Div, lhs, rhs), {a, b}),
            (SmallVector<int64_t>{-3, -3, INT64_MIN}));
  EXPECT_EQ(*evaluate(make<BinaryOp>(BinaryKind::Modulo, lhs, rhs), {a, b}),
            (SmallVector<int64_t>{1, -1, 0}));
  EXPECT_EQ(*evaluate(make<BinaryOp>(BinaryKind::Remainder, lhs, rhs), {a, b}),
            (SmallVector<int64_t>{-1, 1, 0}));
  DenseElementsAttr zero = integers({3}, {1, 0, 1});
  EXPECT_FALSE(evaluate(make<BinaryOp>(BinaryKind::Div, lhs, value(zero)), {a, zero}));
}

TEST_F(ConstantFolding, MovesData) {
  DenseElementsAttr a = integers({2, 3}, {0, 1, 2, 3, 4, 5});
  Value x = value(a);
  EXPECT_EQ(*evaluate(make<TransposeOp>(x, ArrayRef<int64_t>{1, 0}), {a}),
            (SmallVector<int64_t>{0, 3, 1, 4, 2, 5}));
  auto reversed = RankedTensorType::get({2, 2}, builder.getI64Type());
  EXPECT_EQ(
      *evaluate(make<SliceOp>(reversed, x, ArrayRef<int64_t>{0, 2}, ArrayRef<int64_t>{1, -2}), {a}),
      (SmallVector<int64_t>{2, 0, 5, 3}));
  DenseElementsAttr at = integers({2, 1}, {-1, 0});
  auto gathered = RankedTensorType::get({2, 2}, builder.getI64Type());
  EXPECT_EQ(*evaluate(make<GatherOp>(gathered, x, value(at), ArrayRef<int64_t>{1}, 0), {a, at}),
            (SmallVector<int64_t>{2, 0, 5, 3}));
  EXPECT_EQ(*evaluate(make<ReduceOp>(ReduceKind::Max, x, ArrayRef<int64_t>{0}), {a}),
            (SmallVector<int64_t>{3, 4, 5}));
}

TEST_F(ConstantFolding, LeavesRepetitionToRunTime) {
  DenseElementsAttr one = integers({}, {7});
  Value x = value(one);
  auto wide = RankedTensorType::get({1 << 12}, builder.getI64Type()),
       narrow = RankedTensorType::get({8}, builder.getI64Type());
  EXPECT_FALSE(evaluateConstant(make<BroadcastOp>(wide, x, ArrayRef<int64_t>{}), {one}));
  EXPECT_TRUE(evaluateConstant(make<BroadcastOp>(narrow, x, ArrayRef<int64_t>{}), {one}));
}

TEST_F(ConstantFolding, RoundsFloatsOnce) {
  auto type = RankedTensorType::get({2}, builder.getF32Type());
  DenseElementsAttr a = DenseElementsAttr::get(type, ArrayRef<float>{1.0f, 16777216.0f}),
                    b = DenseElementsAttr::get(type, ArrayRef<float>{3.0f, 1.0f});
  Value lhs = value(a), rhs = value(b);
  auto sum = evaluateConstant(make<BinaryOp>(BinaryKind::Add, lhs, rhs), {a, b});
  EXPECT_EQ(SmallVector<float>(sum->front().getValues<float>()),
            (SmallVector<float>{4.0f, 16777216.0f}));
  auto ratio = evaluateConstant(make<BinaryOp>(BinaryKind::Div, lhs, rhs), {a, b});
  EXPECT_EQ((*ratio->front().getValues<float>().begin()), 1.0f / 3.0f);
}
} // namespace
