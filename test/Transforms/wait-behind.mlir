// RUN: echo '{"kind": "autopar.cluster", "version": 1, "name": "c", "device_types": [{"name": "gpu", "peak_flops_per_s": {"f32": 1e15, "bf16": 1e15}, "memory_bytes_per_s": 8388608000, "memory_bytes": 1073741824}], "nodes": [{"count": 1, "devices_per_node": 2, "device_type": "gpu"}], "levels": [{"latency_us": 0, "bytes_per_s": 8388608000}]}' > %t.json
// RUN: sed 's/"memory_bytes":/"communicates_while_idle": true, "memory_bytes":/' %t.json > %t.alone.json
// RUN: autopar-opt %s --autopar-wait-behind="cluster=%t.json" | FileCheck %s
// RUN: autopar-opt %s --autopar-wait-behind="cluster=%t.alone.json" | FileCheck %s --check-prefix=ALONE
// RUN: autopar-opt %s --autopar-wait-behind | FileCheck %s --check-prefix=ALONE
// RUN: not autopar-opt %s --autopar-wait-behind="cluster=presets:none" 2>&1 | FileCheck %s --check-prefix=ERROR

// ERROR: error: 'func.func' op cluster: {{.*}}none

// The all-reduce takes half a millisecond, %b one: what reads the sum goes behind it.
// CHECK: func.func @main
// CHECK: %[[A:.*]] = autopar.group %arg0
// CHECK: %[[SUM:.*]] = autopar.all_reduce sum %[[A]]
// CHECK: %[[B:.*]] = autopar.group %arg1
// CHECK: autopar.unary sqrt
// CHECK: %[[S:.*]] = autopar.group %[[SUM]]
// CHECK: autopar.unary tanh
// CHECK: %[[C:.*]] = autopar.group %[[B]]
// CHECK: autopar.unary neg
// CHECK: return %[[S]], %[[C]]
// Where a device does one or the other, and where nobody knows what it is, the order stays.
// ALONE: autopar.all_reduce
// ALONE: autopar.unary tanh
// ALONE: autopar.unary sqrt
autopar.mesh @mesh ["d" = 2]
func.func @main(%x: tensor<1048576xf32>, %y: tensor<1048576xf32>) -> (tensor<1048576xf32>, tensor<1048576xf32>) {
  %a = autopar.group %x : (tensor<1048576xf32>) -> tensor<1048576xf32> {
  ^bb0(%0: tensor<1048576xf32>):
    %1 = autopar.unary exp %0 : tensor<1048576xf32>
    autopar.yield %1 : tensor<1048576xf32>
  }
  %sum = autopar.all_reduce sum %a over @mesh ["d"] : tensor<1048576xf32>
  %s = autopar.group %sum : (tensor<1048576xf32>) -> tensor<1048576xf32> {
  ^bb0(%0: tensor<1048576xf32>):
    %1 = autopar.unary tanh %0 : tensor<1048576xf32>
    autopar.yield %1 : tensor<1048576xf32>
  }
  %b = autopar.group %y : (tensor<1048576xf32>) -> tensor<1048576xf32> {
  ^bb0(%0: tensor<1048576xf32>):
    %1 = autopar.unary sqrt %0 : tensor<1048576xf32>
    autopar.yield %1 : tensor<1048576xf32>
  }
  %c = autopar.group %b : (tensor<1048576xf32>) -> tensor<1048576xf32> {
  ^bb0(%0: tensor<1048576xf32>):
    %1 = autopar.unary neg %0 : tensor<1048576xf32>
    autopar.yield %1 : tensor<1048576xf32>
  }
  return %s, %c : tensor<1048576xf32>, tensor<1048576xf32>
}
