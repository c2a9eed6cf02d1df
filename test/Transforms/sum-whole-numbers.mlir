// RUN: autopar-opt %s --autopar-sum-whole-numbers | FileCheck %s

// What was 8 bits is summed as whole numbers; the scale of the left and those of the columns multiply the sum.

// CHECK-LABEL: @product
// CHECK: %[[X:.*]] = autopar.cast %{{.*}} : tensor<4x8xi32> -> tensor<4x8xf32>
// CHECK: %[[W:.*]] = autopar.cast %arg1 : tensor<8x16xi8> -> tensor<8x16xf32>
// CHECK: %[[SUM:.*]] = autopar.dot_general %[[X]], %[[W]] contract [1] x [0] {autopar.id = "p"}
// CHECK: %[[A:.*]] = autopar.broadcast %arg2 dims [] {autopar.id = "p/scales.broadcast"} : tensor<f32> -> tensor<16xf32>
// CHECK: %[[AB:.*]] = autopar.binary mul %arg3, %[[A]] {autopar.id = "p/scales"}
// CHECK: %[[ROWS:.*]] = autopar.broadcast %[[AB]] dims [1]
// CHECK: %[[Y:.*]] = autopar.binary mul %[[SUM]], %[[ROWS]] {autopar.id = "p/scale"}
// CHECK: return %[[Y]]
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
