// RUN: autopar-opt %s --pass-pipeline="builtin.module(exec.program(autopar-stage-host-buffers,autopar-mark-instructions,autopar-plan-memory,autopar-order-queues))" | FileCheck %s

// Two updates whose states lie in host memory. What the second needs is fetched in front of the first, and the first's is stored
// while the second runs; what is stored commits. Scalars and weights stay where they are.

// CHECK-LABEL: exec.program @train arena [448, 128, 0]
// CHECK: %[[M0:.*]] = exec.buffer "m0" {{ *}}pinned_host bytes 64
// CHECK-NEXT: %[[F0:.*]] = exec.buffer "m0.fetched" {{ *}}device bytes 64
// CHECK-NEXT: %[[M1:.*]] = exec.buffer "m1" {{ *}}pinned_host bytes 64
// CHECK-NEXT: %[[F1:.*]] = exec.buffer "m1.fetched" {{ *}}device bytes 64
// CHECK-NEXT: %[[V:.*]] = exec.view "m1.view" %[[F1]] at 0 bytes 64
// CHECK: exec.launch @loss
// CHECK-NEXT: exec.copy %[[M0]] at 0 -> %[[F0]] at 0 bytes 64 queue {{ *}}copy_in {{.*}}id = "m0/fetch"
// CHECK-NEXT: exec.copy %[[M1]] at 0 -> %[[F1]] at 0 bytes 64 queue {{ *}}copy_in {{.*}}id = "m1/fetch"
// CHECK-NEXT: exec.launch @update(%{{.*}}, %[[F0]], %{{.*}}) -> (%{{.*}}, %[[F0]]) extent 1 after [1] {commits}
// CHECK-NEXT: exec.copy %[[F0]] at 0 -> %[[M0]] at 0 bytes 64 queue {{ *}}copy_out after [3] {{.*}}commits, id = "m0/store"
// CHECK-NEXT: exec.launch @update(%{{.*}}, %[[V]], %{{.*}}) -> (%{{.*}}, %[[V]]) extent 1 after [2] {commits}
// CHECK-NEXT: exec.copy %[[F1]] at 0 -> %[[M1]] at 0 bytes 64 queue {{ *}}copy_out after [5] {{.*}}commits, id = "m1/store"
exec.program @train threads 1 {
  %x = exec.buffer "x" device bytes 64 : tensor<16xf32>
  %w0 = exec.buffer "w0" device bytes 64 : tensor<16xf32>
  %w1 = exec.buffer "w1" device bytes 64 : tensor<16xf32>
  %m0 = exec.buffer "m0" pinned_host bytes 64 : tensor<16xf32>
  %m1 = exec.buffer "m1" pinned_host bytes 64 : tensor<16xf32>
  %v1 = exec.view "m1.view" %m1 at 0 bytes 64 : tensor<4x4xf32>
  %l = exec.buffer "loss" device bytes 4 : tensor<f32>
  %g = exec.buffer "g" device bytes 64 : tensor<16xf32>
  exec.port input "x" %x : tensor<16xf32>
  exec.port state "w0" %w0 : tensor<16xf32>
  exec.port state "w1" %w1 : tensor<16xf32>
  exec.port state "m0" %m0 : tensor<16xf32>
  exec.port state "m1" %m1 : tensor<16xf32>
  exec.port metric "loss" %l : tensor<f32> {guards}
  exec.entry @step {
    exec.launch @loss(%x, %w0, %w1) -> (%l, %g) extent 1
    exec.launch @update(%w0, %m0, %g) -> (%w0, %m0) extent 1
    exec.launch @update(%w1, %v1, %g) -> (%w1, %v1) extent 1
  }
  exec.timetable [@step] slots [0]
}
