// RUN: echo '{"kind": "autopar.cluster", "version": 1, "name": "c", "device_types": [{"name": "gpu", "peak_flops_per_s": {"f32": 1e9, "bf16": 1e9}, "memory_bytes_per_s": 1e12, "memory_bytes": 1073741824}], "nodes": [{"count": 1, "devices_per_node": 2, "device_type": "gpu"}], "levels": [{"latency_us": 0, "bytes_per_s": 1e8}]}' > %t.json
// RUN: sed 's/"memory_bytes":/"communicates_while_idle": true, "memory_bytes":/' %t.json > %t.alone.json
// RUN: autopar-opt %s --autopar-overlap-parts="cluster=%t.json" | FileCheck %s
// RUN: autopar-opt %s --autopar-overlap-parts="cluster=%t.alone.json" | FileCheck %s --check-prefix=WHOLE
// RUN: autopar-opt %s --autopar-overlap-parts="cluster=%t.json saves=0.9" | FileCheck %s --check-prefix=WHOLE
// RUN: autopar-opt %s --autopar-overlap-parts | FileCheck %s --check-prefix=WHOLE
// RUN: not autopar-opt %s --autopar-overlap-parts="cluster=presets:none" 2>&1 | FileCheck %s --check-prefix=ERROR

// ERROR: error: 'func.func' op cluster: {{.*}}none

// Samples go through all of it: while the first half is reduced, the second is multiplied.
// CHECK: module attributes {autopar.in_parts = 4 : i64}
// CHECK: func.func @main
// CHECK: %[[X0:.*]] = autopar.slice %arg0 starts [0, 0]
// CHECK: %[[X1:.*]] = autopar.slice %arg0 starts [32, 0]
// CHECK: %[[P0:.*]] = autopar.dot_general %[[X0]], %arg1
// CHECK: %[[S0:.*]] = autopar.all_reduce sum %[[P0]] over @mesh ["t"] {autopar.id = "sum/part0"} : tensor<32x64xf32>
// CHECK: %[[P1:.*]] = autopar.dot_general %[[X1]], %arg1
// CHECK: %[[S1:.*]] = autopar.all_reduce sum %[[P1]]
// CHECK: %[[R0:.*]] = autopar.group %[[S0]], %arg3 {autopar.id = "relu/part0"} : (tensor<32x64xf32>, tensor<64xf32>) -> tensor<32x64xf32>
// CHECK: autopar.broadcast {{.*}} -> tensor<32x64xf32>
// CHECK: %[[Y0:.*]] = autopar.dot_general %[[R0]], %arg2
// CHECK: %[[R1:.*]] = autopar.group %[[S1]]
// CHECK: %[[Y1:.*]] = autopar.dot_general %[[R1]], %arg2
// CHECK: %[[Y:.*]] = autopar.concat %[[Y0]], %[[Y1]] dim 0
// CHECK: return %[[Y]]
// Where a device does one or the other, too little is saved, or nobody knows what it is, all stays.
// WHOLE-NOT: part
// WHOLE: autopar.all_reduce sum {{.*}} : tensor<64x64xf32>
// WHOLE-NOT: part0
autopar.mesh @mesh ["t" = 2]
func.func @main(%x: tensor<64x64xf32>, %v: tensor<64x64xf32> {autopar.origin = @v}, %w: tensor<64x64xf32> {autopar.origin = @w},
                %b: tensor<64xf32> {autopar.origin = @b}) -> tensor<64x64xf32> {
  %p = autopar.dot_general %x, %v contract [1] x [0] {autopar.id = "p"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %s = autopar.all_reduce sum %p over @mesh ["t"] {autopar.id = "sum"} : tensor<64x64xf32>
  %r = autopar.group %s, %b {autopar.id = "relu"} : (tensor<64x64xf32>, tensor<64xf32>) -> tensor<64x64xf32> {
  ^bb0(%0: tensor<64x64xf32>, %1: tensor<64xf32>):
    %2 = autopar.broadcast %1 dims [1] : tensor<64xf32> -> tensor<64x64xf32>
    %3 = autopar.binary add %0, %2 : tensor<64x64xf32>
    %4 = autopar.unary relu %3 : tensor<64x64xf32>
    autopar.yield %4 : tensor<64x64xf32>
  }
  %y = autopar.dot_general %r, %w contract [1] x [0] {autopar.id = "y"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %y : tensor<64x64xf32>
}
autopar.origin @v : tensor<64x64xf32>
autopar.origin @w : tensor<64x64xf32>
autopar.origin @b : tensor<64xf32>
