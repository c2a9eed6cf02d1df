// RUN: autopar-opt %s --split-input-file --autopar-to-exec="target=cuda" | FileCheck %s

// A value goes to the host and comes back on the queues of copies; who reads it behind reads what came back.
// CHECK-LABEL: exec.program
// CHECK-DAG: %[[A:.*]] = exec.buffer "a" device bytes 128
// CHECK-DAG: %[[H:.*]] = exec.buffer "a/offload" pinned_host bytes 128
// CHECK-DAG: %[[F:.*]] = exec.buffer "a/fetch" device bytes 128
// CHECK: exec.copy %[[A]] at 0 -> %[[H]] at 0 bytes 128 queue {{ *}}copy_out {{.*}}id = "a/offload", key = "host_copy"
// CHECK: exec.copy %[[H]] at 0 -> %[[F]] at 0 bytes 128 queue {{ *}}copy_in {{.*}}id = "a/fetch", key = "host_copy"
// CHECK: exec.launch {{.*}}%[[F]]
func.func @main(%x: tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>) {
  %a = autopar.unary exp %x {autopar.id = "a"} : tensor<8x4xf32>
  %s = autopar.store_on_host %a {autopar.id = "a/offload"} : tensor<8x4xf32>
  %y = autopar.unary tanh %a {autopar.id = "y"} : tensor<8x4xf32>
  %d = autopar.unary neg %y {autopar.id = "y/vjp.0"} : tensor<8x4xf32>
  %f = autopar.fetch_from_host %s after %d {autopar.id = "a/fetch"} : tensor<8x4xf32>, tensor<8x4xf32>
  %g = autopar.binary mul %d, %f {autopar.id = "a/vjp.0"} : tensor<8x4xf32>
  return %y, %g : tensor<8x4xf32>, tensor<8x4xf32>
}
