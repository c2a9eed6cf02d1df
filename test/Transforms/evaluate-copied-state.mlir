// What is not written where a state lies is copied there, as lowering will have it.
//
// RUN: echo '{"kind": "autopar.cluster", "version": 1, "name": "slow", "device_types": [{"name": "cpu", "peak_flops_per_s": {"f32": 1e15}, "memory_bytes_per_s": 1e9, "memory_bytes": 1000000000}], "nodes": [{"count": 1, "devices_per_node": 1, "device_type": "cpu"}], "levels": [{"name": "memory", "latency_us": 0, "bytes_per_s": 1e9}]}' > %t.json
// RUN: autopar-opt %s --split-input-file --autopar-evaluate-step=cluster=%t.json | FileCheck %s

// A product reads all of the old value while it writes the new one: 256 KiB are read twice and written, then copied.
// CHECK: autopar.step_us = 1.310720e+03
module {
  autopar.mesh @mesh ["t" = 1]
  func.func @main(%x: tensor<256x256xf32> {autopar.name = "x"}, %s: tensor<256x256xf32> {autopar.name = "s", autopar.donated}) -> (tensor<256x256xf32> {autopar.name = "s"}) {
    %y = autopar.dot_general %x, %s contract [1] x [0] : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    return %y : tensor<256x256xf32>
  }
}

// -----

// A kernel that reads it element by element writes over it.
// CHECK: autopar.step_us = 7.864320e+02
module {
  autopar.mesh @mesh ["t" = 1]
  func.func @main(%x: tensor<256x256xf32> {autopar.name = "x"}, %s: tensor<256x256xf32> {autopar.name = "s", autopar.donated}) -> (tensor<256x256xf32> {autopar.name = "s"}) {
    %y = autopar.binary add %x, %s : tensor<256x256xf32>
    return %y : tensor<256x256xf32>
  }
}

// -----

// A micro-batch of a cache is changed in a copy of its part (2 x 525.8), these are stacked (786.4) and become state by a copy (1048.6): nobody
// writes into the argument.
// CHECK: autopar.step_us = 2886.65
module {
  autopar.mesh @mesh ["t" = 1]
  func.func @main(%cache: tensor<2x1024x64xf32> {autopar.donated, autopar.name = "cache"}, %ids: tensor<2x1x2x64xi64> {autopar.micro_batches = 2 : i64, autopar.name = "ids"},
                  %g: tensor<2x1x2x64xf32> {autopar.micro_batches = 2 : i64, autopar.name = "g"}) -> (tensor<2x1024x64xf32> {autopar.name = "cache"}) {
    %0 = autopar.reshape %cache : tensor<2x1024x64xf32> -> tensor<2x1x1024x64xf32>
    %1 = autopar.micro_batch %0 : tensor<2x1x1024x64xf32> -> tensor<1x1024x64xf32>
    %2 = autopar.micro_batch %ids : tensor<2x1x2x64xi64> -> tensor<1x2x64xi64>
    %3 = autopar.micro_batch %g : tensor<2x1x2x64xf32> -> tensor<1x2x64xf32>
    %4 = autopar.scatter_elements assign %1, %2, %3 dim 1 {autopar.id = "new"} : (tensor<1x1024x64xf32>, tensor<1x2x64xi64>, tensor<1x2x64xf32>) -> tensor<1x1024x64xf32>
    %5 = autopar.stack_micro_batches %4 {autopar.id = "new/stack"} : tensor<1x1024x64xf32> -> tensor<2x1x1024x64xf32>
    %6 = autopar.reshape %5 : tensor<2x1x1024x64xf32> -> tensor<2x1024x64xf32>
    return %6 : tensor<2x1024x64xf32>
  }
}
