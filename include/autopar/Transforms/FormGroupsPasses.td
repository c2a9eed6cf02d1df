// SPDX-License-Identifier: Apache-2.0
// The passes of lib/Transforms/FormGroups: local operations as a target's library and kernels are good at them, and the
// groups that become kernels. One file per pass; part of Passes.td. Those of matrix products are in ProductPasses.td.

#ifndef AUTOPAR_TRANSFORMS_FORMGROUPSPASSES_TD
#define AUTOPAR_TRANSFORMS_FORMGROUPSPASSES_TD

include "mlir/Pass/PassBase.td"

def FormFusionGroupsPass : Pass<"autopar-form-fusion-groups", "mlir::func::FuncOp"> {
  let summary = "wrap operations that become one kernel or library call into groups";
  let description = [{
    Elementwise operations join their producers and consumers; a row operation (reduction, softmax,
    normalization) joins what is computed on the same rows; a matrix product or convolution takes the
    bias, activation and residual that the library can apply. On GPUs a product also takes an activation
    of which others read what it was given, or whose gradient another product takes, and sums of what it
    multiplies that split-reductions left to it; such a group has two results. What a kernel would store only for
    kernels that could read what it is made of, in fewer bytes, these compute themselves; reductions
    of one value are one kernel. What remains outside is a view, a collective, or an operation with
    a kernel of its own.

    ```mlir
    %n = autopar.normalize %x dims [1] epsilon 1.0e-5 : tensor<8x64xf32>
    %g = autopar.broadcast %scale dims [1] : tensor<64xf32> -> tensor<8x64xf32>
    %y = autopar.binary mul %n, %g : tensor<8x64xf32>
    ```
    becomes
    ```mlir
    %y = autopar.group %x, %scale : (tensor<8x64xf32>, tensor<64xf32>) -> tensor<8x64xf32> {
    ^bb0(%a: tensor<8x64xf32>, %s: tensor<64xf32>):
      %n = autopar.normalize %a dims [1] epsilon 1.0e-5 : tensor<8x64xf32>
      %g = autopar.broadcast %s dims [1] : tensor<64xf32> -> tensor<8x64xf32>
      %m = autopar.binary mul %n, %g : tensor<8x64xf32>
      autopar.yield %m : tensor<8x64xf32>
    }
    ```
  }];
  let options = [
    Option<"target", "target", "Target", "Target::Cpu", "cpu or cuda">,
    Option<"activations", "activations", "std::string", "\"auto\"",
           "for cuda, auto: a product takes an activation whose gradient needs more than its result; kernels: never">,
  ];
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

def ExpandAttentionPass : Pass<"autopar-expand-attention", "mlir::func::FuncOp"> {
  let summary = "write attention as two products and a softmax";
  let description = [{
    The inverse of autopar-raise-attention, for targets without a kernel; the gradient computes the probabilities
    again from the row sums. With `mode` auto only attention that `target` has no kernel for.
    Causal attention of long sequences is written in blocks of rows on GPUs, each with the keys that it sees.

    ```mlir
    %y, %l = autopar.attention %q, %k, %v scale 1.000000e+00 ...
    ```
    becomes
    ```mlir
    %s = autopar.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] ...
    %p = autopar.softmax %s dim 3 ...
    %y = autopar.dot_general %p, %v batch [0, 1] x [0, 1] contract [3] x [2] ...
    ```
  }];
  let dependentDialects = ["mlir::autopar::AutoParDialect"];
  let options = [
    Option<"mode", "mode", "std::string", "\"products\"", "auto, fused or products">,
    Option<"target", "target", "Target", "Target::Cpu", "who runs the program: cpu or cuda">,
    Option<"chip", "chip", "int64_t", "80", "compute capability x 10 of the oldest GPU that runs the program">,
    Option<"rows", "rows", "int64_t", "0", "rows of causal queries at once; 0: as many as pay on the target">,
  ];
}

def FoldRepeatedHeadsPass : Pass<"autopar-fold-repeated-heads", "mlir::func::FuncOp"> {
  let summary = "make heads that share keys and values rows of one product";
  let description = [{
    Where attention is no operation of its own and keys or values are repeated for the heads of a group, the heads become
    rows of the product, which lie beside each other as they are: nothing is repeated. Where attention is an operation and
    each head has one query, as a step of a decoder with caches has, the heads of a group become queries of one head. On
    local shapes.

    ```mlir
    %w = autopar.broadcast %k dims [0, 1, 3, 4] : tensor<2x4x64x16xf32> -> tensor<2x4x3x64x16xf32>
    %r = autopar.reshape %w : tensor<2x4x3x64x16xf32> -> tensor<2x12x64x16xf32>
    %s = autopar.dot_general %q, %r batch [0, 1] x [0, 1] contract [3] x [3]
        : (tensor<2x12x1x16xf32>, tensor<2x12x64x16xf32>) -> tensor<2x12x1x64xf32>
    ```
    becomes
    ```mlir
    %g = autopar.reshape %q : tensor<2x12x1x16xf32> -> tensor<2x4x3x16xf32>
    %p = autopar.dot_general %g, %k batch [0, 1] x [0, 1] contract [3] x [3]
        : (tensor<2x4x3x16xf32>, tensor<2x4x64x16xf32>) -> tensor<2x4x3x64xf32>
    %s = autopar.reshape %p : tensor<2x4x3x64xf32> -> tensor<2x12x1x64xf32>
    ```
  }];
  let dependentDialects = ["mlir::autopar::AutoParDialect"];
}

def BoundAttentionBiasPass : Pass<"autopar-bound-attention-bias", "mlir::func::FuncOp"> {
  let summary = "keep what is added to scores of attention finite";
  let description = [{
    A GPU's library computes exponentials in powers of two: a bias of -inf, or near the least float, may leave a row that
    it hides whole without a number. Biases are at least -1e30, or the least f16: a column so hidden still has the weight 0
    beside one that is seen, and a row of hidden columns is their mean. Gradients get all rows of a bias.

    ```mlir
    %y, %sums = autopar.attention %q, %k, %v bias %mask scale 1.0 ...
    ```
    becomes
    ```mlir
    %bound = autopar.binary max %mask, %least
    %y, %sums = autopar.attention %q, %k, %v bias %bound scale 1.0 ...
    ```
  }];
  let dependentDialects = ["mlir::autopar::AutoParDialect"];
}

def SplitAttentionSinksPass : Pass<"autopar-split-attention-sinks", "mlir::func::FuncOp"> {
  let summary = "scale what attention without sinks gives by the share that sinks leave";
  let description = [{
    No library has to know sinks: with s a row's sink and l the logarithm of its sum without it, the output is
    sigmoid(l - s) times what it is without, and the sum's logarithm is s + softplus(l - s).

    ```mlir
    %y, %sums = autopar.attention %q, %k, %v sink %s scale 1.0 causal ...
    ```
    becomes
    ```mlir
    %plain, %l = autopar.attention %q, %k, %v scale 1.0 causal ...
    %difference = autopar.binary sub %l, %sinks
    %share = autopar.unary sigmoid %difference
    %y = autopar.binary mul %plain, %shares
    %more = autopar.unary softplus %difference
    %sums = autopar.binary add %sinks, %more
    ```
  }];
  let dependentDialects = ["mlir::autopar::AutoParDialect"];
}

def NarrowEpiloguesPass : Pass<"autopar-narrow-epilogues", "mlir::func::FuncOp"> {
  let summary = "add, activate and differentiate behind half products as the library does it";
  let description = [{
    Mixed precision writes what follows a product in f32, between a cast of its result and one of its own. cuBLASLt sums in f32 and
    applies an epilogue before it rounds: a bias, which has the type of the result, a residual, relu, gelu_tanh, or the gradient of one of them. As far
    as what follows a product of bf16 or f16 is such, is stored narrow and is read by nothing else, it is written narrow, for form-fusion-groups to find. What gelu_tanh is given may be read by its gradient too.

    ```mlir
    %0 = autopar.dot_general %x, %w contract [1] x [0] : (tensor<8x16xbf16>, tensor<16x32xbf16>) -> tensor<8x32xbf16>
    %1 = autopar.cast %0 : tensor<8x32xbf16> -> tensor<8x32xf32>
    %2 = autopar.broadcast %b dims [1] : tensor<32xf32> -> tensor<8x32xf32>
    %3 = autopar.binary add %1, %2 : tensor<8x32xf32>
    %4 = autopar.cast %3 : tensor<8x32xf32> -> tensor<8x32xbf16>
    ```
    becomes
    ```mlir
    %0 = autopar.dot_general %x, %w contract [1] x [0] : (tensor<8x16xbf16>, tensor<16x32xbf16>) -> tensor<8x32xbf16>
    %1 = autopar.cast %b : tensor<32xf32> -> tensor<32xbf16>
    %2 = autopar.broadcast %1 dims [1] : tensor<32xbf16> -> tensor<8x32xbf16>
    %3 = autopar.binary add %0, %2 : tensor<8x32xbf16>
    ```
  }];
  let options = [
    Option<"activations", "activations", "std::string", "\"auto\"",
           "auto: gradients of activations too, and activations whose gradients need more than their result; kernels: those never">,
  ];
  let dependentDialects = ["mlir::autopar::AutoParDialect"];
}

def ExpandConvolutionGradientsPass : Pass<"autopar-expand-convolution-gradients", "mlir::func::FuncOp"> {
  let summary = "write gradients of convolutions as convolutions and products";
  let description = [{
    The gradient of the input is a convolution of the spread gradient by the filter turned around; that of the filter is
    a product for every position in it, or a convolution of the input by the gradient where they are many. With `mode`
    auto only what `target` has no library call for.

    ```mlir
    %dx = autopar.convolution_input_grad %g, %w {strides = array<i64: 2, 2>, ...}
    ```
    becomes
    ```mlir
    %t = autopar.transpose %grouped permutation [0, 2, 1, 3, 4] ...
    %r = autopar.slice %joined starts [0, 0, 2, 2] steps [1, 1, -1, -1] ...
    %dx = autopar.convolution %g, %r {inputDilation = array<i64: 2, 2>, ...}
    ```
  }];
  let dependentDialects = ["mlir::autopar::AutoParDialect"];
  let options = [
    Option<"mode", "mode", "std::string", "\"kernels\"", "auto or kernels">,
    Option<"target", "target", "Target", "Target::Cpu", "who runs the program: cpu or cuda">,
  ];
}

def ExpandGradientsPass : Pass<"autopar-expand-gradients", "mlir::func::FuncOp"> {
  let summary = "write gradients that are one operation as what they stand for";
  let description = [{
    Until here the gradient of a softmax, a normalization or a gelu is one operation, which is sharded and priced as the kernel
    that it will be. On GPUs the gradient of a gelu stays one behind a matrix product that the library multiplies by it.

    ```mlir
    %d = autopar.softmax_grad %y, %g dim 1 : tensor<4x4xf32>
    ```
    becomes
    ```mlir
    %p = autopar.binary mul %g, %y : tensor<4x4xf32>
    %s = autopar.reduce sum %p dims [1] : tensor<4x4xf32> -> tensor<4xf32>
    %r = autopar.broadcast %s dims [0] : tensor<4xf32> -> tensor<4x4xf32>
    %c = autopar.binary sub %g, %r : tensor<4x4xf32>
    %d = autopar.binary mul %y, %c : tensor<4x4xf32>
    ```
  }];
  let options = [
    Option<"target", "target", "Target", "Target::Cpu", "cpu or cuda">,
    Option<"activations", "activations", "std::string", "\"auto\"",
           "auto: a product takes the gradient behind it where the library can; kernels: never">,
  ];
  let dependentDialects = ["mlir::autopar::AutoParDialect"];
}

def ExpandUpdatesPass : Pass<"autopar-expand-updates", "mlir::ModuleOp"> {
  let summary = "write updates of parameters as the operations of their formulas";
  let description = [{
    Until here an update is one operation, so that no pass walks its arithmetic once per parameter. Formulas are erased. An update
    that nothing could fuse with becomes an `autopar.group` at once.

    ```mlir
    %next = autopar.update @sgd %w, %g, %rate : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
    ```
    becomes
    ```mlir
    %r = autopar.broadcast %rate dims [] : tensor<f32> -> tensor<4x4xf32>
    %s = autopar.binary mul %r, %g : tensor<4x4xf32>
    %next = autopar.binary sub %w, %s : tensor<4x4xf32>
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

def SplitReductionsPass : Pass<"autopar-split-reductions", "mlir::func::FuncOp"> {
  let summary = "divide reductions of many elements into few results";
  let description = [{
    For GPUs: a kernel gives a row at most one block of threads. A reduction whose rows are too few to fill the GPU and too
    long for one block becomes one of parts, as many as a divisor of the extent allows, and one of their results. Parts of
    f16 and bf16 are kept in f32. The gradient of a bias is left to the product that makes the
    weight's: it gets `autopar.summed_by_product`.

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
  let options = [
    Option<"biases", "biases", "std::string", "\"auto\"",
           "auto: the sum of what a product multiplies is left to it; kernels: divided too">,
  ];
  let dependentDialects = ["mlir::autopar::AutoParDialect"];
}

#endif
