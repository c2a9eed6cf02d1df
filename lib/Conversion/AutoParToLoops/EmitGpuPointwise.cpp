// SPDX-License-Identifier: Apache-2.0
// Pointwise kernels for a GPU: a thread takes neighbouring elements of the innermost loop, enough
// for accesses of 16 bytes. They are emitted one by one; LLVM joins loads and stores that lie side
// by side.
#include "GpuThreads.h"
#include "LoopNest.h"
#include "LoweringModels.h"
#include "ScalarArithmetic.h"

using namespace mlir;
using namespace mlir::autopar;

static constexpr int64_t blockThreads = 256;

GpuGrid autopar::emitGpuPointwise(KernelFrame &kernel, ElementEmitter &emitter) {
  const KernelPlan &plan = emitter.plan;
  Location loc = emitter.loc;
  SmallVector<int64_t> extents = plan.extents();
  int64_t points = 1;
  for (int64_t extent : extents)
    points *= extent;
  int64_t width = extents.empty() ? 1 : chooseVectorWidth(emitter, extents.back(), points / 2 + 1);
  if (!extents.empty())
    extents.back() /= width;
  int64_t count = points / width;
  GpuGrid grid =
      GpuGrid::over(count, std::clamp((count + 31) / 32 * 32, kWarpThreads, blockThreads));
  Value position = emitGridIndex(kernel.body, loc, grid.threads);
  Value inside;
  if (count < grid.blocks * grid.threads)
    inside = arith::CmpIOp::create(kernel.body, loc, arith::CmpIPredicate::ult, position,
                                   indexConstant(kernel.body, loc, count));
  emitWhere(kernel.body, loc, inside, [&](OpBuilder &builder) {
    SmallVector<Value> indices = emitDelinearize(builder, loc, position, extents);
    for (auto [loop, index] : llvm::enumerate(indices))
      emitter.bind(loop, index);
    SmallVector<Value> last;
    for (int64_t i = 0; i < width && width > 1; ++i) {
      Value first =
          arith::MulIOp::create(builder, loc, indices.back(), indexConstant(builder, loc, width));
      last.push_back(arith::AddIOp::create(builder, loc, first, indexConstant(builder, loc, i)));
    }
    auto each = [&](function_ref<void(size_t)> body) {
      for (int64_t i = 0; i < width; ++i) {
        if (width > 1)
          emitter.rebind(indices.size() - 1, last[i]);
        body(i);
      }
    };
    // All are computed first: an output may lie over an input that another one reads.
    SmallVector<SmallVector<Value>> scalars(width);
    each([&](size_t i) {
      for (const PlannedOutput &output : plan.outputs)
        scalars[i].push_back(emitter.evaluate(builder, output.value, output.index));
    });
    each([&](size_t i) {
      for (auto [output, scalar] : llvm::zip_equal(plan.outputs, scalars[i]))
        emitter.storeAt(builder, placeOf(kernel, emitter, output), scalar);
    });
  });
  return grid;
}
