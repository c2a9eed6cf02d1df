// RUN: autopar-opt %s --autopar-expand-convolution-gradients | FileCheck %s --check-prefixes=CHECK,ALL,WIDE
// RUN: autopar-opt %s --autopar-expand-convolution-gradients="mode=auto target=cuda" | FileCheck %s --check-prefixes=CHECK,CALL,WIDE
// RUN: autopar-opt %s --autopar-expand-convolution-gradients="mode=auto target=cpu" | FileCheck %s --check-prefixes=CHECK,CALL,CPU
// RUN: not autopar-opt %s --autopar-expand-convolution-gradients=mode=some 2>&1 | FileCheck %s --check-prefix=MODE

// MODE: convolutions: expected auto or kernels, got "some"

// CHECK-LABEL: func @strided
// ALL: %[[T:.*]] = autopar.transpose %{{.*}} permutation [0, 2, 1, 3, 4] {autopar.id = "c/vjp/transpose"}
// ALL: %[[J:.*]] = autopar.reshape %[[T]]
// ALL: %[[R:.*]] = autopar.slice %[[J]] starts [0, 0, 2, 2] steps [1, 1, -1, -1]
// ALL: autopar.convolution %{{.*}}, %[[R]] {autopar.id = "c/vjp", {{.*}}inputDilation = array<i64: 2, 2>
// CALL: autopar.convolution_input_grad
// CALL-NOT: autopar.convolution %
func.func @strided(%g: tensor<1x4x4x4xf32>, %w: tensor<4x2x3x3xf32>) -> tensor<1x2x8x8xf32> {
  %0 = autopar.convolution_input_grad %g, %w {autopar.id = "c/vjp", strides = array<i64: 2, 2>, padBegin = array<i64: 1, 1>, padEnd = array<i64: 1, 1>, inputDilation = array<i64: 1, 1>, filterDilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<1x4x4x4xf32>, tensor<4x2x3x3xf32>) -> tensor<1x2x8x8xf32>
  return %0 : tensor<1x2x8x8xf32>
}

// A product for each position in the filter.
// CHECK-LABEL: func @filter
// ALL-COUNT-4: autopar.dot_general
// ALL: autopar.concat
// CALL: autopar.convolution_filter_grad
func.func @filter(%x: tensor<1x2x5x5xf32>, %g: tensor<1x4x4x4xf32>) -> tensor<4x2x2x2xf32> {
  %0 = autopar.convolution_filter_grad %x, %g {autopar.id = "c/vjp", strides = array<i64: 1, 1>, padBegin = array<i64: 0, 0>, padEnd = array<i64: 0, 0>, inputDilation = array<i64: 1, 1>, filterDilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<1x2x5x5xf32>, tensor<1x4x4x4xf32>) -> tensor<4x2x2x2xf32>
  return %0 : tensor<4x2x2x2xf32>
}

// No library has a spread input, a negative padding or f64.
// CHECK-LABEL: func @others
// CHECK-NOT: autopar.convolution_
func.func @others(%g: tensor<1x4x9x9xf32>, %w: tensor<4x2x2x2xf32>, %h: tensor<1x4x2x2xf32>, %d: tensor<1x4x4x4xf64>, %v: tensor<4x2x2x2xf64>)
    -> (tensor<1x2x5x5xf32>, tensor<1x2x5x5xf32>, tensor<1x2x5x5xf64>) {
  %0 = autopar.convolution_input_grad %g, %w {strides = array<i64: 1, 1>, padBegin = array<i64: 1, 1>, padEnd = array<i64: 0, 0>, inputDilation = array<i64: 2, 2>, filterDilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<1x4x9x9xf32>, tensor<4x2x2x2xf32>) -> tensor<1x2x5x5xf32>
  %1 = autopar.convolution_input_grad %h, %w {strides = array<i64: 1, 1>, padBegin = array<i64: -1, -1>, padEnd = array<i64: -1, -1>, inputDilation = array<i64: 1, 1>, filterDilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<1x4x2x2xf32>, tensor<4x2x2x2xf32>) -> tensor<1x2x5x5xf32>
  %2 = autopar.convolution_input_grad %d, %v {strides = array<i64: 1, 1>, padBegin = array<i64: 0, 0>, padEnd = array<i64: 0, 0>, inputDilation = array<i64: 1, 1>, filterDilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<1x4x4x4xf64>, tensor<4x2x2x2xf64>) -> tensor<1x2x5x5xf64>
  return %0, %1, %2 : tensor<1x2x5x5xf32>, tensor<1x2x5x5xf32>, tensor<1x2x5x5xf64>
}

// The gradient of a parameter is summed in f32: so are the products that it is made of. The library of CPUs does the same.
// CHECK-LABEL: func @wide
// CPU-COUNT-2: autopar.convolution_filter_grad
// WIDE: autopar.dot_general {{.*}} : (tensor<1x1x4x16x16xbf16>, tensor<1x1x2x16x16xbf16>) -> tensor<1x4x2xf32>
// WIDE: autopar.convolution %{{.*}} -> tensor<2x4x9x9xf32>
func.func @wide(%x: tensor<1x2x17x17xbf16>, %g: tensor<1x4x16x16xbf16>, %h: tensor<1x4x9x9xbf16>) -> (tensor<4x2x2x2xf32>, tensor<4x2x9x9xf32>) {
  %0 = autopar.convolution_filter_grad %x, %g {strides = array<i64: 1, 1>, padBegin = array<i64: 0, 0>, padEnd = array<i64: 0, 0>, inputDilation = array<i64: 1, 1>, filterDilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<1x2x17x17xbf16>, tensor<1x4x16x16xbf16>) -> tensor<4x2x2x2xf32>
  %1 = autopar.convolution_filter_grad %x, %h {strides = array<i64: 1, 1>, padBegin = array<i64: 0, 0>, padEnd = array<i64: 0, 0>, inputDilation = array<i64: 1, 1>, filterDilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<1x2x17x17xbf16>, tensor<1x4x9x9xbf16>) -> tensor<4x2x9x9xf32>
  return %0, %1 : tensor<4x2x2x2xf32>, tensor<4x2x9x9xf32>
}
