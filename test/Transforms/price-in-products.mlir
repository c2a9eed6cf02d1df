// RUN: autopar-opt %s --autopar-price-in-products | FileCheck %s
// RUN: autopar-opt %s --autopar-price-in-products="activations=kernels biases=kernels" | FileCheck %s --check-prefix=KERNELS
// RUN: not autopar-opt %s --autopar-price-in-products=biases=some 2>&1 | FileCheck %s --check-prefix=MODE
// MODE: unknown mode "some"; expected auto or kernels

// The gelu's gradient reads what it was given, in the product's type; a relu's a mask, a sum nothing more.
// CHECK-LABEL: func.func @taken
// CHECK: autopar.unary_grad gelu_tanh {{.*}} {autopar.in_product = 2 : i64}
// CHECK: autopar.unary_grad relu {{.*}} {autopar.in_product = 0 : i64}
// CHECK: autopar.reduce sum {{.*}} {autopar.in_product = 0 : i64}
// KERNELS-NOT: autopar.in_product
func.func @taken(%g: tensor<64x32xbf16>, %w: tensor<16x32xbf16>, %x: tensor<64x16xbf16>) -> (tensor<64x16xbf16>, tensor<64x16xf32>, tensor<16xf32>, tensor<16x32xf32>) {
  %wide = autopar.cast %x : tensor<64x16xbf16> -> tensor<64x16xf32>
  %0 = autopar.dot_general %g, %w contract [1] x [1] : (tensor<64x32xbf16>, tensor<16x32xbf16>) -> tensor<64x16xbf16>
  %1 = autopar.cast %0 : tensor<64x16xbf16> -> tensor<64x16xf32>
  %2 = autopar.unary_grad gelu_tanh %wide, %1 : tensor<64x16xf32>
  %3 = autopar.cast %2 : tensor<64x16xf32> -> tensor<64x16xbf16>
  %4 = autopar.dot_general %g, %w contract [1] x [1] : (tensor<64x32xbf16>, tensor<16x32xbf16>) -> tensor<64x16xbf16>
  %5 = autopar.cast %4 : tensor<64x16xbf16> -> tensor<64x16xf32>
  %6 = autopar.unary_grad relu %wide, %5 : tensor<64x16xf32>
  %7 = autopar.cast %3 : tensor<64x16xbf16> -> tensor<64x16xf32>
  %8 = autopar.reduce sum %7 dims [0] : tensor<64x16xf32> -> tensor<16xf32>
  %9 = autopar.dot_general %3, %g contract [0] x [0] : (tensor<64x16xbf16>, tensor<64x32xbf16>) -> tensor<16x32xf32>
  return %3, %6, %8, %9 : tensor<64x16xbf16>, tensor<64x16xf32>, tensor<16xf32>, tensor<16x32xf32>
}

// What something else reads too, or is of odd rows, is a kernel.
// CHECK-LABEL: func.func @kernels
// CHECK-NOT: autopar.in_product
func.func @kernels(%g: tensor<64x32xbf16>, %w: tensor<16x32xbf16>, %v: tensor<12x32xbf16>, %x: tensor<64x16xf32>, %y: tensor<64x12xf32>)
    -> (tensor<64x16xf32>, tensor<64x16xf32>, tensor<64x12xf32>) {
  %0 = autopar.dot_general %g, %w contract [1] x [1] : (tensor<64x32xbf16>, tensor<16x32xbf16>) -> tensor<64x16xbf16>
  %1 = autopar.cast %0 : tensor<64x16xbf16> -> tensor<64x16xf32>
  %2 = autopar.unary_grad gelu_tanh %x, %1 : tensor<64x16xf32>
  %3 = autopar.dot_general %g, %v contract [1] x [1] : (tensor<64x32xbf16>, tensor<12x32xbf16>) -> tensor<64x12xbf16>
  %4 = autopar.cast %3 : tensor<64x12xbf16> -> tensor<64x12xf32>
  %5 = autopar.unary_grad gelu_tanh %y, %4 : tensor<64x12xf32>
  return %1, %2, %5 : tensor<64x16xf32>, tensor<64x16xf32>, tensor<64x12xf32>
}
