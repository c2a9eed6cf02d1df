// SPDX-License-Identifier: Apache-2.0
// The passes of lib/Transforms/FormGroups that write matrix products as a target's library and kernels are good at them.
// One file per pass; part of Passes.td.

#ifndef AUTOPAR_TRANSFORMS_PRODUCTPASSES_TD
#define AUTOPAR_TRANSFORMS_PRODUCTPASSES_TD

include "mlir/Pass/PassBase.td"

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
  let summary = "compute products that the library of the CPU has not in wider floats";
  let description = [{
    The library of the CPU has no matrix products and convolutions of f16 and f8E4M3FN, and of bf16 on processors with AVX-512 alone.
    Their operands are widened, each once, and the result is rounded.

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
    Option<"bf16Library", "bf16-library", "bool", /*default=*/"true", "the library has products of bf16; else they are widened too">,
  ];
  let dependentDialects = ["mlir::autopar::AutoParDialect"];
}

def FillChannelBlocksPass : Pass<"autopar-fill-channel-blocks", "mlir::func::FuncOp"> {
  let summary = "give convolutions as many channels as fill the blocks of the CPU's library";
  let description = [{
    A convolution of f32 whose channels fill no blocks of `block`, but half of them at least, and whose result only
    convolutions read, by way of elementwise operations, gets channels of zeros: its filter zeros for them, and the filters that read them
    zeros again. Filters are padded at load; where they are not constant, or grow by much, the convolution stays.

    ```mlir
    %y = autopar.convolution %x, %v {...} : (tensor<1x16x8x8xf32>, tensor<8x16x3x3xf32>) -> tensor<1x8x8x8xf32>
    %z = autopar.convolution %y, %w {...} : (tensor<1x8x8x8xf32>, tensor<16x8x3x3xf32>) -> tensor<1x16x8x8xf32>
    ```
    becomes
    ```mlir
    %p = autopar.pad %v, %zero low [0, 0, 0, 0] : (tensor<8x16x3x3xf32>, tensor<f32>) -> tensor<16x16x3x3xf32>
    %q = autopar.pad %w, %zero low [0, 0, 0, 0] : (tensor<16x8x3x3xf32>, tensor<f32>) -> tensor<16x16x3x3xf32>
    %y = autopar.convolution %x, %p {...} : (tensor<1x16x8x8xf32>, tensor<16x16x3x3xf32>) -> tensor<1x16x8x8xf32>
    %z = autopar.convolution %y, %q {...} : (tensor<1x16x8x8xf32>, tensor<16x16x3x3xf32>) -> tensor<1x16x8x8xf32>
    ```
  }];
  let options = [
    Option<"block", "block", "int64_t", /*default=*/"16", "channels of a block">,
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
    For CPUs. The left side of a product with `byte_blocks` is rounded to 8 bits, each block by
    a scale of its own. Weights that are whole numbers of a byte or less, with scales and zero points per block, are multiplied as
    such: for few rows as a sum of i32 per block (`autopar.byte_sum`), of which scales and zero points are taken, else by a
    `block_dot`. Other products multiply the rounded numbers as floats, so that all of them compute the same, with whatever
    instructions.

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
    Option<"instructions", "instructions", "ByteDots", "ByteDots::Vnni", "dot products of bytes of the processor: avx2 or vnni", [{
      llvm::cl::values(clEnumValN(ByteDots::Avx2, "avx2", "any processor"), clEnumValN(ByteDots::Vnni, "vnni", "AVX512-VNNI"))
    }]>,
  ];
  let dependentDialects = ["mlir::autopar::AutoParDialect"];
}

def ReduceFewRowsPass : Pass<"autopar-reduce-few-rows", "mlir::func::FuncOp"> {
  let summary = "products of few rows become kernels that read weights at the speed of memory";
  let description = [{
    A product of few rows becomes a multiplication and a sum along its weights. Weights that are made, element by element,
    of much fewer bytes are made in the same kernel and never written. Weights in memory are transposed at load where what
    is summed does not lie side by side. With `rows-of-batch` so does a batch of products of few rows with a matrix each,
    which is read where it lies. A parameter of which `autopar.held` says that another program holds it `along_rows` is read in
    that order by more rows too, and one that is `packed` there is left to calls.

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
