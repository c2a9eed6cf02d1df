// RUN: autopar-opt %s --autopar-to-exec | FileCheck %s

// What the step donates lies in its buffer for good: a parameter with an origin, or state that starts
// at zero. A kernel that is the last to read the old value stores the new one over it; other new values are
// copied at the end, swapped ones through a third place.

// CHECK: %[[RATE:.*]] = exec.buffer "control.learning_rate"
// CHECK-DAG: exec.port state "w" %[[W:[0-9]+]] : tensor<4xf32>
// CHECK-DAG: exec.port state "v" %[[V:[0-9]+]] : tensor<4xf32>
// CHECK-DAG: exec.port state "a" %[[A:[0-9]+]] : tensor<4xf32>
// CHECK-DAG: exec.port state "b" %[[B:[0-9]+]] : tensor<4xf32>
// CHECK-DAG: exec.port parameter "control" %[[CONTROL:[0-9]+]] : tensor<16xi64> {value = dense<[0, 0, 4602678819172646912, 0,
// CHECK-DAG: exec.port metric "loss" %{{.*}} : tensor<f64> {evaluated}
// CHECK: exec.entry @load
// CHECK-NOT: exec.launch
// CHECK: exec.entry @step
// CHECK: exec.copy %[[CONTROL]] at 16 -> %[[RATE]] at 0 bytes 8
// CHECK: exec.copy %[[CONTROL]] at 0 -> %{{.*}} at 0 bytes 8
// CHECK: exec.launch @{{.*}}(%[[W]]) -> (%[[W]])
// CHECK: exec.launch @{{.*}}(%[[V]]) -> (%[[NEXT:[0-9]+]])
// CHECK: exec.launch @{{.*}}(%[[V]]) -> (%{{.*}})
// CHECK: exec.copy %[[B]] at 0 -> %[[B2:[0-9]+]] at 0 bytes 16
// CHECK: exec.copy %[[A]] at 0 -> %[[A2:[0-9]+]] at 0 bytes 16
// CHECK: exec.copy %[[NEXT]] at 0 -> %[[V]] at 0 bytes 16
// CHECK: exec.copy %[[B2]] at 0 -> %[[A]] at 0 bytes 16
// CHECK: exec.copy %[[A2]] at 0 -> %[[B]] at 0 bytes 16
autopar.origin @w : tensor<4xf32> in "w.bin" at 0
func.func @main(%w: tensor<4xf32> {autopar.name = "w", autopar.origin = @w, autopar.donated},
                %v: tensor<4xf32> {autopar.name = "v", autopar.donated},
                %a: tensor<4xf32> {autopar.name = "a", autopar.donated}, %b: tensor<4xf32> {autopar.name = "b", autopar.donated},
                %rate: tensor<f64> {autopar.name = "control.learning_rate", autopar.control = "learning_rate", autopar.initial = 0.5 : f64},
                %step: tensor<i64> {autopar.name = "control.step", autopar.control = "step"})
    -> (tensor<4xf32> {autopar.name = "w"}, tensor<4xf32> {autopar.name = "v"}, tensor<4xf32> {autopar.name = "a"}, tensor<4xf32> {autopar.name = "b"},
        tensor<f64> {autopar.evaluated, autopar.name = "loss", autopar.metric}, tensor<4xf32> {autopar.name = "late"}) {
  %n = autopar.unary neg %w {autopar.id = "neg"} : tensor<4xf32>
  %m = autopar.unary exp %v {autopar.id = "exp"} : tensor<4xf32>
  %l = autopar.unary sin %v {autopar.id = "late"} : tensor<4xf32>
  %c = autopar.cast %step {autopar.id = "cast"} : tensor<i64> -> tensor<f64>
  %s = autopar.binary add %rate, %c {autopar.id = "add"} : tensor<f64>
  return %n, %m, %b, %a, %s, %l : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f64>, tensor<4xf32>
}
