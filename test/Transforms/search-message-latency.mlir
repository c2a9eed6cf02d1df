// What messages between stages take in the search's step: their latency, once where it goes on beside other messages, and
// of each of the four micro-batches where who receives does nothing else meanwhile.
//
// RUN: echo '{"kind": "autopar.cluster", "version": 1, "name": "two", "device_types": [{"name": "gpu", "peak_flops_per_s": {"f32": 1e15}, "memory_bytes_per_s": 1e12, "memory_bytes": 1000000000}], "nodes": [{"count": 1, "devices_per_node": 2, "device_type": "gpu"}], "levels": [{"name": "inside", "latency_us": 1000, "bytes_per_s": 1e12}]}' > %t.json
// RUN: sed 's/"name": "gpu",/"name": "gpu", "communicates_while_idle": true,/' %t.json > %t.idle.json
// RUN: autopar-opt %s --split-input-file --autopar-cut-stages="stages=2 cluster=%t.json" --autopar-search=cluster=%t.json | FileCheck %s
// RUN: autopar-opt %s --split-input-file --autopar-cut-stages="stages=2 cluster=%t.idle.json" --autopar-search=cluster=%t.idle.json | FileCheck %s --check-prefix=IDLE
// CHECK: step_us\22:1000.
// IDLE: step_us\22:4000.
autopar.origin @a : tensor<64x64xf32>
autopar.origin @b : tensor<64x64xf32>
func.func @main(%all: tensor<4x4x64xf32> {autopar.name = "x"}, %a: tensor<64x64xf32> {autopar.name = "a", autopar.origin = @a}, %b: tensor<64x64xf32> {autopar.name = "b", autopar.origin = @b}) -> (tensor<4x4x64xf32> {autopar.name = "y"}) {
  %x = autopar.micro_batch %all {autopar.id = "x"} : tensor<4x4x64xf32> -> tensor<4x64xf32>
  %0 = autopar.dot_general %x, %a contract [1] x [0] {autopar.id = "first"} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  %1 = autopar.dot_general %0, %b contract [1] x [0] {autopar.id = "second"} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  %y = autopar.stack_micro_batches %1 {autopar.id = "y"} : tensor<4x64xf32> -> tensor<4x4x64xf32>
  return %y : tensor<4x4x64xf32>
}

// -----

// Of a single micro-batch.
// CHECK: step_us\22:1000.
// IDLE: step_us\22:1000.
autopar.origin @a : tensor<64x64xf32>
autopar.origin @b : tensor<64x64xf32>
func.func @main(%x: tensor<4x64xf32> {autopar.name = "x"}, %a: tensor<64x64xf32> {autopar.name = "a", autopar.origin = @a}, %b: tensor<64x64xf32> {autopar.name = "b", autopar.origin = @b}) -> (tensor<4x64xf32> {autopar.name = "y"}) {
  %0 = autopar.dot_general %x, %a contract [1] x [0] {autopar.id = "first"} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  %1 = autopar.dot_general %0, %b contract [1] x [0] {autopar.id = "second"} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  return %1 : tensor<4x64xf32>
}
