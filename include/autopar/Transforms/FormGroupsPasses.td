// SPDX-License-Identifier: Apache-2.0
// The passes of lib/Transforms/FormGroups: local operations as a target's library and kernels are good at them, and the
// groups that become kernels. One file per pass; part of Passes.td.

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

def ExpandGroupedProductsPass : Pass<"autopar-expand-grouped-products", "mlir::func::FuncOp"> {
  let summary = "write grouped products that the target's library does not compute as sums and products";
  let description = [{
    They are left to the library of `target`, or on GPUs to kernels of [tiles](#-autopar-tile-grouped-products), but where the step makes the matrices of fewer bytes: of up to three rows for each matrix
    each is a sum over what it picks, and what makes matrices is done to that alone. So are rows by fixed parameters that are summed along memory, where there are two
    matrices for each row. Without a library up to `rows` rows are such sums;
    of more, each group is a product of all rows, of which those of other groups are zero, and the products are added up.

    ```mlir
    %y = autopar.grouped_dot %x, %w, %group : (tensor<2x16xf32>, tensor<4x16x32xf32>, tensor<2xi64>) -> tensor<2x32xf32>
    ```
    becomes
    ```mlir
    %p = autopar.gather %w, %numbers dims [0] : (tensor<4x16x32xf32>, tensor<2x1xi64>) -> tensor<2x16x32xf32>
    %t = autopar.binary mul %rows, %p : tensor<2x16x32xf32>
    %s = autopar.reduce sum %t dims [1] : tensor<2x16x32xf32> -> tensor<2x32xf32>
    %y = autopar.select %is.group, %s, %zero : ...
    ```
  }];
  let dependentDialects = ["mlir::autopar::AutoParDialect"];
  let options = [
    Option<"target", "target", "Target", "Target::Cpu", "who runs the program: cpu or cuda">,
    Option<"rows", "rows", "int64_t", "8", "that many rows are few">,
  ];
}

def TileGroupedProductsPass : Pass<"autopar-tile-grouped-products", "mlir::func::FuncOp"> {
  let summary = "order the rows of grouped products into tiles of one group each, for kernels of GPUs";
  let description = [{
    Of products of f16 and bf16 with rows of a multiple of 8 elements. Each group has as many tiles of 128 rows as its rows need, and
    rows of no group have tiles of their own: there are at most rows / 128 + groups + 1, whatever data says. A row's place is that of
    its group's first tile and how many rows of its group stand before it. Products with the same groups share the order.

    ```mlir
    %y = autopar.grouped_dot %x, %w, %group : (tensor<300x64xbf16>, tensor<4x64x32xbf16>, tensor<300xi64>) -> tensor<300x32xbf16>
    ```
    becomes
    ```mlir
    %before = autopar.cumulative sum %is.of.group dim 1 exclusive : tensor<5x300xi32>
    ...
    %order = autopar.scatter assign %empty, %place, %row : (tensor<896xi32>, tensor<300x1xi32>, tensor<300xi32>) -> tensor<896xi32>
    %y = autopar.grouped_dot_tiles %x, %w, %order, %tile.group : ...
    ```
  }];
  let dependentDialects = ["mlir::autopar::AutoParDialect"];
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

def MultiplyBytesPass : Pass<"autopar-multiply-bytes", "mlir::func::FuncOp"> {
  let summary = "multiply integers of 8 bits as such";
  let description = [{
    Where both sides of a product or convolution of i32 are bytes less a zero point each, the library multiplies the bytes and
    sums in i32; the zero points are multiplied by the sums of the other side's bytes, which are made at load where these are
    weights. Its right side has a sign: bytes without one are less by 128. A convolution is padded with its zero point first.

    ```mlir
    %a = autopar.cast %x : tensor<8x768xui8> -> tensor<8x768xi32>
    %z = autopar.broadcast %zero dims [] : tensor<i32> -> tensor<8x768xi32>
    %d = autopar.binary sub %a, %z : tensor<8x768xi32>
    %b = autopar.cast %w : tensor<768x4xi8> -> tensor<768x4xi32>
    %y = autopar.dot_general %d, %b contract [1] x [0] : (tensor<8x768xi32>, tensor<768x4xi32>) -> tensor<8x4xi32>
    ```
    becomes, without the broadcasts,
    ```mlir
    %p = autopar.dot_general %x, %w contract [1] x [0] : (tensor<8x768xui8>, tensor<768x4xi8>) -> tensor<8x4xi32>
    %b = autopar.cast %w : tensor<768x4xi8> -> tensor<768x4xi32>
    %s = autopar.reduce sum %b dims [0] : tensor<768x4xi32> -> tensor<4xi32>
    %t = autopar.binary mul %zero, %s : tensor<8x4xi32>
    %y = autopar.binary sub %p, %t : tensor<8x4xi32>
    ```
  }];
  let dependentDialects = ["mlir::autopar::AutoParDialect"];
}

def ExpandIntegerProductsPass : Pass<"autopar-expand-integer-products", "mlir::func::FuncOp"> {
  let summary = "compute products of small integers in f32, exactly";
  let description = [{
    Left are products and convolutions of integers that the library of the CPU does not have. Where both sides hold small integers (of 8 bits,
    less a zero point), so many terms are summed in f32 that no sum can pass 2^24: it is exact in any order. What remains is
    a batch of pieces, or groups of channels of a convolution, which are added as integers. A window that is more than a
    piece is cut in halves.

    ```mlir
    %a = autopar.cast %x : tensor<8x768xui8> -> tensor<8x768xi32>
    %b = autopar.cast %w : tensor<768x4xi8> -> tensor<768x4xi32>
    %y = autopar.dot_general %a, %b contract [1] x [0] : (tensor<8x768xi32>, tensor<768x4xi32>) -> tensor<8x4xi32>
    ```
    becomes, without the views,
    ```mlir
    %c = autopar.cast %a : tensor<8x768xi32> -> tensor<8x768xf32>
    %d = autopar.cast %b : tensor<768x4xi32> -> tensor<768x4xf32>
    %s = autopar.dot_general %c, %d batch [1] x [0] contract [2] x [1] : (tensor<8x2x384xf32>, tensor<2x384x4xf32>) -> tensor<2x8x4xf32>
    %i = autopar.cast %s : tensor<2x8x4xf32> -> tensor<2x8x4xi32>
    %y = autopar.binary add %i, %i : tensor<8x4xi32>
    ```
  }];
  let options = [
    Option<"bf16", "bf16", "bool", /*default=*/"false", "numbers of at most 256 are bf16: the processor multiplies those, which is faster">,
  ];
  let dependentDialects = ["mlir::autopar::AutoParDialect"];
}

def ExpandScaledProductsPass : Pass<"autopar-expand-scaled-products", "mlir::func::FuncOp"> {
  let summary = "write products that are scaled to 8 bits as operations";
  let description = [{
    Of each row of an operand (all that is summed for one element of the result) the largest number decides by which power of
    two it is multiplied before it is rounded; what the product sums is divided by those of its row and column. Rows lie one
    after the other in both operands, as GPUs multiply 8 bits. Products that read one value alike share its rows. Parameters
    that are gathered for nothing but such products, at most two ways (forward and back), are rounded before: where each rank has a
    part of every row, by the largest number of all. Where slices along columns are all that is read of a product, these are divided.

    ```mlir
    %y = autopar.dot_general %x, %w contract [1] x [1] scaled_to f8E4M3FN : (tensor<32x64xbf16>, tensor<16x64xbf16>) -> tensor<32x16xbf16>
    ```
    becomes, with `%i` and `%j` the inverses of what rows were multiplied by and without views and casts,
    ```mlir
    %a = autopar.cast %scaled : tensor<32x64xf32> -> tensor<32x64xf8E4M3FN>
    %b = autopar.cast %other : tensor<16x64xf32> -> tensor<16x64xf8E4M3FN>
    %s = autopar.dot_general %a, %b contract [1] x [1] : (tensor<32x64xf8E4M3FN>, tensor<16x64xf8E4M3FN>) -> tensor<32x16xbf16>
    %r = autopar.binary mul %s, %i : tensor<32x16xf32>
    %y = autopar.binary mul %r, %j : tensor<32x16xf32>
    ```
  }];
  let dependentDialects = ["mlir::autopar::AutoParDialect"];
}

def StackProductsPass : Pass<"autopar-stack-products", "mlir::func::FuncOp"> {
  let summary = "sums of products of few terms become products of stacks";
  let description = [{
    Each step of a recurrence adds a product of few rows to the gradient of a weight. The sum of four such products and more
    is one product of what they multiply, stacked along a new dimension, where copying that moves less than adding results
    does. A stack that is there already is read; that of what steps read of one value is its gradient.

    ```mlir
    %0 = autopar.dot_general %a0, %b0 contract [0] x [0] : (tensor<2x64xf32>, tensor<2x32xf32>) -> tensor<64x32xf32>
    %1 = autopar.dot_general %a1, %b1 contract [0] x [0] : (tensor<2x64xf32>, tensor<2x32xf32>) -> tensor<64x32xf32>
    ... %2, %3
    %sum = autopar.binary add %0, ... : tensor<64x32xf32>
    ```
    becomes
    ```mlir
    %a = autopar.concat %a3.reshaped, ... dim 0 : (tensor<1x2x64xf32>, ...) -> tensor<4x2x64xf32>
    %b = autopar.concat %b3.reshaped, ... dim 0 : (tensor<1x2x32xf32>, ...) -> tensor<4x2x32xf32>
    %sum = autopar.dot_general %a, %b contract [0, 1] x [0, 1] : (tensor<4x2x64xf32>, tensor<4x2x32xf32>) -> tensor<64x32xf32>
    ```
  }];
  let dependentDialects = ["mlir::autopar::AutoParDialect"];
}

def TurnColumnsPass : Pass<"autopar-turn-columns", "mlir::func::FuncOp"> {
  let summary = "products of one column become products of one row";
  let description = [{
    The library of the CPU multiplies one row by a matrix at the speed of memory, and a matrix by one column a hundred times
    slower. The sides change places; the result is the same numbers in the same order.

    ```mlir
    %y = autopar.dot_general %x, %w contract [1] x [0] : (tensor<512x64xf32>, tensor<64x1xf32>) -> tensor<512x1xf32>
    ```
    becomes
    ```mlir
    %r = autopar.dot_general %w, %x contract [0] x [1] : (tensor<64x1xf32>, tensor<512x64xf32>) -> tensor<1x512xf32>
    %y = autopar.reshape %r : tensor<1x512xf32> -> tensor<512x1xf32>
    ```
  }];
  let dependentDialects = ["mlir::autopar::AutoParDialect"];
}

def WidenProductsPass : Pass<"autopar-widen-products", "mlir::func::FuncOp"> {
  let summary = "compute products of f16 and of 8 bits in wider floats";
  let description = [{
    The library of the CPU has no matrix products and convolutions of f16 and f8E4M3FN. Their operands are widened, each once, and the
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
  let options = [
    Option<"bf16", "bf16", "bool", /*default=*/"false", "floats of 8 bits are widened to bf16, which the processor multiplies; else to f32">,
  ];
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

def RoundInBlocksPass : Pass<"autopar-round-in-blocks", "mlir::func::FuncOp"> {
  let summary = "multiply bytes where a product's left side may be rounded to them";
  let description = [{
    For processors with dot products of bytes. The left side of a product with `byte_blocks` is rounded to 8 bits, each block by
    a scale of its own. Weights that are whole numbers of a byte or less, with scales and zero points per block, are multiplied as
    such: for few rows as a sum of i32 per block (`autopar.byte_sum`), of which scales and zero points are taken, else by a
    `block_dot`. Other products multiply the rounded numbers as floats, so that all of them compute the same.

    ```mlir
    %y = autopar.dot_general %x, %w contract [1] x [1] byte_blocks 32
      : (tensor<64x512xf32>, tensor<256x512xf32>) -> tensor<64x256xf32>
    ```
    becomes, `%q` being the rounded numbers and `%s` the scales of x in blocks,
    ```mlir
    %f = autopar.cast %q : tensor<64x1x16x32xi8> -> tensor<64x1x16x32xf32>
    %b = autopar.broadcast %s dims [0, 2] : tensor<64x16xf32> -> tensor<64x1x16x32xf32>
    %m = autopar.binary mul %f, %b : tensor<64x1x16x32xf32>
    %r = autopar.reshape %m : tensor<64x1x16x32xf32> -> tensor<64x512xf32>
    %y = autopar.dot_general %r, %w contract [1] x [1] : (tensor<64x512xf32>, tensor<256x512xf32>) -> tensor<64x256xf32>
    ```
  }];
  let options = [
    Option<"rows", "rows", "int64_t", "2", "rows up to which a kernel is best that takes in what makes the weights">,
  ];
  let dependentDialects = ["mlir::autopar::AutoParDialect"];
}

def ReduceFewRowsPass : Pass<"autopar-reduce-few-rows", "mlir::func::FuncOp"> {
  let summary = "products of few rows become kernels that read weights at the speed of memory";
  let description = [{
    A product of few rows becomes a multiplication and a sum along its weights. Weights that are made, element by element,
    of much fewer bytes are made in the same kernel and never written. Weights in memory are transposed at load where what
    is summed does not lie side by side. With `rows-of-batch` so does a batch of products of few rows with a matrix each,
    which is read where it lies.

    ```mlir
    %w = autopar.cast %q : tensor<512x256xi8> -> tensor<512x256xf32>
    %y = autopar.dot_general %x, %w contract [1] x [1] : (tensor<1x256xf32>, tensor<512x256xf32>) -> tensor<1x512xf32>
    ```
    becomes
    ```mlir
    %w = autopar.cast %q : tensor<512x256xi8> -> tensor<512x256xf32>
    %a = autopar.broadcast %x dims [0, 2] : tensor<1x256xf32> -> tensor<1x512x256xf32>
    %b = autopar.broadcast %w dims [1, 2] : tensor<512x256xf32> -> tensor<1x512x256xf32>
    %t = autopar.binary mul %a, %b : tensor<1x512x256xf32>
    %y = autopar.reduce sum %t dims [2] {autopar.few_rows} : tensor<1x512x256xf32> -> tensor<1x512xf32>
    ```
  }];
  let options = [
    Option<"rows", "rows", "int64_t", "2", "rows up to which a kernel is faster than a library call">,
    Option<"rowsOfMade", "rows-of-made", "int64_t", "4", "the same for weights that would have to be made for the call">,
    Option<"rowsOfBatch", "rows-of-batch", "int64_t", "0", "the same for a batch of products with a matrix each, as tokens meet their caches">,
  ];
  let dependentDialects = ["mlir::autopar::AutoParDialect"];
}

#endif
