// RUN: autopar-opt %s --autopar-bound-attention-bias | FileCheck %s

// All that read a bias read the same bound.
// CHECK-LABEL: func.func @layers
// CHECK: %[[N:.*]] = autopar.constant {autopar.id = "a/least/number"} dense<-1.2676506E+30> : tensor<f32>
// CHECK: %[[L:.*]] = autopar.broadcast %[[N]] dims [] {autopar.id = "a/least"} : tensor<f32> -> tensor<2x1x1x8xf32>
// CHECK: %[[B:.*]] = autopar.binary max %arg1, %[[L]] {autopar.id = "a/bound"}
// Gradients get every row of a bias.
// CHECK: %[[ROWS:.*]] = autopar.broadcast %[[B]] dims [0, 1, 2, 3] {autopar.id = "a/vjp/all_rows"} : tensor<2x1x1x8xf32> -> tensor<2x1x8x8xf32>
// CHECK: %[[Y:.*]], %[[S:.*]] = autopar.attention %arg0, %arg0, %arg0 bias %[[B]] scale
// A row that is hidden whole has no gradient.
// CHECK: %[[SEEN:.*]] = autopar.compare gt %[[S]], %{{.*}} {autopar.id = "a/vjp/is_visible"}
// CHECK: %[[SUMS:.*]] = autopar.select %[[SEEN]], %[[S]], %{{.*}} {autopar.id = "a/vjp/visible_rows"}
// CHECK: autopar.attention_grad %arg0, %arg0, %arg0, %[[Y]], %[[SUMS]], %arg0 bias %[[ROWS]] scale
func.func @layers(%x: tensor<2x4x8x8xbf16>, %mask: tensor<2x1x1x8xf32>) -> tensor<2x4x8x8xbf16> {
  %y, %l = autopar.attention %x, %x, %x bias %mask scale 1.0 {autopar.id = "a"} : (tensor<2x4x8x8xbf16>, tensor<2x4x8x8xbf16>, tensor<2x4x8x8xbf16>, tensor<2x1x1x8xf32>) -> (tensor<2x4x8x8xbf16>, tensor<2x4x8xf32>)
  %dq, %dk, %dv = autopar.attention_grad %x, %x, %x, %y, %l, %x bias %mask scale 1.0 {autopar.id = "a/vjp"}
      : (tensor<2x4x8x8xbf16>, tensor<2x4x8x8xbf16>, tensor<2x4x8x8xbf16>, tensor<2x4x8x8xbf16>, tensor<2x4x8xf32>, tensor<2x4x8x8xbf16>, tensor<2x1x1x8xf32>) -> (tensor<2x4x8x8xbf16>, tensor<2x4x8x8xbf16>, tensor<2x4x8x8xbf16>)
  return %dq : tensor<2x4x8x8xbf16>
}

// The least f16 is what the type has. Attention without a bias stays.
// CHECK-LABEL: func.func @half
// CHECK: autopar.constant dense<-6.550400e+04> : tensor<f16>
// CHECK: autopar.attention %{{.*}} bias
// CHECK-NOT: autopar.constant
// CHECK: autopar.attention %arg0, %arg0, %arg0 scale
func.func @half(%x: tensor<2x4x8x8xf16>, %mask: tensor<2x4x8x8xf16>) -> (tensor<2x4x8x8xf16>, tensor<2x4x8x8xf16>) {
  %y, %l = autopar.attention %x, %x, %x bias %mask scale 1.0 : (tensor<2x4x8x8xf16>, tensor<2x4x8x8xf16>, tensor<2x4x8x8xf16>, tensor<2x4x8x8xf16>) -> (tensor<2x4x8x8xf16>, tensor<2x4x8xf32>)
  %z, %m = autopar.attention %x, %x, %x scale 1.0 : (tensor<2x4x8x8xf16>, tensor<2x4x8x8xf16>, tensor<2x4x8x8xf16>) -> (tensor<2x4x8x8xf16>, tensor<2x4x8xf32>)
  return %y, %z : tensor<2x4x8x8xf16>, tensor<2x4x8x8xf16>
}
