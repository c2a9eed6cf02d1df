// SPDX-License-Identifier: Apache-2.0
// The passes of lib/Transforms/Prepare: composites for what exporters spell out, and what is made of a model before there
// are derivatives and plans. One file per pass; part of Passes.td.

#ifndef AUTOPAR_TRANSFORMS_PREPAREPASSES_TD
#define AUTOPAR_TRANSFORMS_PREPAREPASSES_TD

include "mlir/Pass/PassBase.td"

def LimitInputsPass : Pass<"autopar-limit-inputs", "mlir::func::FuncOp"> {
  let summary = "write down what inputs of integers may hold";
  let description = [{
    Positions in a table of n rows are -n to n - 1 (negative ones count from the end); where all elements of an input
    are such positions, the input gets `autopar.limits`. An operation with that attribute (a comparison of classes
    with labels) passes it on to the input that its last operand is. `autopar.exception` is one more value.

    ```mlir
    func.func @main(%ids: tensor<4x1xi64> {autopar.limits = array<i64: -50, 49>, autopar.name = "ids"}, %w: tensor<50x8xf32>) -> tensor<4x8xf32> {
      %0 = autopar.gather %w, %ids dims [0] batch 0 : (tensor<50x8xf32>, tensor<4x1xi64>) -> tensor<4x8xf32>
    ```
  }];
  let dependentDialects = ["mlir::autopar::AutoParDialect"];
}

def PriceInProductsPass : Pass<"autopar-price-in-products", "mlir::func::FuncOp"> {
  let summary = "say what gradients cost that products will make";
  let description = [{
    Before anything is searched for GPUs: the gradient of an activation and the sum for the gradient of a bias that
    products will take (form-fusion-groups) get `autopar.in_product`, the bytes per element of the result that the
    product moves for it. Prices of operations are those of such a call then, not of a kernel.

    ```mlir
    %0 = autopar.dot_general %g, %w contract [1] x [1] : (tensor<64x32xbf16>, tensor<16x32xbf16>) -> tensor<64x16xbf16>
    %1 = autopar.cast %0 : tensor<64x16xbf16> -> tensor<64x16xf32>
    %2 = autopar.unary_grad gelu_tanh %x, %1 : tensor<64x16xf32>
    ```
    becomes
    ```mlir
    %2 = autopar.unary_grad gelu_tanh %x, %1 {autopar.in_product = 2 : i64} : tensor<64x16xf32>
    ```
  }];
  let options = [
    Option<"activations", "activations", "std::string", "\"auto\"", "auto, or kernels: products take no gradient of an activation">,
    Option<"biases", "biases", "std::string", "\"auto\"", "auto, or kernels: products make no sum">,
  ];
}

def MaskPaddingPass : Pass<"autopar-mask-padding", "mlir::func::FuncOp"> {
  let summary = "keep what stands behind the end of varying extents out of what stands in front of it";
  let description = [{
    A dimension that `autopar.varying` names holds as many positions as a step is given, from `least` to all of its
    extent, by `step`; what stands behind them is arbitrary. Where an operation combines positions along it, the operand is
    replaced there by what changes nothing: the identity of a sum or a maximum, -inf in front of a softmax that no
    triangle guards, zeros where a window of a convolution would reach. Positions counted from the end move. How many
    steps of its range an extent is below its most is an argument that the runtime sets (`autopar.missing`). Results get
    `autopar.varying`. What cannot be told is refused: a reversal, a window whose stride does not divide the step.
    `autopar.varies`, `autopar.moves`, `autopar.decides`, `autopar.clamped` and `autopar.ends` (see
    `autopar/Transforms/VaryingExtents.h`) say which extents, slices, numbers and positions follow; they are removed.

    ```mlir
    func.func @main(%x: tensor<8x4xf32> {autopar.name = "x", autopar.varying = [{dim = 0, extent = "n", least = 1} ]}) -> tensor<4xf32> {
      %0 = autopar.reduce sum %x dims [0] : tensor<8x4xf32> -> tensor<4xf32>
    ```
    becomes the sum of a select between %x and zero, by an iota that is compared with 8 - %missing.
  }];
  let dependentDialects = ["mlir::autopar::AutoParDialect"];
}

def CarryStatePass : Pass<"autopar-carry-state", "mlir::ModuleOp"> {
  let summary = "make outputs what inputs are in the next step";
  let description = [{
    Each element of `carry` is `OUTPUT=INPUT`, where one `*` on both sides stands for the same text: the result of that
    name of `@main` becomes the next value of the argument, which gets `autopar.donated` and is no longer given from
    outside: it starts as zeros and stays on the ranks as the plan shards it. Key/value caches of decoders are such
    state. The two have one type; of a result that is the argument with rows behind it (a cache that grows by
    concatenation), the last rows are carried, as many as the argument has: the oldest fall out.

    ```mlir
    func.func @main(%x: tensor<4xf32> {autopar.name = "x"}, %past: tensor<4xf32> {autopar.name = "past.0"})
        -> (tensor<4xf32> {autopar.name = "present.0"})
    ```
    with `carry=present.*=past.*` becomes
    ```mlir
    func.func @main(%x: tensor<4xf32> {autopar.name = "x"}, %past: tensor<4xf32> {autopar.donated, autopar.name = "past.0"})
        -> (tensor<4xf32> {autopar.name = "past.0"})
    ```
  }];
  let options = [
    ListOption<"carry", "carry", "std::string", "OUTPUT=INPUT, such as present.*=past_key_values.*">,
  ];
}

def RaiseCompositesPass : Pass<"autopar-raise-composites", "mlir::func::FuncOp"> {
  let summary = "recognize what exporters decompose";
  let description = [{
    Layer and RMS normalization, gelu in both forms, silu, sigmoid and softmax become one operation each, which
    takes over the id of the last operation that it replaces; so do powers by small numbers and divisions
    by powers of two. Reshapes, transpositions, broadcasts, slices and casts in a row are merged or
    dropped, and so is what nobody uses; what is computed twice is shared. A composite is raised only if nothing else uses what it computes
    on the way.

    ```mlir
    %s = autopar.unary sigmoid %x : tensor<8x256xf32>
    %y = autopar.binary mul %x, %s : tensor<8x256xf32>
    ```
    becomes
    ```mlir
    %y = autopar.unary silu %x : tensor<8x256xf32>
    ```
  }];
  let dependentDialects = ["mlir::autopar::AutoParDialect"];
}

def RaiseAttentionPass : Pass<"autopar-raise-attention", "mlir::func::FuncOp"> {
  let summary = "recognize attention";
  let description = [{
    A product, a softmax along the last dimension of what it yields, scaled, masked or with a bias, and a second
    product become one operation. A mask that is the lower triangle becomes `causal`; heads that share keys and values by
    a broadcast become groups. A bias on which a gradient may be asked for is left alone, and so is attention whose
    probabilities something else reads.

    `mode`: `products` raises nothing, `fused` all, `auto` what runs as one kernel on `target` once it computes in
    `precision`, and triangles that autopar-expand-attention writes better than models do.

    ```mlir
    %s = autopar.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] ...
    %p = autopar.softmax %s dim 3 ...
    %y = autopar.dot_general %p, %v batch [0, 1] x [0, 1] contract [3] x [2] ...
    ```
    becomes
    ```mlir
    %y, %l = autopar.attention %q, %k, %v scale 1.000000e+00 ...
    ```
  }];
  let dependentDialects = ["mlir::autopar::AutoParDialect"];
  let options = [
    Option<"mode", "mode", "std::string", "\"auto\"", "auto, fused or products">,
    Option<"target", "target", "Target", "Target::Cpu", "who runs the program: cpu or cuda">,
    Option<"chip", "chip", "int64_t", "80", "compute capability x 10 of the oldest GPU that runs the program">,
    Option<"precision", "precision", "std::string", "\"f32\"", "what it will compute in: f32, bf16, fp16 or fp8">,
  ];
}

def UnflattenRowsPass : Pass<"autopar-unflatten-rows", "mlir::ModuleOp"> {
  let summary = "keep dimensions apart that exporters merge around a product";
  let description = [{
    Where a reshape merges dimensions (batch and sequence into rows), a matrix product and elementwise
    operations follow and another reshape separates them again, they are not merged at all, so that each can be
    sharded by itself.

    ```mlir
    %r = autopar.reshape %x : tensor<2x4x16xf32> -> tensor<8x16xf32>
    %h = autopar.dot_general %r, %w contract [1] x [0] : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
    %y = autopar.reshape %h : tensor<8x32xf32> -> tensor<2x4x32xf32>
    ```
    becomes
    ```mlir
    %y = autopar.dot_general %x, %w contract [2] x [0] : (tensor<2x4x16xf32>, tensor<16x32xf32>) -> tensor<2x4x32xf32>
    ```
  }];
  let dependentDialects = ["mlir::autopar::AutoParDialect"];
}

def SplitFusedProjectionsPass : Pass<"autopar-split-fused-projections", "mlir::ModuleOp"> {
  let summary = "give the equal parts of one product a dimension of their own";
  let description = [{
    Where the result of a matrix product with a parameter (perhaps with bias) is cut into equal parts, such as
    query, key and value, no contiguous sharding of that dimension fits the parts. The parameter is
    read as `[k, 3, n]` instead of `[k, 3 * n]`, which is the same bytes (argument and `autopar.origin`
    change their type), and a part becomes one position of the new dimension, so that `n` can be sharded. Parts of unequal
    extent, and products with other users, are left alone.

    ```mlir
    %h = autopar.dot_general %x, %w contract [1] x [0] : (tensor<8x64xf32>, tensor<64x192xf32>) -> tensor<8x192xf32>
    %k = autopar.slice %h starts [0, 64] steps [1, 1] : tensor<8x192xf32> -> tensor<8x64xf32>
    ```
    becomes
    ```mlir
    %h = autopar.dot_general %x, %w contract [1] x [0] : (tensor<8x64xf32>, tensor<64x3x64xf32>) -> tensor<8x3x64xf32>
    %p = autopar.slice %h starts [0, 1, 0] steps [1, 1, 1] : tensor<8x3x64xf32> -> tensor<8x1x64xf32>
    %k = autopar.reshape %p : tensor<8x1x64xf32> -> tensor<8x64xf32>
    ```
  }];
  let dependentDialects = ["mlir::autopar::AutoParDialect"];
}

def FoldParametersPass : Pass<"autopar-fold-parameters", "mlir::ModuleOp"> {
  let summary = "do to parameters by reading them what the program does to them first";
  let description = [{
    A reshape that is the only use of a parameter becomes the shape of the argument and of its
    `autopar.origin` (the same bytes). A transposition of a weight, and a broadcast along batch dimensions, become part of the
    matrix product that uses them. What depends on constants only is evaluated.

    ```mlir
    %t = autopar.transpose %w permutation [1, 0] : tensor<100x16xf32> -> tensor<16x100xf32>
    %y = autopar.dot_general %x, %t contract [1] x [0] : (tensor<8x16xf32>, tensor<16x100xf32>) -> tensor<8x100xf32>
    ```
    becomes
    ```mlir
    %y = autopar.dot_general %x, %w contract [1] x [1] : (tensor<8x16xf32>, tensor<100x16xf32>) -> tensor<8x100xf32>
    ```
  }];
  let dependentDialects = ["mlir::autopar::AutoParDialect"];
}

def FoldScalesPass : Pass<"autopar-fold-scales", "mlir::func::FuncOp"> {
  let summary = "scale weights instead of results";
  let description = [{
    A product or convolution by a weight that is a parameter (or computed from parameters), multiplied
    by numbers per column or channel that are known too, becomes one by a scaled weight: batch
    normalization at inference disappears into the filter, which is computed once when the program is
    loaded.

    ```mlir
    %y = autopar.dot_general %x, %w contract [1] x [0] : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
    %f = autopar.broadcast %s dims [1] : tensor<4xf32> -> tensor<8x4xf32>
    %z = autopar.binary mul %y, %f : tensor<8x4xf32>
    ```
  }];
  let dependentDialects = ["mlir::autopar::AutoParDialect"];
}

def RaiseIntegerProductsPass : Pass<"autopar-raise-integer-products", "mlir::func::FuncOp"> {
  let summary = "multiply sums of dequantized values by their scales";
  let description = [{
    A product or convolution of two factors that are 8 bits less a zero point, times a scale, is one of these integers: its
    sums are exact, whatever the order. The scales, one number or one per column or channel, multiply the sum. On GPUs, whose
    libraries have no such products here, and where sums can pass 2^31, whole numbers are summed as floats.

    ```mlir
    %a = autopar.binary mul %whole, %scale : tensor<8x16xf32>
    %b = autopar.binary mul %weight, %scales : tensor<16x4xf32>
    %y = autopar.dot_general %a, %b contract [1] x [0] : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
    ```
    becomes
    ```mlir
    %s = autopar.dot_general %integers, %weights contract [1] x [0] : (tensor<8x16xi32>, tensor<16x4xi32>) -> tensor<8x4xi32>
    %f = autopar.cast %s : tensor<8x4xi32> -> tensor<8x4xf32>
    %y = autopar.binary mul %f, %both : tensor<8x4xf32>
    ```
  }];
  let dependentDialects = ["mlir::autopar::AutoParDialect"];
  let options = [
    Option<"target", "target", "Target", "Target::Cpu", "who runs the program: cpu or cuda">,
  ];
}

def PartExpertsPass : Pass<"autopar-part-experts", "mlir::func::FuncOp"> {
  let summary = "write mixtures without capacity in parts by expert";
  let description = [{
    A grouped product keeps nothing apart by expert: a rank that has some of the experts has zeros for the rows of others,
    and what follows the product wants their sum. Here each of `parts` has its experts, all rows, and what lies between the
    first and the last product; the sum over the parts follows behind what is linear: weights of results, and the sum of
    the results of a token. A plan that splits parts over ranks gathers tokens before they are repeated, and sums them
    after they are one again. What lies between two products in a row that is no part's own is not read.

    Grouped products with matrices made of parameters, and what lies between those of one `group`, are written so; the
    function gets `autopar.expert_parts`. Experts that cannot be parted evenly are an error.

    ```mlir
    %0 = autopar.grouped_dot %rows, %up, %expert : (tensor<6x2x16xf32>, tensor<4x16x32xf32>, tensor<6x2xi64>) -> tensor<6x2x32xf32>
    %1 = autopar.unary relu %0 : tensor<6x2x32xf32>
    %2 = autopar.grouped_dot %1, %down, %expert : (tensor<6x2x32xf32>, tensor<4x32x16xf32>, tensor<6x2xi64>) -> tensor<6x2x16xf32>
    %3 = autopar.reduce sum %2 dims [1] : tensor<6x2x16xf32> -> tensor<6x16xf32>
    ```
    with `parts=2` becomes
    ```mlir
    %all = autopar.broadcast %rows dims [1, 2, 3] : tensor<6x2x16xf32> -> tensor<2x6x2x16xf32>
    %0 = autopar.grouped_dot %all, %up, %expert in_parts
      : (tensor<2x6x2x16xf32>, tensor<4x16x32xf32>, tensor<6x2xi64>) -> tensor<2x6x2x32xf32>
    %1 = autopar.unary relu %0 : tensor<2x6x2x32xf32>
    %2 = autopar.grouped_dot %1, %down, %expert in_parts
      : (tensor<2x6x2x32xf32>, tensor<4x32x16xf32>, tensor<6x2xi64>) -> tensor<2x6x2x16xf32>
    %3 = autopar.reduce sum %2 dims [0, 2] : tensor<2x6x2x16xf32> -> tensor<6x16xf32>
    ```
  }];
  let options = [
    Option<"parts", "parts", "int64_t", "1", "how many; 1 changes nothing">,
  ];
  let dependentDialects = ["mlir::autopar::AutoParDialect"];
}

def BatchSlicedProductsPass : Pass<"autopar-batch-sliced-products", "mlir::func::FuncOp"> {
  let summary = "products of the parts of a sequence by one matrix become one product";
  let description = [{
    A recurrence whose loop was written out multiplies what each step reads of a sequence by the same matrix. Such products do not
    wait for each other: four of them and more, of parts that lie side by side, are one product of the whole, which reads the
    matrix once, where that is much larger than what a step reads and writes beside it. Of a step's result it is a part.

    ```mlir
    %x0 = autopar.slice %x starts [0, 0, 0] steps [1, 1, 1] : tensor<4x2x64xf32> -> tensor<1x2x64xf32>
    %y0 = autopar.dot_general %x0, %w contract [2] x [0] : (tensor<1x2x64xf32>, tensor<64x256xf32>) -> tensor<1x2x256xf32>
    ... %y1, %y2, %y3
    ```
    becomes
    ```mlir
    %y = autopar.dot_general %x, %w contract [2] x [0] : (tensor<4x2x64xf32>, tensor<64x256xf32>) -> tensor<4x2x256xf32>
    %y0 = autopar.slice %y starts [0, 0, 0] steps [1, 1, 1] : tensor<4x2x256xf32> -> tensor<1x2x256xf32>
    ```
  }];
  let dependentDialects = ["mlir::autopar::AutoParDialect"];
}

def GatherFirstPass : Pass<"autopar-gather-first", "mlir::func::FuncOp"> {
  let summary = "look up in tables before they are dequantized";
  let description = [{
    A lookup in a table that is made element by element of at most five eighths of its bytes looks up those bytes, and what makes the
    table is done to what was found: a token costs its rows.

    ```mlir
    %t = autopar.cast %w : tensor<1000x64xi8> -> tensor<1000x64xf32>
    %y = autopar.gather %t, %i dims [0] batch 0 : (tensor<1000x64xf32>, tensor<8x1xi64>) -> tensor<8x64xf32>
    ```
    becomes
    ```mlir
    %b = autopar.gather %w, %i dims [0] batch 0 : (tensor<1000x64xi8>, tensor<8x1xi64>) -> tensor<8x64xi8>
    %y = autopar.cast %b : tensor<8x64xi8> -> tensor<8x64xf32>
    ```
  }];
  let dependentDialects = ["mlir::autopar::AutoParDialect"];
}

#endif
