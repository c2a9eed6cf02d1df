// RUN: autopar-opt %s --autopar-mixed-precision="precision=fp16" | FileCheck %s

// Outputs keep the model's own types: f16 ones are not widened.
// CHECK: -> (tensor<2x4xf16> {autopar.name = "y"}, tensor<2x4xf32> {autopar.name = "z"})
// CHECK: %[[Y:.*]] = autopar.dot_general {{.*}} {autopar.id = "fc"} {{.*}} -> tensor<2x4xf16>
// CHECK: %[[Z:.*]] = autopar.dot_general {{.*}} {autopar.id = "head"} {{.*}} -> tensor<2x4xf16>
// CHECK: %[[W:.*]] = autopar.cast %[[Z]] {{.*}} : tensor<2x4xf16> -> tensor<2x4xf32>
// CHECK: return %[[Y]], %[[W]]
func.func @main(%x: tensor<2x4xf16> {autopar.name = "x"}, %w: tensor<4x4xf16> {autopar.name = "w"},
                %v: tensor<2x4xf32> {autopar.name = "v"}, %u: tensor<4x4xf32> {autopar.name = "u"})
    -> (tensor<2x4xf16> {autopar.name = "y"}, tensor<2x4xf32> {autopar.name = "z"}) {
  %y = autopar.dot_general %x, %w contract [1] x [0] {autopar.id = "fc"} : (tensor<2x4xf16>, tensor<4x4xf16>) -> tensor<2x4xf16>
  %z = autopar.dot_general %v, %u contract [1] x [0] {autopar.id = "head"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  return %y, %z : tensor<2x4xf16>, tensor<2x4xf32>
}
