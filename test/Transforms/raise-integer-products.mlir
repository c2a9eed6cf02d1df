// RUN: autopar-opt %s --autopar-raise-integer-products | FileCheck %s
// RUN: autopar-opt %s --autopar-raise-integer-products="target=cuda" | FileCheck %s --check-prefix=CUDA

// What was 8 bits is summed as integers; the scale of the left and those of the columns multiply the sum. GPUs sum floats.

// CHECK-LABEL: @product
// CHECK: %[[X:.*]] = autopar.binary sub %{{.*}} : tensor<4x8xi32>
// CHECK: %[[W:.*]] = autopar.cast %arg1 : tensor<8x16xi8> -> tensor<8x16xi32>
// CHECK: %[[SUM:.*]] = autopar.dot_general %[[X]], %[[W]] contract [1] x [0] {autopar.id = "p"} {{.*}} -> tensor<4x16xi32>
// CHECK: %[[FLOATS:.*]] = autopar.cast %[[SUM]] {autopar.id = "p/sum"} : tensor<4x16xi32> -> tensor<4x16xf32>
// CHECK: %[[A:.*]] = autopar.broadcast %arg2 dims [] {autopar.id = "p/scales.broadcast"} : tensor<f32> -> tensor<16xf32>
// CHECK: %[[AB:.*]] = autopar.binary mul %arg3, %[[A]] {autopar.id = "p/scales"}
// CHECK: %[[ROWS:.*]] = autopar.broadcast %[[AB]] dims [1]
// CHECK: %[[Y:.*]] = autopar.binary mul %[[FLOATS]], %[[ROWS]] {autopar.id = "p/scale"}
// CHECK: return %[[Y]]
// CUDA-LABEL: @product
// CUDA: %[[X:.*]] = autopar.cast %{{.*}} : tensor<4x8xi32> -> tensor<4x8xf32>
// CUDA: %[[W:.*]] = autopar.cast %arg1 : tensor<8x16xi8> -> tensor<8x16xf32>
// CUDA: autopar.dot_general %[[X]], %[[W]] contract [1] x [0] {autopar.id = "p"} {{.*}} -> tensor<4x16xf32>
// CUDA: autopar.binary mul %{{.*}}, %{{.*}} {autopar.id = "p/scale"}
func.func @product(%x: tensor<4x8xui8>, %w: tensor<8x16xi8>, %a: tensor<f32>, %b: tensor<16xf32>) -> tensor<4x16xf32> {
  %wide = autopar.cast %x : tensor<4x8xui8> -> tensor<4x8xi32>
  %zero = autopar.constant dense<128> : tensor<i32>
  %zeros = autopar.broadcast %zero dims [] : tensor<i32> -> tensor<4x8xi32>
  %centered = autopar.binary sub %wide, %zeros : tensor<4x8xi32>
  %whole = autopar.cast %centered : tensor<4x8xi32> -> tensor<4x8xf32>
  %as = autopar.broadcast %a dims [] : tensor<f32> -> tensor<4x8xf32>
  %left = autopar.binary mul %whole, %as : tensor<4x8xf32>
  %weight = autopar.cast %w : tensor<8x16xi8> -> tensor<8x16xf32>
  %bs = autopar.broadcast %b dims [1] : tensor<16xf32> -> tensor<8x16xf32>
  %right = autopar.binary mul %weight, %bs : tensor<8x16xf32>
  %y = autopar.dot_general %left, %right contract [1] x [0] {autopar.id = "p"} : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  return %y : tensor<4x16xf32>
}

// A scale that is a constant, and a transposed convolution.
// CHECK-LABEL: @constants
// CHECK: %[[ONE:.*]] = autopar.constant dense<5.000000e-01> : tensor<f32>
// CHECK: autopar.convolution_input_grad {{.*}} (tensor<1x4x8x8xi32>, tensor<4x2x2x2xi32>) -> tensor<1x2x16x16xi32>
// CHECK: autopar.binary mul %arg2, %[[ONE]] {autopar.id = "t/scales"}
func.func @constants(%x: tensor<1x4x8x8xi8>, %w: tensor<4x2x2x2xi8>, %b: tensor<f32>) -> tensor<1x2x16x16xf32> {
  %whole = autopar.cast %x : tensor<1x4x8x8xi8> -> tensor<1x4x8x8xf32>
  %as = autopar.constant dense<0.5> : tensor<1x4x8x8xf32>
  %left = autopar.binary mul %whole, %as : tensor<1x4x8x8xf32>
  %weight = autopar.cast %w : tensor<4x2x2x2xi8> -> tensor<4x2x2x2xf32>
  %bs = autopar.broadcast %b dims [] : tensor<f32> -> tensor<4x2x2x2xf32>
  %right = autopar.binary mul %weight, %bs : tensor<4x2x2x2xf32>
  %y = autopar.convolution_input_grad %left, %right {autopar.id = "t", strides = array<i64: 2, 2>, padBegin = array<i64: 0, 0>, padEnd = array<i64: 0, 0>,
      inputDilation = array<i64: 1, 1>, filterDilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<1x4x8x8xf32>, tensor<4x2x2x2xf32>) -> tensor<1x2x16x16xf32>
  return %y : tensor<1x2x16x16xf32>
}

// Sums that can pass 2^31 are of floats: 2^31 / (128 * 128) is 131,072.
// CHECK-LABEL: @long
// CHECK: autopar.dot_general {{.*}} -> tensor<1x1xi32>
// CHECK: autopar.dot_general {{.*}} -> tensor<1x1xf32>
func.func @long(%x: tensor<1x131071xi8>, %y: tensor<1x131072xi8>, %s: tensor<f32>) -> (tensor<1x1xf32>, tensor<1x1xf32>) {
  %xf = autopar.cast %x : tensor<1x131071xi8> -> tensor<1x131071xf32>
  %yf = autopar.cast %y : tensor<1x131072xi8> -> tensor<1x131072xf32>
  %xs = autopar.broadcast %s dims [] : tensor<f32> -> tensor<1x131071xf32>
  %ys = autopar.broadcast %s dims [] : tensor<f32> -> tensor<1x131072xf32>
  %a = autopar.binary mul %xf, %xs : tensor<1x131071xf32>
  %b = autopar.binary mul %yf, %ys : tensor<1x131072xf32>
  %u = autopar.dot_general %a, %a contract [1] x [1] : (tensor<1x131071xf32>, tensor<1x131071xf32>) -> tensor<1x1xf32>
  %v = autopar.dot_general %b, %b contract [1] x [1] : (tensor<1x131072xf32>, tensor<1x131072xf32>) -> tensor<1x1xf32>
  return %u, %v : tensor<1x1xf32>, tensor<1x1xf32>
}

// Scales along what is summed stay, as do numbers that are not whole or too large.
// CHECK-LABEL: @others
// CHECK: autopar.dot_general %{{.*}}, %{{.*}}
// CHECK-NOT: autopar.binary
// CHECK: autopar.dot_general %{{.*}}, %{{.*}}
// CHECK-NOT: autopar.binary
// CHECK: return
func.func @others(%x: tensor<4x8xi8>, %a: tensor<f32>, %b: tensor<8xf32>) -> (tensor<4x2xf32>, tensor<4x2xf32>) {
  %whole = autopar.cast %x : tensor<4x8xi8> -> tensor<4x8xf32>
  %as = autopar.broadcast %a dims [] : tensor<f32> -> tensor<4x8xf32>
  %left = autopar.binary mul %whole, %as : tensor<4x8xf32>
  %w = autopar.constant dense<3.000000e+00> : tensor<8x2xf32>
  %v = autopar.constant dense<3.500000e+00> : tensor<8x2xf32>
  %bs = autopar.broadcast %b dims [0] : tensor<8xf32> -> tensor<8x2xf32>
  %one = autopar.broadcast %a dims [] : tensor<f32> -> tensor<8x2xf32>
  %summed = autopar.binary mul %w, %bs : tensor<8x2xf32>
  %part = autopar.binary mul %v, %one : tensor<8x2xf32>
  %y = autopar.dot_general %left, %summed contract [1] x [0] : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  %z = autopar.dot_general %left, %part contract [1] x [0] : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  return %y, %z : tensor<4x2xf32>, tensor<4x2xf32>
}
