// Where what computes also moves the bytes of messages, it does so inside a node only: between nodes an all-reduce of 1000 us goes
// on beside a kernel that takes as long.
//
// RUN: echo '{"kind": "autopar.cluster", "version": 1, "name": "slow", "device_types": [{"name": "cpu", "peak_flops_per_s": {"f32": 1e15}, "memory_bytes_per_s": 8388608000, "memory_bytes": 1000000000, "communicates_while_idle": true}], "nodes": [{"count": 1, "devices_per_node": 2, "device_type": "cpu"}], "levels": [{"name": "inside", "latency_us": 0, "bytes_per_s": 4194304000, "nodes": 1}, {"name": "between", "latency_us": 0, "bytes_per_s": 4194304000}]}' > %t.inside.json
// RUN: sed 's/"count": 1, "devices_per_node": 2/"count": 2, "devices_per_node": 1/' %t.inside.json > %t.between.json
// RUN: autopar-opt %s --autopar-evaluate-step="cluster=%t.inside.json" | FileCheck %s --check-prefix=INSIDE
// RUN: autopar-opt %s --autopar-evaluate-step="cluster=%t.between.json" | FileCheck %s --check-prefix=BETWEEN
// A processor that moves the bytes of a network loses 200 us of computing to 1000 us of them.
// RUN: sed 's/"bytes_per_s": 4194304000}\]/"bytes_per_s": 4194304000, "compute_loss": 0.2}]/' %t.between.json > %t.loses.json
// RUN: autopar-opt %s --autopar-evaluate-step="cluster=%t.loses.json" | FileCheck %s --check-prefix=LOSES
// LOSES: autopar.step_us = 2.200000e+03 : f64
// INSIDE: autopar.step_us = 3.000000e+03 : f64
// BETWEEN: autopar.step_us = 2.000000e+03 : f64
autopar.mesh @mesh ["t" = 2]
func.func @main(%x: tensor<1048576xf32>) -> (tensor<1048576xf32>, tensor<1048576xf32>) {
  %y = autopar.unary exp %x : tensor<1048576xf32>
  %sum = autopar.all_reduce sum %y over @mesh ["t"] : tensor<1048576xf32>
  %z = autopar.unary sqrt %x : tensor<1048576xf32>
  return %sum, %z : tensor<1048576xf32>, tensor<1048576xf32>
}
