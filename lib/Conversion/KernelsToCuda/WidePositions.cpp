// SPDX-License-Identifier: Apache-2.0
// Positions of 32 bits, which GPUs compute with, also where a buffer has more elements than they
// count: what is too large in a position (a row's number times its length) becomes an address of 64
// bits, which LLVM computes once per row, and the rest stays narrow.
#include "CudaStages.h"
#include "PositionBounds.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace autopar::cuda {
namespace {

/// Positions that come from memory have no known bounds; within such buffers they are far from the
/// end of the signed range.
constexpr int64_t mostElements = int64_t{1} << 30;
constexpr uint64_t largestNarrow = std::numeric_limits<int32_t>::max();

bool isWide(Value buffer) {
  auto type = dyn_cast<MemRefType>(buffer.getType());
  return type && type.getNumElements() > mostElements;
}

/// A position as a sum: of narrow ones, and of narrow ones times a factor.
struct Position {
  SmallVector<Value> narrow;
  SmallVector<std::pair<Value, int64_t>> scaled;
  uint64_t largest = 0; ///< of the sum of `narrow`
};

class PositionSplitter {
public:
  PositionSplitter(func::FuncOp kernel, ArrayRef<int64_t> grid)
      : kernel(kernel), bounds(kernel, grid) {}

  /// Splits the positions of all accesses to wide buffers, or none if one of them resists.
  bool run();

private:
  bool isNarrow(Value value) const {
    std::optional<uint64_t> bound = bounds.of(value);
    return bound && *bound <= largestNarrow;
  }
  bool split(Value value, Position &position) const;
  void rewrite(Operation *access, const Position &position);
  void eraseUnused();

  func::FuncOp kernel;
  PositionBounds bounds;
};

bool PositionSplitter::split(Value value, Position &position) const {
  if (isNarrow(value)) {
    position.narrow.push_back(value);
    position.largest += *bounds.of(value);
    return position.largest <= largestNarrow;
  }
  if (auto sum = value.getDefiningOp<arith::AddIOp>())
    return split(sum.getLhs(), position) && split(sum.getRhs(), position);
  auto product = value.getDefiningOp<arith::MulIOp>();
  APInt factor;
  if (!product || !matchPattern(product.getRhs(), m_ConstantInt(&factor)) ||
      !isNarrow(product.getLhs()))
    return false;
  position.scaled.push_back({product.getLhs(), factor.getSExtValue()});
  return true;
}

bool PositionSplitter::run() {
  SmallVector<std::pair<Operation *, Position>> accesses;
  for (BlockArgument buffer : kernel.getArguments()) {
    if (!isWide(buffer))
      continue;
    for (Operation *user : buffer.getUsers()) {
      Position position;
      if (!isa<memref::LoadOp, memref::StoreOp>(user) ||
          !split(user->getOperands().back(), position))
        return false;
      accesses.push_back({user, position});
    }
  }
  auto pointer = LLVM::LLVMPointerType::get(kernel.getContext());
  SmallVector<Type> types(kernel.getArgumentTypes());
  for (auto [buffer, type] : llvm::zip(kernel.getArguments(), types))
    if (isWide(buffer))
      type = pointer;
  for (auto &[access, position] : accesses)
    rewrite(access, position);
  kernel.setType(FunctionType::get(kernel.getContext(), types, {}));
  for (auto [buffer, type] : llvm::zip(kernel.getArguments(), types))
    buffer.setType(type);
  eraseUnused();
  return true;
}

/// The access through a pointer. Its operand, the buffer, becomes one when all accesses are done.
void PositionSplitter::rewrite(Operation *access, const Position &position) {
  OpBuilder builder(access);
  Location loc = access->getLoc();
  auto flags =
      arith::IntegerOverflowFlagsAttr::get(builder.getContext(), arith::IntegerOverflowFlags::nsw);
  auto pointer = LLVM::LLVMPointerType::get(builder.getContext());
  Value buffer = access->getOperand(isa<memref::LoadOp>(access) ? 0 : 1);
  Type element = cast<MemRefType>(buffer.getType()).getElementType();
  auto advance = [&](Value address, ValueRange terms) {
    Value offset;
    for (Value term : terms)
      offset = offset ? arith::AddIOp::create(builder, loc, offset, term, flags).getResult() : term;
    return offset ? LLVM::GEPOp::create(builder, loc, pointer, element, address, offset,
                                        LLVM::GEPNoWrapFlags::inbounds)
                        .getResult()
                  : address;
  };
  SmallVector<Value> wide, narrow;
  for (auto [value, factor] : position.scaled) {
    Value term = arith::IndexCastOp::create(builder, loc, builder.getI64Type(), value);
    Value by = arith::ConstantIntOp::create(builder, loc, builder.getI64Type(), factor);
    wide.push_back(arith::MulIOp::create(builder, loc, term, by, flags));
  }
  for (Value value : position.narrow)
    narrow.push_back(arith::IndexCastOp::create(builder, loc, builder.getI32Type(), value));
  Value address = advance(advance(buffer, wide), narrow);
  if (auto load = dyn_cast<memref::LoadOp>(access))
    load.getResult().replaceAllUsesWith(LLVM::LoadOp::create(builder, loc, element, address));
  else
    LLVM::StoreOp::create(builder, loc, access->getOperand(0), address);
  access->erase();
}

/// The arithmetic that wide positions were made of.
void PositionSplitter::eraseUnused() {
  SmallVector<Operation *> all;
  kernel.walk([&](Operation *op) { all.push_back(op); });
  for (Operation *op : llvm::reverse(all))
    if (isOpTriviallyDead(op))
      op->erase();
}

} // namespace

unsigned narrowPositions(func::FuncOp kernel, ArrayRef<int64_t> grid) {
  // The global index that random numbers are drawn from is a wider number.
  bool isDrawnFrom = kernel
                         .walk([](Operation *op) {
                           bool isCast = isa<arith::IndexCastOp, arith::IndexCastUIOp>(op);
                           return isCast && op->getResult(0).getType().isInteger(64)
                                      ? WalkResult::interrupt()
                                      : WalkResult::advance();
                         })
                         .wasInterrupted();
  if (isDrawnFrom)
    return 64;
  if (llvm::any_of(kernel.getArguments(), isWide) && !PositionSplitter(kernel, grid).run())
    return 64;
  // The points of a sum over an outer product are more than any buffer has elements.
  return PositionBounds(kernel, grid).largest() <= largestNarrow ? 32 : 64;
}

} // namespace autopar::cuda
