// RUN: autopar-opt %s --autopar-narrow-epilogues | FileCheck %s
// RUN: autopar-opt %s --autopar-narrow-epilogues=activations=kernels | FileCheck %s --check-prefix=KERNELS
// RUN: not autopar-opt %s --autopar-narrow-epilogues=activations=some 2>&1 | FileCheck %s --check-prefix=MODE
// MODE: unknown mode "some"; expected auto or kernels

// A bias, which gets the result's type, and a residual; then what is stored narrow in between, an activation.
// CHECK-LABEL: func.func @forward
// CHECK-SAME: %[[B:[a-z0-9]+]]: tensor<2x16xf32>, %[[R:[a-z0-9]+]]: tensor<8x2x16xbf16>)
// CHECK: %[[P:.*]] = autopar.dot_general
// CHECK: %[[V:.*]] = autopar.cast %[[B]] {autopar.id = "add/bias"} : tensor<2x16xf32> -> tensor<2x16xbf16>
// CHECK: %[[W:.*]] = autopar.broadcast %[[V]] dims [1, 2] : tensor<2x16xbf16> -> tensor<8x2x16xbf16>
// CHECK: %[[A:.*]] = autopar.binary add %[[P]], %[[W]] {autopar.id = "add"} : tensor<8x2x16xbf16>
// CHECK: %[[S:.*]] = autopar.binary add %[[A]], %[[R]] {autopar.id = "sum"} : tensor<8x2x16xbf16>
// CHECK: %[[Y:.*]] = autopar.unary gelu_tanh %[[S]] : tensor<8x2x16xbf16>
// CHECK: return %[[Y]]
func.func @forward(%x: tensor<8x24xbf16>, %w: tensor<24x2x16xbf16>, %b: tensor<2x16xf32>, %r: tensor<8x2x16xbf16>) -> tensor<8x2x16xbf16> {
  %0 = autopar.dot_general %x, %w contract [1] x [0] : (tensor<8x24xbf16>, tensor<24x2x16xbf16>) -> tensor<8x2x16xbf16>
  %1 = autopar.cast %0 : tensor<8x2x16xbf16> -> tensor<8x2x16xf32>
  %2 = autopar.broadcast %b dims [1, 2] : tensor<2x16xf32> -> tensor<8x2x16xf32>
  %3 = autopar.binary add %1, %2 {autopar.id = "add"} : tensor<8x2x16xf32>
  %4 = autopar.cast %r : tensor<8x2x16xbf16> -> tensor<8x2x16xf32>
  %5 = autopar.binary add %4, %3 {autopar.id = "sum"} : tensor<8x2x16xf32>
  %6 = autopar.cast %5 : tensor<8x2x16xf32> -> tensor<8x2x16xbf16>
  %7 = autopar.cast %6 : tensor<8x2x16xbf16> -> tensor<8x2x16xf32>
  %8 = autopar.unary gelu_tanh %7 : tensor<8x2x16xf32>
  %9 = autopar.cast %8 : tensor<8x2x16xf32> -> tensor<8x2x16xbf16>
  return %9 : tensor<8x2x16xbf16>
}

// The sum of two products and a bias behind it: the second has the first as its residual.
// CHECK-LABEL: func.func @two
// CHECK: %[[P:.*]] = autopar.dot_general {{.*}} -> tensor<8x16xbf16>
// CHECK: %[[Q:.*]] = autopar.dot_general {{.*}} -> tensor<8x16xbf16>
// CHECK: %[[S:.*]] = autopar.binary add %[[Q]], %[[P]] : tensor<8x16xbf16>
// CHECK: %[[V:.*]] = autopar.broadcast {{.*}} : tensor<16xbf16> -> tensor<8x16xbf16>
// CHECK: %[[A:.*]] = autopar.binary add %[[S]], %[[V]] : tensor<8x16xbf16>
// CHECK: autopar.unary relu %[[A]] : tensor<8x16xbf16>
func.func @two(%x: tensor<8x24xbf16>, %w: tensor<24x16xbf16>, %v: tensor<24x16xbf16>, %b: tensor<16xf32>) -> tensor<8x16xbf16> {
  %0 = autopar.dot_general %x, %w contract [1] x [0] : (tensor<8x24xbf16>, tensor<24x16xbf16>) -> tensor<8x16xbf16>
  %1 = autopar.cast %0 : tensor<8x16xbf16> -> tensor<8x16xf32>
  %2 = autopar.dot_general %x, %v contract [1] x [0] : (tensor<8x24xbf16>, tensor<24x16xbf16>) -> tensor<8x16xbf16>
  %3 = autopar.cast %2 : tensor<8x16xbf16> -> tensor<8x16xf32>
  %4 = autopar.binary add %1, %3 : tensor<8x16xf32>
  %5 = autopar.broadcast %b dims [1] : tensor<16xf32> -> tensor<8x16xf32>
  %6 = autopar.binary add %4, %5 : tensor<8x16xf32>
  %7 = autopar.unary relu %6 : tensor<8x16xf32>
  %8 = autopar.cast %7 : tensor<8x16xf32> -> tensor<8x16xbf16>
  return %8 : tensor<8x16xbf16>
}

// CHECK-LABEL: func.func @gradient
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<8x16xbf16>)
// CHECK: %[[P:.*]] = autopar.dot_general
// CHECK: %[[Y:.*]] = autopar.unary_grad gelu_tanh %[[X]], %[[P]] : tensor<8x16xbf16>
// CHECK: return %[[Y]]
// KERNELS-LABEL: func.func @gradient
// KERNELS: autopar.unary_grad gelu_tanh {{.*}} : tensor<8x16xf32>
func.func @gradient(%g: tensor<8x24xbf16>, %w: tensor<24x16xbf16>, %x: tensor<8x16xbf16>) -> tensor<8x16xbf16> {
  %0 = autopar.dot_general %g, %w contract [1] x [0] : (tensor<8x24xbf16>, tensor<24x16xbf16>) -> tensor<8x16xbf16>
  %1 = autopar.cast %0 : tensor<8x16xbf16> -> tensor<8x16xf32>
  %2 = autopar.cast %x : tensor<8x16xbf16> -> tensor<8x16xf32>
  %3 = autopar.unary_grad gelu_tanh %2, %1 : tensor<8x16xf32>
  %4 = autopar.cast %3 : tensor<8x16xf32> -> tensor<8x16xbf16>
  return %4 : tensor<8x16xbf16>
}

// What is read in f32 too stays f32; so does what the library has not: a product of both, a bias along the rows, one along
// more than the columns.
// CHECK-LABEL: func.func @stays
// CHECK-COUNT-3: autopar.binary {{.*}} : tensor<16x16xf32>
// CHECK: autopar.binary {{.*}} : tensor<4x4x16xf32>
// CHECK-NOT: autopar.binary {{.*}}xbf16>
func.func @stays(%x: tensor<16x24xbf16>, %w: tensor<24x16xbf16>, %b: tensor<16xf32>, %r: tensor<16x16xbf16>, %m: tensor<4x16xf32>)
    -> (tensor<16x16xbf16>, tensor<16x16xf32>, tensor<16x16xbf16>, tensor<16x16xbf16>, tensor<4x4x16xbf16>) {
  %wide = autopar.cast %r : tensor<16x16xbf16> -> tensor<16x16xf32>
  %0 = autopar.dot_general %x, %w contract [1] x [0] : (tensor<16x24xbf16>, tensor<24x16xbf16>) -> tensor<16x16xbf16>
  %1 = autopar.cast %0 : tensor<16x16xbf16> -> tensor<16x16xf32>
  %2 = autopar.binary add %1, %wide : tensor<16x16xf32>
  %3 = autopar.cast %2 : tensor<16x16xf32> -> tensor<16x16xbf16>
  %4 = autopar.dot_general %x, %w contract [1] x [0] : (tensor<16x24xbf16>, tensor<24x16xbf16>) -> tensor<16x16xbf16>
  %5 = autopar.cast %4 : tensor<16x16xbf16> -> tensor<16x16xf32>
  %6 = autopar.binary mul %5, %wide : tensor<16x16xf32>
  %7 = autopar.cast %6 : tensor<16x16xf32> -> tensor<16x16xbf16>
  %8 = autopar.dot_general %x, %w contract [1] x [0] : (tensor<16x24xbf16>, tensor<24x16xbf16>) -> tensor<16x16xbf16>
  %9 = autopar.cast %8 : tensor<16x16xbf16> -> tensor<16x16xf32>
  %10 = autopar.broadcast %b dims [0] : tensor<16xf32> -> tensor<16x16xf32>
  %11 = autopar.binary add %9, %10 : tensor<16x16xf32>
  %12 = autopar.cast %11 : tensor<16x16xf32> -> tensor<16x16xbf16>
  %13 = autopar.dot_general %x, %w contract [1] x [0] : (tensor<16x24xbf16>, tensor<24x16xbf16>) -> tensor<16x16xbf16>
  %14 = autopar.reshape %13 : tensor<16x16xbf16> -> tensor<4x4x16xbf16>
  %15 = autopar.cast %14 : tensor<4x4x16xbf16> -> tensor<4x4x16xf32>
  %16 = autopar.broadcast %m dims [1, 2] : tensor<4x16xf32> -> tensor<4x4x16xf32>
  %17 = autopar.binary add %15, %16 : tensor<4x4x16xf32>
  %18 = autopar.cast %17 : tensor<4x4x16xf32> -> tensor<4x4x16xbf16>
  return %3, %2, %7, %12, %18 : tensor<16x16xbf16>, tensor<16x16xf32>, tensor<16x16xbf16>, tensor<16x16xbf16>, tensor<4x4x16xbf16>
}
