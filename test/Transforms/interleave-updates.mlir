// RUN: echo '{"kind": "autopar.cluster", "version": 1, "name": "c", "device_types": [{"name": "gpu", "peak_flops_per_s": {"f32": 1e15, "bf16": 1e15}, "memory_bytes_per_s": 8388608000, "memory_bytes": 10737418240}], "nodes": [{"count": 1, "devices_per_node": 2, "device_type": "gpu"}], "levels": [{"latency_us": 0, "bytes_per_s": 8388608000}]}' > %t.json
// RUN: sed 's/"memory_bytes":/"communicates_while_idle": true, "memory_bytes":/' %t.json > %t.alone.json
// RUN: autopar-opt %s --autopar-interleave-updates="cluster=%t.json" | FileCheck %s
// RUN: autopar-opt %s --autopar-interleave-updates="cluster=%t.alone.json" | FileCheck %s --check-prefix=ALONE
// RUN: autopar-opt %s --autopar-interleave-updates | FileCheck %s --check-prefix=ALONE
// RUN: autopar-opt %s --autopar-interleave-updates="cluster=%t.json memory-limit=536870912" | FileCheck %s --check-prefix=ALONE
// RUN: not autopar-opt %s --autopar-interleave-updates="cluster=presets:none" 2>&1 | FileCheck %s --check-prefix=ERROR

// ERROR: error: 'func.func' op cluster: {{.*}}none

// %a and %b are updated from collective to collective in turn, behind all that either reads: the rate that all share, and
// the gradient of %b. The one that waits for nothing stays where it is.

// CHECK: func.func @main
// CHECK: autopar.unary exp
// CHECK: autopar.binary mul %arg4, %arg4 {{.*}} : tensor<f32>
// CHECK: autopar.unary cos
// CHECK: autopar.unary neg
// CHECK: autopar.unary sqrt {{.*}}"a0"
// CHECK: autopar.all_reduce {{.*}}"a1"
// CHECK: autopar.unary sqrt {{.*}}"b0"
// CHECK: autopar.all_reduce {{.*}}"b1"
// CHECK: autopar.unary tanh {{.*}}"a2"
// CHECK: autopar.all_reduce {{.*}}"a3"
// CHECK: autopar.unary tanh {{.*}}"b2"
// CHECK: autopar.all_reduce {{.*}}"b3"
// CHECK: autopar.binary sub {{.*}}"a"
// CHECK: autopar.binary sub {{.*}}"b"
// CHECK: return

// Where a device does one or the other, where nobody knows what it is, and where both are too much for the memory, the
// order stays.
// ALONE: "a0"
// ALONE: "a1"
// ALONE: "a2"
// ALONE: "a3"
// ALONE: autopar.binary sub {{.*}}"a"
// ALONE: "c0"
// ALONE: "b0"
// ALONE: "b1"
autopar.mesh @mesh ["d" = 2]
func.func @main(%a: tensor<1048576xf32>, %b: tensor<1048576xf32>, %c: tensor<1048576xf32>, %g: tensor<1048576xf32>, %rate: tensor<f32>)
    -> (tensor<1048576xf32>, tensor<1048576xf32>, tensor<1048576xf32>) {
  %da = autopar.unary exp %g {autopar.phase = "backward"} : tensor<1048576xf32>
  %a0 = autopar.unary sqrt %da {autopar.id = "a0", autopar.phase = "update"} : tensor<1048576xf32>
  %a1 = autopar.all_reduce sum %a0 over @mesh ["d"] {autopar.id = "a1"} : tensor<1048576xf32>
  %a2 = autopar.unary tanh %a1 {autopar.id = "a2", autopar.phase = "update"} : tensor<1048576xf32>
  %a3 = autopar.all_reduce sum %a2 over @mesh ["d"] {autopar.id = "a3"} : tensor<1048576xf32>
  %r = autopar.binary mul %rate, %rate {autopar.phase = "update"} : tensor<f32>
  %ra = autopar.broadcast %r dims [] {autopar.phase = "update"} : tensor<f32> -> tensor<1048576xf32>
  %a4 = autopar.binary mul %a3, %ra {autopar.phase = "update"} : tensor<1048576xf32>
  %a5 = autopar.binary sub %a, %a4 {autopar.id = "a", autopar.phase = "update"} : tensor<1048576xf32>
  %db = autopar.unary cos %g {autopar.phase = "backward"} : tensor<1048576xf32>
  %c0 = autopar.unary neg %c {autopar.id = "c0", autopar.phase = "update"} : tensor<1048576xf32>
  %b0 = autopar.unary sqrt %db {autopar.id = "b0", autopar.phase = "update"} : tensor<1048576xf32>
  %b1 = autopar.all_reduce sum %b0 over @mesh ["d"] {autopar.id = "b1"} : tensor<1048576xf32>
  %b2 = autopar.unary tanh %b1 {autopar.id = "b2", autopar.phase = "update"} : tensor<1048576xf32>
  %b3 = autopar.all_reduce sum %b2 over @mesh ["d"] {autopar.id = "b3"} : tensor<1048576xf32>
  %rb = autopar.broadcast %r dims [] {autopar.phase = "update"} : tensor<f32> -> tensor<1048576xf32>
  %b4 = autopar.binary mul %b3, %rb {autopar.phase = "update"} : tensor<1048576xf32>
  %b5 = autopar.binary sub %b, %b4 {autopar.id = "b", autopar.phase = "update"} : tensor<1048576xf32>
  return %a5, %b5, %c0 : tensor<1048576xf32>, tensor<1048576xf32>, tensor<1048576xf32>
}
