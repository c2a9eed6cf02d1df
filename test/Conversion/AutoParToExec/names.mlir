// RUN: autopar-opt %s --autopar-to-exec | FileCheck %s

// What the model does not name is given a name that it does not use itself.

// CHECK-DAG: exec.port input "arg0_"
// CHECK-DAG: exec.port input "arg0"
// CHECK-DAG: exec.port parameter "constant.0"
// CHECK-DAG: exec.port parameter "constant.0_"
// CHECK-DAG: exec.port parameter "control"
// CHECK-DAG: exec.port parameter "control_"
// CHECK-DAG: exec.port output "output0_"
// CHECK-DAG: exec.port output "output0"
autopar.origin @control : tensor<8xf32> in "m.onnx" at 64
autopar.origin @constant.0 : tensor<8xf32> in "m.onnx" at 96
func.func @main(%x: tensor<8xf32>, %y: tensor<8xf32> {autopar.name = "arg0"}, %z: tensor<8xf32> {autopar.origin = @constant.0},
                %w: tensor<8xf32> {autopar.origin = @control}, %step: tensor<i64> {autopar.name = "step", autopar.control = "step"})
    -> (tensor<8xf32>, tensor<8xf32> {autopar.name = "output0"}, tensor<i64> {autopar.name = "s"}) {
  %c = autopar.constant dense<[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]> : tensor<8xf32>
  %d = autopar.constant dense<1> : tensor<i64>
  %0 = autopar.binary add %x, %c : tensor<8xf32>
  %1 = autopar.binary mul %y, %z : tensor<8xf32>
  %2 = autopar.binary mul %1, %w : tensor<8xf32>
  %3 = autopar.binary add %step, %d : tensor<i64>
  return %0, %2, %3 : tensor<8xf32>, tensor<8xf32>, tensor<i64>
}
