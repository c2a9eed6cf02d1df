// SPDX-License-Identifier: Apache-2.0
// The kernel of several launches: each block runs the body of the launch that it belongs to.
#pragma once

#include "autopar/Dialect/Exec/IR/Exec.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::autopar {

/// Launches that become one, and the buffers that it is given.
struct LaunchRun {
  SmallVector<exec::LaunchOp> launches;
  llvm::SetVector<Value> inputs, outputs;

  void add(exec::LaunchOp launch);
};

/// Static shared memory of blocks. Bodies of a joined kernel share it: a block runs one of them.
class SharedBuffers {
public:
  /// Those of a kernel; nothing where it has memory that another body cannot be given.
  static std::optional<SharedBuffers> of(func::FuncOp kernel);

  /// What holds the buffers of either.
  SharedBuffers with(const SharedBuffers &other) const;
  int64_t bytes() const;

private:
  llvm::SmallMapVector<MemRefType, unsigned, 4> counts;
};

class JoinedKernel {
public:
  JoinedKernel(const LaunchRun &run, ModuleOp kernels);

  /// Runs of the same, as those of layers that are alike, have one kernel.
  std::string key();
  /// Adds the kernel to the module.
  func::FuncOp write(StringRef name);

private:
  /// What the blocks of one launch run.
  struct Body {
    func::FuncOp kernel;
    exec::LaunchOp launch;
    int64_t firstBlock = 0, blocks = 0, threads = 0;
  };

  size_t placeOf(exec::LaunchOp launch, size_t number) const;
  void writeBodies(OpBuilder &builder, size_t begin, size_t end);
  void writeBody(OpBuilder &builder, Body &body);
  void cloneBody(OpBuilder &builder, Body &body);
  void shareBuffers(ArrayRef<Operation *> ops);

  const LaunchRun &run;
  ModuleOp kernels;
  SmallVector<Body, 0> bodies;
  int64_t blocks = 0, mostThreads = 0;
  func::FuncOp made;
  Value block;
  llvm::DenseMap<std::pair<Type, unsigned>, Value> shared; ///< by their number among their type
};

} // namespace mlir::autopar
