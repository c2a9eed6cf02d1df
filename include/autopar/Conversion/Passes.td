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
    Option<"target", "target", "std::string", "\"cpu\"", "who runs the program: cpu or cuda">,
    Option<"convolutions", "convolutions", "std::string", "\"auto\"", "on GPUs: auto (calls where the library has them) or kernels">,
  ];
}

def WidenHalfProductsPass : Pass<"autopar-widen-half-products", "mlir::func::FuncOp"> {
  let summary = "compute products of f16 in f32";
  let description = [{
    The library of the CPU has no matrix products and convolutions of f16. Their operands are widened, each once, and the
    result is rounded.

    ```mlir
    %y = autopar.dot_general %x, %w contract [1] x [0] : (tensor<2x4xf16>, tensor<4x4xf16>) -> tensor<2x4xf16>
    ```
    becomes
    ```mlir
    %a = autopar.cast %x : tensor<2x4xf16> -> tensor<2x4xf32>
    %b = autopar.cast %w : tensor<4x4xf16> -> tensor<4x4xf32>
    %p = autopar.dot_general %a, %b contract [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %y = autopar.cast %p : tensor<2x4xf32> -> tensor<2x4xf16>
    ```
  }];
  let dependentDialects = ["mlir::autopar::AutoParDialect"];
}

def RoundInProductsPass : Pass<"autopar-round-in-products", "mlir::func::FuncOp"> {
  let summary = "round parameters to bf16 where products read them";
  let description = [{
    A group that only rounds a donated f32 argument to bf16, for the right sides of products, moves into the groups of these
    products: the library call reads f32 and rounds. Parameters that stay the same are left: they are rounded once, at load.

    ```mlir
    %r = autopar.group %w : (tensor<64x64xf32>) -> tensor<64x64xbf16> { ^bb0(%v: tensor<64x64xf32>): cast, yield }
    %y = autopar.group %x, %r : (tensor<4x64xbf16>, tensor<64x64xbf16>) -> tensor<4x64xbf16> { dot_general, yield }
    ```
    becomes
    ```mlir
    %y = autopar.group %x, %w : (tensor<4x64xbf16>, tensor<64x64xf32>) -> tensor<4x64xbf16> { cast, dot_general, yield }
    ```
  }];
  let dependentDialects = ["mlir::autopar::AutoParDialect"];
}

def SplitReductionsPass : Pass<"autopar-split-reductions", "mlir::func::FuncOp"> {
  let summary = "divide reductions of many elements into few results";
  let description = [{
    For GPUs: a kernel gives a row at most one block of threads. A reduction whose rows are too few to fill the GPU and too
    long for one block becomes one of parts, as many as a divisor of the extent allows, and one of their results. Parts of
    f16 and bf16 are kept in f32.

    ```mlir
    %y = autopar.reduce sum %x dims [0] : tensor<4096x64xf32> -> tensor<64xf32>
    ```
    becomes
    ```mlir
    %d = autopar.reshape %x : tensor<4096x64xf32> -> tensor<16x256x64xf32>
    %p = autopar.reduce sum %d dims [1] : tensor<16x256x64xf32> -> tensor<16x64xf32>
    %y = autopar.reduce sum %p dims [0] : tensor<16x64xf32> -> tensor<64xf32>
    ```
  }];
  let dependentDialects = ["mlir::autopar::AutoParDialect"];
}

def JoinProductsPass : Pass<"autopar-join-products", "mlir::func::FuncOp"> {
  let summary = "multiply a value by several weights at once";
  let description = [{
    Products of one value with weights that are known at load (query, key and value of an attention, gate and value of an MLP) become one
    with the weights side by side, and their biases; what one of them yielded is a part of its columns. The weights are put together where they are
    read: each is still a parameter of its own, under its own name. Weights that a step changes, or that somebody else reads, are left alone, and so are
    products whose result leaves the function or is read by a collective, which would have to be copied out, or has a residual or an activation that the library adds to the product.

    ```mlir
    %q = autopar.dot_general %x, %u contract [1] x [0] : (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>
    %k = autopar.dot_general %x, %v contract [1] x [0] : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
    ```
    becomes
    ```mlir
    %w = autopar.concat %u, %v dim 1 : (tensor<64x64xf32>, tensor<64x32xf32>) -> tensor<64x96xf32>
    %y = autopar.dot_general %x, %w contract [1] x [0] : (tensor<8x64xf32>, tensor<64x96xf32>) -> tensor<8x96xf32>
    %q = autopar.slice %y starts [0, 0] steps [1, 1] : tensor<8x96xf32> -> tensor<8x64xf32>
    %k = autopar.slice %y starts [0, 64] steps [1, 1] : tensor<8x96xf32> -> tensor<8x32xf32>
    ```
  }];
  let dependentDialects = ["mlir::autopar::AutoParDialect"];
}

def AlignProductsPass : Pass<"autopar-align-products", "mlir::func::FuncOp"> {
  let summary = "pad matrices of f16 and bf16 whose rows are no multiple of 16 bytes";
  let description = [{
    For GPUs, whose tensor cores want aligned rows. A dimension along which a matrix of a product has rows of an odd size is
    padded with zeros in all matrices that have it, where they are used often enough to pay for the copy. Products that
    read the same matrix share the padded one.

    ```mlir
    %y = autopar.dot_general %x, %w contract [1] x [1] : (tensor<2048x768xbf16>, tensor<50257x768xbf16>) -> tensor<2048x50257xbf16>
    ```
    becomes
    ```mlir
    %p = autopar.pad %w, %zero low [0, 0] : (tensor<50257x768xbf16>, tensor<bf16>) -> tensor<50264x768xbf16>
    %q = autopar.dot_general %x, %p contract [1] x [1] : (tensor<2048x768xbf16>, tensor<50264x768xbf16>) -> tensor<2048x50264xbf16>
    %y = autopar.slice %q starts [0, 0] steps [1, 1] : tensor<2048x50264xbf16> -> tensor<2048x50257xbf16>
    ```
  }];
  let dependentDialects = ["mlir::autopar::AutoParDialect"];
}

def ComputePaddedPass : Pass<"autopar-compute-padded", "mlir::func::FuncOp"> {
  let summary = "compute element by element in padding what is going to be padded";
  let description = [{
    Behind autopar-align-products: a value that is computed from a part of a padded value, and then padded, is computed of
    the padded value as a whole. Reductions on the way see their identity in the padding. So the kernel of a loss reads and
    writes aligned rows, and nothing is copied. Regions of which somebody reads an unpadded value stay.

    ```mlir
    %x = autopar.slice %logits starts [0, 0] steps [1, 1] : tensor<2048x50264xbf16> -> tensor<2048x50257xbf16>
    %g = autopar.unary exp %x : tensor<2048x50257xbf16>
    %p = autopar.pad %g, %zero low [0, 0] : (tensor<2048x50257xbf16>, tensor<bf16>) -> tensor<2048x50264xbf16>
    ```
    becomes
    ```mlir
    %g = autopar.unary exp %logits : tensor<2048x50264xbf16>
    %p = autopar.select %inside, %g, %zeros : (tensor<2048x50264xi1>, tensor<2048x50264xbf16>, tensor<2048x50264xbf16>) -> tensor<2048x50264xbf16>
    ```
  }];
  let dependentDialects = ["mlir::autopar::AutoParDialect"];
}

def ReduceWhileCachedPass : Pass<"autopar-reduce-while-cached", "mlir::func::FuncOp"> {
  let summary = "reduce values right behind what computes them";
  let description = [{
    A group whose results have at most 1/1024 of the elements of the operand that is computed last moves right behind the group
    that computes it: the caches still hold a part of it. Results of collectives are left: they would be waited for earlier.

    ```mlir
    %g = autopar.group %x, %y : (...) -> tensor<3072x768xf32> { dot_general, yield }
    %h = autopar.group %u, %v : (...) -> tensor<3072x768xf32> { dot_general, yield }
    %n = autopar.group %g : (tensor<3072x768xf32>) -> tensor<f32> { binary mul, reduce sum, yield }
    ```
    becomes
    ```mlir
    %g = autopar.group %x, %y : (...) -> tensor<3072x768xf32> { dot_general, yield }
    %n = autopar.group %g : (tensor<3072x768xf32>) -> tensor<f32> { binary mul, reduce sum, yield }
    %h = autopar.group %u, %v : (...) -> tensor<3072x768xf32> { dot_general, yield }
    ```
  }];
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
    Option<"target", "target", "std::string", "\"cpu\"", "who runs the kernels: cpu or cuda">,
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
