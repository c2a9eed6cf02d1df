// RUN: autopar-opt %s --autopar-expand-gradients=target=cuda --autopar-form-fusion-groups --autopar-to-exec="target=cuda" | FileCheck %s

// The gradient of a gelu is part of the product before it, which reads what the gelu was given; the result does not take
// that value's place.
// CHECK: exec.matmul %{{.*}}, %{{.*}} -> %[[D:.*]] residual %[[X:.*]] scratch %{{.*}} <{{.*}}residual = true, epilogue = gelu_tanh_grad>
// CHECK-NOT: exec.launch
func.func @main(%x: tensor<2x8x16xbf16> {autopar.name = "x"}, %g: tensor<16x24xbf16> {autopar.name = "g"}, %w: tensor<24x16xbf16> {autopar.name = "w"})
    -> (tensor<2x8x16xbf16> {autopar.name = "y"}) {
  %0 = autopar.dot_general %g, %w contract [1] x [0] {autopar.id = "fc/vjp.0"} : (tensor<16x24xbf16>, tensor<24x16xbf16>) -> tensor<16x16xbf16>
  %1 = autopar.reshape %0 : tensor<16x16xbf16> -> tensor<2x8x16xbf16>
  %2 = autopar.unary_grad gelu_tanh %x, %1 {autopar.id = "gelu/vjp.0"} : tensor<2x8x16xbf16>
  return %2 : tensor<2x8x16xbf16>
}
