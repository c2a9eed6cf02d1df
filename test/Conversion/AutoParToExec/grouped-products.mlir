// RUN: autopar-opt %s --autopar-form-fusion-groups --autopar-to-exec="pack-weights=false" | FileCheck %s

// Two calls. Of the matrices no more are read than there are rows.

// CHECK: exec.entry @step
// CHECK-NEXT: exec.grouped_product %{{.*}}, %{{.*}} by %{{.*}} -> %[[Y:.*]] scratch %{{.*}} <lhs = <f32[2, 20, 16] strides[320, 16, 1]>, rows = <f32[2, 20, 32] strides[640, 32, 1]>, matrices = tensor<4x16x32xf32>, numbers = i64> {bytes = 16192 : i64, flops = 40960 : i64, id = "y", key = "grouped_product"}
// CHECK-NEXT: exec.grouped_product %{{.*}}, %[[Y]] by %{{.*}} -> %{{.*}} scratch %{{.*}} <lhs = <f32[2, 20, 16] strides[320, 16, 1]>, rows = <f32[2, 20, 32] strides[640, 32, 1]>, matrices = tensor<4x16x32xf32>, numbers = i64, gradient = true>
// CHECK-NOT: exec.launch
// CHECK: exec.timetable
func.func @main(%t: tensor<2x20x16xf32> {autopar.name = "x"}, %w: tensor<4x16x32xf32> {autopar.name = "w"}, %g: tensor<2x20xi64> {autopar.name = "g"})
    -> (tensor<2x20x32xf32> {autopar.name = "y"}, tensor<4x16x32xf32> {autopar.name = "dw"}) {
  %y = autopar.grouped_dot %t, %w, %g {autopar.id = "y"} : (tensor<2x20x16xf32>, tensor<4x16x32xf32>, tensor<2x20xi64>) -> tensor<2x20x32xf32>
  %dw = autopar.grouped_dot_rhs_grad %t, %y, %g {autopar.id = "dw"} : (tensor<2x20x16xf32>, tensor<2x20x32xf32>, tensor<2x20xi64>) -> tensor<4x16x32xf32>
  return %y, %dw : tensor<2x20x32xf32>, tensor<4x16x32xf32>
}
