// A stage that shares a node with the next one, which reaches into another node: its messages are as slow as the slowest of them.
// A kernel of 3000 us, two messages of 1000 us over the network, a kernel of 1000 us.
//
// RUN: echo '{"kind": "autopar.cluster", "version": 1, "name": "two nodes", "device_types": [{"name": "gpu", "peak_flops_per_s": {"f32": 1e15}, "memory_bytes_per_s": 8388608000, "memory_bytes": 1000000000}], "nodes": [{"count": 2, "devices_per_node": 2, "device_type": "gpu"}], "levels": [{"name": "inside", "latency_us": 0, "bytes_per_s": 1e12, "nodes": 1}, {"name": "between", "latency_us": 0, "bytes_per_s": 4194304000}]}' > %t.json
// RUN: autopar-opt %s --pass-pipeline='builtin.module(func.func(autopar-insert-reshards,autopar-partition),autopar-evaluate-step{cluster=%t.json})' | FileCheck %s
// CHECK: autopar.step_us = 6.000000e+03 : f64
autopar.mesh @m0 ["x" = 1]
autopar.mesh @m1 ["x" = 2] devices [1, 2]
func.func @main(%x: tensor<2048x1024xf32> {autopar.name = "x"},
                %w: tensor<2048x1024xf32> {autopar.donated, autopar.name = "w", autopar.stage = 0 : i64}) -> (tensor<2048x1024xf32> {autopar.name = "y"})
    attributes {autopar.schedule = "1f1b", autopar.stage_meshes = 2 : i64} {
  %f = autopar.binary mul %x, %w {autopar.id = "f"} : tensor<2048x1024xf32>
  %there = autopar.transfer %f to 1 {autopar.id = "f/to.1", autopar.strategy = #autopar.strategy<@m1, [{"x"}, {}]>} : tensor<2048x1024xf32>
  %g = autopar.unary exp %there {autopar.id = "g", autopar.strategy = #autopar.strategy<@m1, [{"x"}, {}]>} : tensor<2048x1024xf32>
  return %g : tensor<2048x1024xf32>
}
