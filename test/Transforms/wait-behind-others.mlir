// RUN: echo '{"kind": "autopar.cluster", "version": 1, "name": "c", "device_types": [{"name": "gpu", "peak_flops_per_s": {"f32": 1e15, "bf16": 1e15}, "memory_bytes_per_s": 8388608000, "memory_bytes": 1073741824}], "nodes": [{"count": 1, "devices_per_node": 4, "device_type": "gpu"}], "levels": [{"latency_us": 0, "bytes_per_s": 8388608000}]}' > %t.json
// RUN: autopar-opt %s --autopar-wait-behind="cluster=%t.json" | FileCheck %s
// RUN: autopar-opt %s --autopar-wait-behind="cluster=%t.json memory-limit=1048576" | FileCheck %s --check-prefix=FULL

// The gradient is reduced along both axes and read at the end, the activation behind it at once: the
// second is reduced first, both halves of the first while the root is computed.
// CHECK-LABEL: func.func @main
// CHECK: autopar.unary exp
// CHECK: %[[ACTIVATION:.*]] = autopar.all_reduce
// CHECK-NEXT: %[[ROWS:.*]] = autopar.reduce_scatter
// CHECK-NEXT: autopar.reduce_scatter sum %[[ROWS]]
// CHECK: autopar.group %[[ACTIVATION]]
// CHECK: autopar.unary sqrt
// Where there is no room for what waits, it does not.
// FULL-LABEL: func.func @main
// FULL: autopar.reduce_scatter
// FULL-NEXT: autopar.reduce_scatter
// FULL: autopar.all_reduce
autopar.mesh @mesh ["d" = 2, "t" = 2]
func.func @main(%x: tensor<1048576xf32>, %g: tensor<1048576xf32>) -> (tensor<1048576xf32>, tensor<262144xf32>) {
  %a = autopar.group %x : (tensor<1048576xf32>) -> tensor<1048576xf32> {
  ^bb0(%0: tensor<1048576xf32>):
    %1 = autopar.unary exp %0 : tensor<1048576xf32>
    autopar.yield %1 : tensor<1048576xf32>
  }
  %rows = autopar.reduce_scatter sum %g dim 0 over @mesh ["d"] : tensor<1048576xf32> -> tensor<524288xf32>
  %part = autopar.reduce_scatter sum %rows dim 0 over @mesh ["t"] : tensor<524288xf32> -> tensor<262144xf32>
  %sum = autopar.all_reduce sum %a over @mesh ["t"] : tensor<1048576xf32>
  %s = autopar.group %sum : (tensor<1048576xf32>) -> tensor<1048576xf32> {
  ^bb0(%0: tensor<1048576xf32>):
    %1 = autopar.unary sqrt %0 : tensor<1048576xf32>
    autopar.yield %1 : tensor<1048576xf32>
  }
  return %s, %part : tensor<1048576xf32>, tensor<262144xf32>
}
