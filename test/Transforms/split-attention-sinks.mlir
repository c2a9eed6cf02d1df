// RUN: autopar-opt %s --autopar-split-attention-sinks | FileCheck %s

// Output and row sums are those without the sink, changed by what it takes. Gradients read the changed ones.
// CHECK-LABEL: func.func @both
// CHECK: %[[Y:.*]], %[[L:.*]] = autopar.attention %arg0, %arg0, %arg0 scale 1.000000e+00 causal {autopar.id = "a"}
// CHECK: %[[S:.*]] = autopar.broadcast %arg1 dims [1] {autopar.id = "a/sinks"} : tensor<4xf32> -> tensor<2x4x8xf32>
// CHECK: %[[D:.*]] = autopar.binary sub %[[L]], %[[S]] {autopar.id = "a/sink.difference"}
// CHECK: %[[SHARE:.*]] = autopar.unary sigmoid %[[D]]
// CHECK: %[[SHARES:.*]] = autopar.broadcast %[[SHARE]] dims [0, 1, 2]
// CHECK: %[[WIDE:.*]] = autopar.cast %[[Y]]
// CHECK: %[[SCALED:.*]] = autopar.binary mul %[[WIDE]], %[[SHARES]]
// CHECK: %[[OUT:.*]] = autopar.cast %[[SCALED]] {{.*}} -> tensor<2x4x8x8xbf16>
// CHECK: %[[MORE:.*]] = autopar.unary softplus %[[D]]
// CHECK: %[[SUMS:.*]] = autopar.binary add %[[S]], %[[MORE]]
// CHECK: autopar.attention_grad %arg0, %arg0, %arg0, %[[OUT]], %[[SUMS]], %arg0 scale
func.func @both(%x: tensor<2x4x8x8xbf16>, %s: tensor<4xf32>) -> tensor<2x4x8x8xbf16> {
  %y, %l = autopar.attention %x, %x, %x sink %s scale 1.0 causal {autopar.id = "a"} : (tensor<2x4x8x8xbf16>, tensor<2x4x8x8xbf16>, tensor<2x4x8x8xbf16>, tensor<4xf32>) -> (tensor<2x4x8x8xbf16>, tensor<2x4x8xf32>)
  %dq, %dk, %dv = autopar.attention_grad %x, %x, %x, %y, %l, %x scale 1.0 causal {autopar.id = "a/vjp"}
      : (tensor<2x4x8x8xbf16>, tensor<2x4x8x8xbf16>, tensor<2x4x8x8xbf16>, tensor<2x4x8x8xbf16>, tensor<2x4x8xf32>, tensor<2x4x8x8xbf16>) -> (tensor<2x4x8x8xbf16>, tensor<2x4x8x8xbf16>, tensor<2x4x8x8xbf16>)
  return %dq : tensor<2x4x8x8xbf16>
}

// CHECK-LABEL: func.func @output
// CHECK-NOT: softplus
// CHECK: return
func.func @output(%x: tensor<2x4x8x8xf32>, %s: tensor<4xf32>) -> tensor<2x4x8x8xf32> {
  %y, %l = autopar.attention %x, %x, %x sink %s scale 1.0 : (tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32>, tensor<4xf32>) -> (tensor<2x4x8x8xf32>, tensor<2x4x8xf32>)
  return %y : tensor<2x4x8x8xf32>
}
