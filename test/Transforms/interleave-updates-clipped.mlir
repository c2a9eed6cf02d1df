// RUN: echo '{"kind": "autopar.cluster", "version": 1, "name": "c", "device_types": [{"name": "gpu", "peak_flops_per_s": {"f32": 1e15, "bf16": 1e15}, "memory_bytes_per_s": 8388608000, "memory_bytes": 10737418240}], "nodes": [{"count": 1, "devices_per_node": 2, "device_type": "gpu"}], "levels": [{"latency_us": 0, "bytes_per_s": 8388608000}]}' > %t.json
// RUN: autopar-opt %s --autopar-interleave-updates="cluster=%t.json" | FileCheck %s

// All updates wait for a number that is made of all of them, the norm of the gradients: it is of no update. Parts of the
// norm, which it reads in between, stay where they are; behind it updates take turns.

// CHECK: "a/sum"
// CHECK: "a/norm"
// CHECK: "b/sum"
// CHECK: "b/norm"
// CHECK: "norm"
// CHECK: "a0"
// CHECK: "a1"
// CHECK: "b0"
// CHECK: "b1"
// CHECK: "a"
// CHECK: "b"
autopar.mesh @mesh ["d" = 2]
func.func @main(%a: tensor<1048576xf32>, %b: tensor<1048576xf32>, %da: tensor<1048576xf32>, %db: tensor<1048576xf32>)
    -> (tensor<1048576xf32>, tensor<1048576xf32>) {
  %na = autopar.reduce sum %da dims [0] {autopar.id = "a/sum", autopar.phase = "update"} : tensor<1048576xf32> -> tensor<f32>
  %sa = autopar.all_reduce sum %na over @mesh ["d"] {autopar.id = "a/norm"} : tensor<f32>
  %nb = autopar.reduce sum %db dims [0] {autopar.id = "b/sum", autopar.phase = "update"} : tensor<1048576xf32> -> tensor<f32>
  %sb = autopar.all_reduce sum %nb over @mesh ["d"] {autopar.id = "b/norm"} : tensor<f32>
  %norm = autopar.binary add %sa, %sb {autopar.id = "norm", autopar.phase = "update"} : tensor<f32>
  %clip = autopar.broadcast %norm dims [] {autopar.phase = "update"} : tensor<f32> -> tensor<1048576xf32>
  %a0 = autopar.binary mul %da, %clip {autopar.id = "a0", autopar.phase = "update"} : tensor<1048576xf32>
  %a1 = autopar.all_reduce sum %a0 over @mesh ["d"] {autopar.id = "a1"} : tensor<1048576xf32>
  %a2 = autopar.binary mul %a, %a1 {autopar.id = "a", autopar.phase = "update"} : tensor<1048576xf32>
  %again = autopar.broadcast %norm dims [] {autopar.phase = "update"} : tensor<f32> -> tensor<1048576xf32>
  %b0 = autopar.binary mul %db, %again {autopar.id = "b0", autopar.phase = "update"} : tensor<1048576xf32>
  %b1 = autopar.all_reduce sum %b0 over @mesh ["d"] {autopar.id = "b1"} : tensor<1048576xf32>
  %b2 = autopar.binary mul %b, %b1 {autopar.id = "b", autopar.phase = "update"} : tensor<1048576xf32>
  return %a2, %b2 : tensor<1048576xf32>, tensor<1048576xf32>
}
