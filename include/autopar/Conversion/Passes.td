// SPDX-License-Identifier: Apache-2.0
// Passes that lower one dialect to another.

#ifndef AUTOPAR_CONVERSION_PASSES_TD
#define AUTOPAR_CONVERSION_PASSES_TD

include "mlir/Pass/PassBase.td"

def AutoParToExecPass : Pass<"autopar-to-exec", "mlir::ModuleOp"> {
  let summary = "lower the local function to a program of library calls, kernels and collectives";
  let description = [{
    `@main` on local shapes becomes `exec.program @class0` with the entries `load` and `step`, the kernels in
    a nested module, and one `exec.rank` per rank of the mesh (one without a mesh). Transposes and
    reshapes around matrix products become strides; weights that only a product reads are packed in
    `load`. Buffers have no offsets yet.

    ```
    func.func @main(%x: tensor<4x8xf32> {autopar.name = "x"}) -> (tensor<8x4xf32> {autopar.name = "y"}) {
      %y = autopar.transpose %x permutation [1, 0] : tensor<4x8xf32> -> tensor<8x4xf32>
      return %y : tensor<8x4xf32>
    }
    ```
  }];
  let dependentDialects = ["mlir::autopar::AutoParDialect", "mlir::exec::ExecDialect", "mlir::gpu::GPUDialect"];
  let options = [
    Option<"threads", "threads", "int64_t", "1", "threads per rank that scratch is planned for">,
    Option<"packWeights", "pack-weights", "bool", "true", "store weights in the library's own layout at load">,
    Option<"channelBlock", "channel-block", "int64_t", "0", "channels per block of convolutions' activations: 8, 16, 1 (plain), 0 (this machine's)">,
    Option<"target", "target", "Target", "Target::Cpu", "who runs the program: cpu or cuda">,
    Option<"convolutions", "convolutions", "std::string", "\"auto\"", "on GPUs: auto (calls where the library has them) or kernels">,
  ];
}

def JoinLaunchesPass : Pass<"autopar-join-launches", "mlir::ModuleOp"> {
  let summary = "run several small kernels by one launch";
  let description = [{
    For GPUs: launches that do not need each other become one. Its kernel has the blocks of all of them, and a block runs the body of the
    launch that it belongs to. Joined are

    - updates: what follows one another and writes nothing but states of the program, each in place;
    - launches that move at most 16 MiB, also where others stand between them (casts of parameters, second sums of gradients, their norms): a launch runs
      as early as those that it joins, or they as late as it does, where no instruction needs their order. It passes no instruction of
      another queue on its way to the front, and buffers do not live longer where that took more memory at the peak.

    Bodies with a barrier are joined with those of as many threads alone. What an evaluation of the loss needs is not joined with what it does not need. A launch takes as many as 512 buffers.

    ```mlir
    exec.launch @k0(%w, %dw) -> (%w) extent 4 grid [4, 256, 0]
    exec.launch @k1(%b, %db) -> (%b) extent 1 grid [1, 32, 0]
    ```
    becomes
    ```mlir
    exec.launch @joined0(%w, %dw, %b, %db) -> (%w, %b) extent 5 grid [5, 256, 0]
    ```
  }];
  let dependentDialects = ["mlir::exec::ExecDialect", "mlir::gpu::GPUDialect", "mlir::scf::SCFDialect", "mlir::arith::ArithDialect", "mlir::NVVM::NVVMDialect"];
}

def AutoParToLoopsPass : Pass<"autopar-to-loops", "mlir::ModuleOp"> {
  let summary = "show the kernels that groups and operations become";
  let description = [{
    Adds a module `@kernels` with one function of loops over flat buffers per fusion group and per
    operation that generates code, named after its function and position; `autopar.extent` is the number
    of independent iterations. Views, constants, collectives and library calls have no kernel. The
    functions themselves stay: lowering to a program emits the same kernels on its own.

    ```mlir
    func.func @main(%x: tensor<64xf32>) -> tensor<64xf32> {
      %y = autopar.unary tanh %x : tensor<64xf32>
      return %y : tensor<64xf32>
    }
    ```
    gets
    ```mlir
    module @kernels {
      func.func @main_0(%arg0: memref<64xf32>, %arg1: memref<64xf32>, %arg2: index, %arg3: index) attributes {autopar.extent = 1 : i64} { ... }
    }
    ```

    With `target=cuda` a function is what one thread of a GPU does, and `autopar.grid` gives the blocks, the threads of a
    block and its dynamic shared memory.
  }];
  let options = [
    Option<"target", "target", "Target", "Target::Cpu", "who runs the kernels: cpu or cuda">,
  ];
  let dependentDialects = ["mlir::autopar::AutoParDialect", "mlir::arith::ArithDialect", "mlir::func::FuncDialect",
                           "mlir::math::MathDialect", "mlir::memref::MemRefDialect", "mlir::scf::SCFDialect",
                           "mlir::gpu::GPUDialect"];
}

def ToShardPass : Pass<"autopar-to-shard", "mlir::ModuleOp"> {
  let summary = "express mesh and collectives in the upstream shard dialect";
  let description = [{
    `autopar.mesh` becomes `shard.grid` (its axis names kept in the attribute `autopar.axes`), the
    collectives become those of the shard dialect, and the slice that a rank takes of its own shard
    becomes `shard.all_slice`.

    ```
    autopar.mesh @mesh ["t" = 2]
    func.func @main(%x: tensor<4xf32>) -> tensor<8xf32> {
      %y = autopar.all_gather %x dim 0 over @mesh ["t"] : tensor<4xf32> -> tensor<8xf32>
      return %y : tensor<8xf32>
    }
    ```
  }];
  let dependentDialects = ["mlir::autopar::AutoParDialect", "mlir::shard::ShardDialect"];
}

def FromShardPass : Pass<"autopar-from-shard", "mlir::ModuleOp"> {
  let summary = "read mesh and collectives from the upstream shard dialect";
  let description = [{
    The inverse of `autopar-to-shard`. Axes of a grid without `autopar.axes` are named axis0, axis1, ...
    Collectives that AutoPar has no equal for are refused.
  }];
  let dependentDialects = ["mlir::autopar::AutoParDialect", "mlir::shard::ShardDialect"];
}

#endif
