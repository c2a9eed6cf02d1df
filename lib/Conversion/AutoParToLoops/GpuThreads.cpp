// SPDX-License-Identifier: Apache-2.0
// Thread positions, shared memory, shuffles.
#include "GpuThreads.h"
#include "LoweringModels.h"
#include "ScalarArithmetic.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::autopar;

Value autopar::emitThreadIndex(OpBuilder &builder, Location loc) {
  return gpu::ThreadIdOp::create(builder, loc, gpu::Dimension::x);
}

Value autopar::emitBlockIndex(OpBuilder &builder, Location loc) {
  return gpu::BlockIdOp::create(builder, loc, gpu::Dimension::x);
}

Value autopar::emitGridIndex(OpBuilder &builder, Location loc, int64_t threadsPerBlock) {
  Value first = arith::MulIOp::create(builder, loc, emitBlockIndex(builder, loc),
                                      indexConstant(builder, loc, threadsPerBlock));
  return arith::AddIOp::create(builder, loc, first, emitThreadIndex(builder, loc));
}

Value autopar::emitLaneIndex(OpBuilder &builder, Location loc) {
  return gpu::LaneIdOp::create(builder, loc, builder.getIndexAttr(kWarpThreads));
}

int64_t autopar::sharedBytesOf(int64_t elements, Type elementType) {
  int64_t bytes = elements * getStorageType(elementType).getIntOrFloatBitWidth() / 8;
  return llvm::alignTo(bytes, 16);
}

Value autopar::emitSharedBuffer(OpBuilder &builder, Location loc, int64_t elements,
                                Type elementType) {
  auto space =
      gpu::AddressSpaceAttr::get(builder.getContext(), gpu::GPUDialect::getWorkgroupAddressSpace());
  Type storage = getStorageType(elementType);
  int64_t padded = sharedBytesOf(elements, elementType) * 8 / storage.getIntOrFloatBitWidth();
  auto type = MemRefType::get({padded}, storage, MemRefLayoutAttrInterface{}, space);
  return memref::AllocaOp::create(builder, loc, type, builder.getI64IntegerAttr(16));
}

Value autopar::emitDynamicShared(OpBuilder &builder, Location loc, int64_t offset, int64_t elements,
                                 Type elementType) {
  auto space =
      gpu::AddressSpaceAttr::get(builder.getContext(), gpu::GPUDialect::getWorkgroupAddressSpace());
  // Of no elements: how large it is, the launch says.
  auto bytes = MemRefType::get({0}, builder.getI8Type(), MemRefLayoutAttrInterface{}, space);
  auto type =
      MemRefType::get({elements}, getStorageType(elementType), MemRefLayoutAttrInterface{}, space);
  Value all = memref::AllocaOp::create(builder, loc, bytes, builder.getI64IntegerAttr(16));
  return memref::ViewOp::create(builder, loc, type, all, indexConstant(builder, loc, offset),
                                ValueRange());
}

void autopar::emitStoreOfWarp(OpBuilder &builder, Location loc, Value value, Value buffer,
                              Value warp, int64_t warps, Value lane) {
  int64_t places = cast<MemRefType>(buffer.getType()).getNumElements();
  Value before = arith::MulIOp::create(builder, loc, lane, indexConstant(builder, loc, warps));
  Value place = arith::AddIOp::create(builder, loc, before, warp);
  Value writes = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, place,
                                       indexConstant(builder, loc, places));
  emitWhere(builder, loc, writes,
            [&](OpBuilder &b) { storeScalar(b, loc, value, buffer, place, value.getType()); });
}

void autopar::emitBarrier(OpBuilder &builder, Location loc) {
  gpu::BarrierOp::create(builder, loc);
}

void autopar::emitWhere(OpBuilder &builder, Location loc, Value condition,
                        function_ref<void(OpBuilder &)> body) {
  if (!condition)
    return body(builder);
  auto branch = scf::IfOp::create(builder, loc, condition, /*withElseRegion=*/false);
  OpBuilder inner = OpBuilder::atBlockBegin(branch.thenBlock());
  body(inner);
}

using ShuffleWord = function_ref<Value(Value)>;

/// Moves a value of any type between the threads of a warp by `shuffle`, which moves 32 bits.
static Value emitShuffle(OpBuilder &builder, Location loc, Value value, ShuffleWord shuffle) {
  Type type = value.getType(), i32 = builder.getI32Type(), i64 = builder.getI64Type();
  unsigned width = type.getIntOrFloatBitWidth();
  if (width == 32)
    return shuffle(value);
  if (width < 32) { // integers and booleans: narrow floats travel as f32
    Value wide = arith::ExtUIOp::create(builder, loc, i32, value);
    return arith::TruncIOp::create(builder, loc, type, shuffle(wide));
  }
  Value bits = type.isInteger() ? value : arith::BitcastOp::create(builder, loc, i64, value);
  Value half = arith::ConstantIntOp::create(builder, loc, i64, 32);
  Value low = arith::TruncIOp::create(builder, loc, i32, bits);
  Value high =
      arith::TruncIOp::create(builder, loc, i32, arith::ShRUIOp::create(builder, loc, bits, half));
  low = arith::ExtUIOp::create(builder, loc, i64, shuffle(low));
  high = arith::ExtUIOp::create(builder, loc, i64, shuffle(high));
  bits = arith::OrIOp::create(builder, loc, low, arith::ShLIOp::create(builder, loc, high, half));
  return type.isInteger() ? bits : arith::BitcastOp::create(builder, loc, type, bits).getResult();
}

static Value emitShuffle(OpBuilder &builder, Location loc, Value value, int64_t by,
                         gpu::ShuffleMode mode) {
  return emitShuffle(builder, loc, value, [&](Value word) {
    return gpu::ShuffleOp::create(builder, loc, word, by, kWarpThreads, mode).getShuffleResult();
  });
}

Value autopar::emitShuffleXor(OpBuilder &builder, Location loc, Value value, int64_t mask) {
  return emitShuffle(builder, loc, value, mask, gpu::ShuffleMode::XOR);
}

Value autopar::emitShuffleUp(OpBuilder &builder, Location loc, Value value, int64_t lanes) {
  return emitShuffle(builder, loc, value, lanes, gpu::ShuffleMode::UP);
}

Value autopar::emitShuffleFrom(OpBuilder &builder, Location loc, Value value, Value lane) {
  Type i32 = builder.getI32Type(), i1 = builder.getI1Type();
  Value source = arith::IndexCastOp::create(builder, loc, i32, lane);
  Value width = arith::ConstantIntOp::create(builder, loc, i32, kWarpThreads);
  return emitShuffle(builder, loc, value, [&](Value word) -> Value {
    return gpu::ShuffleOp::create(builder, loc, word.getType(), i1, word, source, width,
                                  gpu::ShuffleMode::IDX)
        .getShuffleResult();
  });
}

SmallVector<Value> autopar::emitLanesCombine(OpBuilder &builder, Location loc, ValueRange values,
                                             int64_t lanes, CombineValues combine) {
  SmallVector<Value> joined(values);
  for (int64_t mask = lanes / 2; mask > 0; mask /= 2) {
    SmallVector<Value> others = llvm::map_to_vector(
        joined, [&](Value value) { return emitShuffleXor(builder, loc, value, mask); });
    joined = combine(builder, joined, others);
  }
  return joined;
}

int64_t autopar::elementsOfVector(const ElementEmitter &emitter, int64_t leastElements) {
  int64_t bytes = 4;
  for (Value value : llvm::concat<const Value>(emitter.body.inputs, emitter.body.outputs)) {
    auto type = cast<RankedTensorType>(value.getType());
    if (type.getElementType().isIntOrFloat() && type.getNumElements() >= leastElements)
      bytes = std::min<int64_t>(bytes, std::max(2u, (type.getElementTypeBitWidth() + 7) / 8));
  }
  return 16 / bytes;
}

int64_t autopar::chooseVectorWidth(const ElementEmitter &emitter, int64_t extent,
                                   int64_t leastElements) {
  int64_t width = elementsOfVector(emitter, leastElements);
  while (extent % width != 0)
    width /= 2;
  return width;
}
